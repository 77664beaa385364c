"""Fill in the tables and outputs of README.md, docs/quickstart.md and docs/gpu.md from records: every number has one.

python docs/readme.py          # tables and outputs from the records in results/
python docs/readme.py --run    # first run the commands of both pages again, and draw the picture of the README
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mtsa.bench import gpu_resources
from mtsa.files import write_json, write_text
from mtsa.machine import environment_info
from mtsa.model_selection.comparison_report import Comparison

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
RECORD = RESULTS / "quickstart" / "quickstart.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "quickstart.md", ROOT / "docs" / "gpu.md")
PICTURE = "attention.png"

_TABLE = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(?=<!-- end -->)", re.S)
_OUTPUT = re.compile(r"(<!-- output(?:: (brief))? -->\n```console\n)(.*?)(?=```)", re.S)
_ENCODERS = {"mtsa": "MTSA", "multihead": "multi-head", "bilstm": "Bi-LSTM", "disa": "DiSA", "mtsa_none": "no context"}
_MODELS = {"minilm-finetuned": "MiniLM, fine-tuned", "minilm-lr": "MiniLM + LR", "mtsa": "MTSA", "tfidf": "TF-IDF + LR"}
_SHOWN = re.compile(r'^best step.*|^accuracy.*|^\{"label".*', re.M)  # of a brief output: the metrics, and the prediction


def table(name: str) -> str:
    """A table by name."""
    return _gpu() if name == "gpu" else _TABLES[name]()


def _gpu() -> str:
    """Resources of the compiled kernels, from `mtsa bench gpu --resources`."""
    header, rows = gpu_resources.summary(_read("gpu/gpu-resources.json"))
    return _markdown(header, *rows)


def _encoders() -> str:
    """Encoders in the same sentence-pair model: accuracy at half width (`table nli`), cost at full width (`bench nli`)."""
    cost = _read("nli-cost/bench-nli.json")
    rows = {row["name"]: row for row in cost["rows"] if row["length"] == 25}
    memory = {row["name"]: row["step_bytes"] for row in cost["memory"]}
    return _markdown(
        ["", *_ENCODERS.values()],
        ["test accuracy, % (half width)", *(_accuracy("nli/snli-subset", name) for name in _ENCODERS)],
        ["training step, multi-head = 1 (full width, 64 x 25)", *(f"{rows[name]['step_ratio']:.2f}" for name in _ENCODERS)],
        ["inference, multi-head = 1 (full width, 64 x 25)", *(f"{rows[name]['inference_ratio']:.2f}" for name in _ENCODERS)],
        ["peak memory of a training step, MB (full width, 64 x 64)", *(f"{memory[name] / 1e6:,.0f}" for name in _ENCODERS)],
    )


def _classifiers() -> str:
    """Classifiers on the included questions, from a record of `mtsa compare`."""
    path = RESULTS / "compare" / "questions.json"
    results = {one.name: one for one in Comparison(path.parent, json.loads(path.read_text())).standings}
    models = [results[name] for name in _MODELS]
    return _markdown(
        ["", *_MODELS.values()],
        ["accuracy, % (95 % interval)", *(f"{one.mean:.1f} ({one.low:.0f} to {one.high:.0f})" for one in models)],
        ["training, seconds per fold", *(f"{one.train_seconds:,.1f}" for one in models)],
        ["prediction, texts per second", *(f"{one.texts_per_second:,.0f}" for one in models)],
        ["size, MB", *(f"{one.bytes / 1e6:,.1f}" for one in models)],
    )


def _layer() -> str:
    """The layer relative to `nn.MultiheadAttention`, from a record of `mtsa bench layer`."""
    rows = {(row["name"], row["length"]): row for row in _read("layer/bench-layer.json")["rows"]}
    lengths = (16, 64, 1024, 4096)
    lines = [["ratio, `paper` / `released`", *(f"{rows['paper', n]['batch']} x {n:,}" for n in lengths)]]
    titles = {"step_ratio": "training step", "inference_ratio": "inference", "memory": "peak memory of a training step"}
    for key, title in titles.items():
        line = [title]
        for n in lengths:
            multihead = rows["multihead", n]["step_bytes"]
            ratios = (rows[form, n] | {"memory": rows[form, n]["step_bytes"] / multihead} for form in ("paper", "released"))
            line.append(" / ".join(f"{row[key]:.2f}" for row in ratios))
        lines.append(line)
    return _markdown(*lines)


_TABLES: dict[str, Callable[[], str]] = {
    "classifiers": _classifiers,
    "encoders": _encoders,
    "layer": _layer,
}


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _accuracy(folder: str, model: str) -> str:
    """Mean and standard deviation over seeds, in percent; the number of seeds where it is not 3."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS / folder / model).glob("seed-*.json")]
    values = [100 * record["test"]["test"]["accuracy"] for record in records]
    spread = f" ({statistics.stdev(values):.1f})" if len(values) > 1 else ""
    note = "" if len(values) == 3 else f" [{len(values)} seed{'s' * (len(values) > 1)}]"
    return f"{statistics.fmean(values):.1f}{spread}{note}"


def _markdown(head: list[str], *rows: list[str]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill_in(text: str) -> str:
    """A page with its tables and outputs made from the records."""
    outputs = json.loads(RECORD.read_text(encoding="utf-8"))["outputs"]

    def block(found: re.Match[str]) -> str:
        shown = [(command, outputs[command]) for command in _commands(found[3])]
        if found[2]:
            shown = [(command, brief(text)) for command, text in shown]
        return found[1] + "".join(f"$ {command}\n{text}\n" for command, text in shown)

    text = _TABLE.sub(lambda found: f"{found[1]}{table(found[2])}\n", text)
    return _OUTPUT.sub(block, text)


def brief(output: str) -> str:
    """The line with the result; of a prediction, the probability of the predicted class only. The rest is `...`."""
    line = next(match[0] for match in _SHOWN.finditer(output))
    if line.startswith("{"):
        prediction = json.loads(line)
        label, probability = json.dumps(prediction["label"]), prediction["probabilities"][prediction["label"]]
        return f'{{"label": {label}, "probabilities": {{..., {label}: {probability:.4f}, ...}}}}'
    return line if line == output else f"{line}\n..."


def _commands(text: str) -> list[str]:
    return re.findall(r"^\$ (mtsa .+)$", text, re.M)


def run() -> None:
    """Run the commands whose output is shown, in an empty folder, and draw the picture of the README."""
    shown = [command for page in PAGES for block in _OUTPUT.findall(page.read_text()) for command in _commands(block[2])]
    outputs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples" / "data", folder / "examples" / "data")
        for command in dict.fromkeys(shown):
            print(command, flush=True)
            arguments = re.findall(r'"[^"]*"|\S+', command.removeprefix("mtsa "))
            outputs[command] = _run([argument.strip('"') for argument in arguments], folder)
        _run(["train", "--train", "corpus:questions", "--out", "runs/words"], folder)
        _run(["explain", "runs/words", "Who painted the ceiling of the old chapel ?", "--out", PICTURE], folder)
        shutil.copy(folder / PICTURE, ROOT / "docs" / "images" / PICTURE)
    write_json(RECORD, {**environment_info(), "outputs": outputs})


def _run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, "-m", "mtsa", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.rstrip()


def main() -> None:
    """Update the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="run the commands again")
    if parser.parse_args().run:
        run()
    for page in PAGES:
        write_text(page, fill_in(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()

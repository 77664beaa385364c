"""Fill in the tables and outputs of README.md and docs/quickstart.md from records: every number has one.

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

from mtsa.files import write_json, write_text
from mtsa.machine import circumstances
from mtsa.model_selection.comparison_report import Comparison

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
RECORD = RESULTS / "quickstart" / "quickstart.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "quickstart.md")
PICTURE = "attention.png"

_TABLE = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(?=<!-- end -->)", re.S)
_OUTPUT = re.compile(r"(<!-- output(?:: (brief))? -->\n```console\n)(.*?)(?=```)", re.S)
_ENCODERS = {"mtsa": "MTSA", "multihead": "multi-head", "bilstm": "Bi-LSTM", "disa": "DiSA", "mtsa_none": "no context"}
_MODELS = {"minilm-finetuned": "MiniLM, fine-tuned", "minilm-lr": "MiniLM + LR", "mtsa": "MTSA", "tfidf": "TF-IDF + LR"}
_HEADS = {
    "mean": "mean (default)",
    "residual_mtsa": "MTSA residual, mean",
    "residual_multihead": "multi-head residual, mean",
    "source2token": "source2token",
    "minilm-lr": "not fine-tuned, LR",
}


def table(name: str) -> str:
    """A table of the README by name."""
    return _TABLES[name]()


def _encoders() -> str:
    """Encoders in the same sentence-pair model: accuracy from the table `nli`, cost from `bench nli`."""
    cost = _read("nli-cost/bench-nli.json")
    rows = {row["name"]: row for row in cost["rows"] if row["length"] == 25}
    memory = {row["name"]: row["step_bytes"] for row in cost["memory"]}
    return _markdown(
        ["", *_ENCODERS.values()],
        ["test accuracy", *(_accuracy("nli/snli-subset", name) for name in _ENCODERS)],
        ["training step, relative to multi-head", *(f"{rows[name]['step_ratio']:.2f}" for name in _ENCODERS)],
        ["inference, relative to multi-head", *(f"{rows[name]['inference_ratio']:.2f}" for name in _ENCODERS)],
        ["peak memory of a training step, MB", *(f"{memory[name] / 1e6:,.0f}" for name in _ENCODERS)],
        ["parameters, millions", *(f"{rows[name]['parameters'] / 1e6:.2f}" for name in _ENCODERS)],
    )


def _classifiers() -> str:
    """Whole classifiers on the embedded questions, by `mtsa compare`."""
    path = RESULTS / "compare" / "questions.json"
    found = {one.name: one for one in Comparison(path.parent, json.loads(path.read_text())).standings}
    chosen = [found[name] for name in _MODELS]
    return _markdown(
        ["", *_MODELS.values()],
        ["accuracy", *(f"{one.mean:.1f}" for one in chosen)],
        ["training, seconds per fold", *(f"{one.train_seconds:,.1f}" for one in chosen)],
        ["prediction, texts per second", *(f"{one.texts_per_second:,.0f}" for one in chosen)],
        ["size, MB", *(f"{one.bytes / 1e6:,.1f}" for one in chosen)],
    )


def _trec() -> str:
    """Heads over MiniLM on TREC, from the table `pretrained`."""
    return _markdown(
        ["over MiniLM", *_HEADS.values()], ["TREC test accuracy", *(_accuracy("pretrained/trec", name) for name in _HEADS)]
    )


def _layer() -> str:
    """The layer relative to `nn.MultiheadAttention`, from both presets of `mtsa bench layer`."""
    short = {
        (row["batch"], row["length"], row["mode"], row["name"]): row["ratio"]
        for row in _read("sentences/bench-sentences.json")["rows"]
        if row["width"] == 600 and not row["compiled"]
    }
    rows = _read("layer/bench-layer.json")["rows"]
    long = {(row["length"], row["name"]): row for row in rows}
    multihead = {row["length"]: row["step_bytes"] for row in rows if row["name"] == "multihead"}
    lengths, forms = (1024, 4096), ("paper", "released")
    lines = [["`paper` / `released`", "64 x 25", "64 x 64", *(f"{long[n, 'paper']['batch']} x {n:,}" for n in lengths)]]
    for title, mode, key in (("training step", "training", "step_ratio"), ("inference", "inference", "inference_ratio")):
        near = [" / ".join(f"{short[64, n, mode, form]:.2f}" for form in forms) for n in (25, 64)]
        lines.append([title, *near, *(" / ".join(f"{long[n, form][key]:.2f}" for form in forms) for n in lengths)])
    memory = [" / ".join(f"{long[n, form]['step_bytes'] / multihead[n]:.2f}" for form in forms) for n in lengths]
    return _markdown(*lines, ["memory of a training step", "not measured", "not measured", *memory])


_TABLES: dict[str, Callable[[], str]] = {
    "classifiers": _classifiers,
    "encoders": _encoders,
    "layer": _layer,
    "trec": _trec,
}


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _accuracy(folder: str, model: str) -> str:
    """Mean and standard deviation over seeds, in percent; the number of seeds where it is not 3."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS / folder / model).glob("seed-*.json")]
    values = [100 * record["test"]["test"]["accuracy"] for record in records]
    spread = f" ({statistics.stdev(values):.1f})" if len(values) > 1 else ""
    note = "" if len(values) == 3 else f" [{len(values)} seed{'s' * (len(values) > 1)}]"
    return f"{statistics.fmean(values):.1f}{spread}{'' if model == 'minilm-lr' else note}"


def _markdown(head: list[str], *rows: list[str]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill_in(text: str) -> str:
    """A page with its tables and outputs made from the records."""
    outputs = json.loads(RECORD.read_text(encoding="utf-8"))["outputs"]

    def block(found: re.Match[str]) -> str:
        shown = [(command, outputs[command]) for command in _commands(found[3])]
        if found[2]:  # brief: the first paragraph
            shown = [(command, re.sub(r"\n\n.*", "\n...", text, flags=re.S)) for command, text in shown]
        return found[1] + "".join(f"$ {command}\n{text}\n" for command, text in shown)

    text = _TABLE.sub(lambda found: f"{found[1]}{table(found[2])}\n", text)
    return _OUTPUT.sub(block, text)


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
    write_json(RECORD, {**circumstances(), "outputs": outputs})


def _run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run([sys.executable, "-m", "mtsa", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.rstrip()


def main() -> None:
    """Update both pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="run the commands again")
    if parser.parse_args().run:
        run()
    for page in PAGES:
        write_text(page, fill_in(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()

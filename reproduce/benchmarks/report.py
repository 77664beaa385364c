"""Sections of the results pages about benchmarks, generated from their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mtsa.bench import sentences
from mtsa.bench.layer import aligned, growth, stops, table
from mtsa.errors import InputError
from mtsa.inference import export_parity as parity
from mtsa.messages import one_line
from reproduce.markdown import markdown
from reproduce.names import display

from . import cost, decoding, language_model, packed, paper_recipes, serving, stacks, tagging, texts_per_second
from . import nli as pairs

_TITLES = {
    "step": "Training step (forward, backward, gradient of the input), and its ratio to `nn.MultiheadAttention`",
    "operations": "Counted multiply-adds of the forward pass, ratio to multi-head attention",
    "inference": "Inference",
    "memory": "Peak additional memory of a training step (separate process)",
}


_CHECKS = ("attack", "export")
"""Kinds of records that are not about speed or memory."""


def sections(records: Path, page: str = "") -> list[str]:
    """Return a section for every benchmark record in `records`; with a page, "speed" or "checks", those of the page.

    Raises:
        InputError: a file that is not a valid record.
    """
    kinds = {
        "nli": _pair_section,
        "tagging": _batch_section,
        "serving": _batch_section,
        "export": _export_section,
        "attack": _robustness_section,
        "cost": _cost_section,
        "newcomer": _quickstart_section,
        "translation": _stack_section,
        "srl": _stack_section,
        "sentences": _sentence_section,
        "paper-recipes": _paper_section,
        "texts-per-second": _texts_section,
        "packed": _packed_section,
        "decoding": _decoding_section,
        "language model": _language_section,
    }
    parts = []
    for path in sorted(records.glob("*/bench-*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            kind = record.get("kind", "")
            if page in ("", "checks" if kind in _CHECKS else "speed"):
                parts.append(kinds.get(kind, _section)(record, path.relative_to(records)))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise InputError(f"{path} is not a valid record ({one_line(error)}); delete it and rerun the benchmark") from None
    return parts


def layer_summary(records: Path) -> list[str]:
    """Return a paragraph with the ranges of the layer's ratios to `nn.MultiheadAttention`, over all lengths and widths."""
    ratios: dict[tuple[str, str], list[float]] = {}
    for path in sorted(records.glob("*/bench-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for row in record["rows"] if record.get("kind", "") in ("", "layer", "sentences") else ():
            if row.get("name") not in ("paper", "released") or "stopped" in row or row.get("compiled"):
                continue
            if "ratio" in row:
                ratios.setdefault((row["name"], row["mode"]), []).append(row["ratio"])
            for key, mode in (("step_ratio", "training"), ("inference_ratio", "inference")):
                if key in row:
                    ratios.setdefault((row["name"], mode), []).append(row[key])
    if not ratios:
        return []
    spans = (
        f"{mode} with form `{name}` {min(values):.2f} to {max(values):.2f}" for (name, mode), values in sorted(ratios.items())
    )
    text = (
        "Time of one `MultiMaskAttention` layer relative to `nn.MultiheadAttention` on a CPU, over all lengths and widths "
        f"below (less than 1 is faster): {'; '.join(spans)}.\n"
    )
    return [text]


def _circumstances(record: dict[str, Any], path: Path) -> str:
    version, device = (*record["versions"]["torch"].split("+"), "")[:2]
    machine = record["machine"]
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}"
    kind = f" ({device.upper()})" if device else ""
    measured = f"Measured {record['time'][:10]}, PyTorch {version}{kind}, {threads}, {machine['processor']}."
    return f"{measured} Record: `results/{path}`."


_PAPER_TEXT = """\
Each recipe was trained for {steps} steps on a sample in the official format (`python -m reproduce bench paper`). Time is the
median of a step multiplied by the number of steps, without evaluations. Memory is the peak of the process above its memory
before training, without the word vectors of GloVe (up to 0.5 GB). Operations are counted; divided by the throughput of a
GPU on such layers, they give an estimate of its time.
"""


def _paper_section(record: dict[str, Any], path: Path) -> str:
    """Time and memory of trainings with the paper's settings."""
    text = _PAPER_TEXT.format(steps=record["rows"][0]["measured_steps"] + 1)
    parts = ["## Training with the paper's settings\n", _circumstances(record, path), text]
    return "\n".join([*parts, markdown(paper_recipes.table(record)), ""])


def _texts_section(record: dict[str, Any], path: Path) -> str:
    """Texts per second of fine-tuning and prediction."""
    about = (
        f"{record['texts']:,} texts of `{record['data']}`, {record['words_per_text']:.0f} words each on average; models are "
        "trained for one step, which does not change their speed."
    )
    parts = ["## Texts per second with MiniLM, compared with other libraries\n", _circumstances(record, path), about, ""]
    return "\n".join([*parts, *(f"{markdown(table)}\n" for table in texts_per_second.tables(record))])


def _packed_section(record: dict[str, Any], path: Path) -> str:
    """The time that packed sequences save."""
    about = (
        f"Batches of `{record['corpus']}` in the model of the recipe `snli.paper`, and all their sentences in its layer "
        "alone: CPU time of all measured batches (`python -m reproduce bench packed`). Padded models split a batch into "
        "two groups by length where that saves padding; packed models compute no padding.\n"
    )
    parts = ["## Packed sequences on batches of SNLI\n", _circumstances(record, path), about]
    return "\n".join([*parts, markdown(packed.table(record)), ""])


def _decoding_section(record: dict[str, Any], path: Path) -> str:
    """The time of a token with a cache."""
    setting = record["setting"]
    about = (
        f"A causal layer of width {setting['width']} with {setting['heads']} heads, {setting['batch']} sequences: median CPU "
        "time of one more token for each, and CPU time of the layer on the whole sequences without a cache "
        "(`python -m reproduce bench decoding`). The difference is the largest one between both outputs.\n"
    )
    parts = ["## Incremental decoding\n", _circumstances(record, path), about]
    return "\n".join([*parts, markdown(decoding.table(record)), ""])


def _language_section(record: dict[str, Any], path: Path) -> str:
    """Perplexity of small language models."""
    setting, row = record["setting"], record["rows"][0]
    sources = ", ".join(f"`{name}`" for name in record["sources"])
    spread = ""
    if any(other["seed"] != row["seed"] for other in record["rows"]):
        spread = (
            " Each seed has its own dev part and initial weights. The difference is that of two models with the same seed; "
            "the numbers after ± are standard deviations over the seeds."
        )
    about = (
        f"GPT with {setting['layers']} layers of width {setting['width']}, and the same model with tensorized attention and "
        f"a causal mask; {row['texts']:,} texts of {sources}, {setting['steps']:,} steps of {setting['batch']} x "
        f"{setting['length']} tokens, identical settings for both (`python -m reproduce bench language-model`). Dev loss in "
        f"nats per token, on {row['dev_tokens']:,} tokens.{spread} The settings were not tuned for either model.\n"
    )
    parts = ["## Small language models\n", _circumstances(record, path), about]
    return "\n".join([*parts, markdown(language_model.table(record)), ""])


def _batch_section(record: dict[str, Any], path: Path) -> str:
    """Speed of tagging in batches, or of concurrent requests."""
    titles = {"tagging": "Tagging in batches", "serving": "Server throughput"}
    lines = {"tagging": tagging.lines, "serving": serving.lines}[record["kind"]](record)
    about = ", ".join(f"{key} {value}" for key, value in record["encoder"].items())
    return "\n".join(
        [
            f"## {titles[record['kind']]}\n",
            _circumstances(record, path),
            f"Task {record['task']}, encoder: {about}; {record['data']}.\n",
            *(f"- {line}" for line in lines),
            "",
        ]
    )


def _export_section(record: dict[str, Any], path: Path) -> str:
    """Differences between an exported model and the model, and its speed."""
    about = ", ".join(f"{key} {value}" for key, value in record["encoder"].items())
    lines = [f"## Exported model ({record['form']})\n", _circumstances(record, path)]
    lines += [f"Task {record['task']}, encoder: {about}.\n", "```", *parity.report_lines(record), "```", ""]
    return "\n".join(lines)


def _sentence_section(record: dict[str, Any], path: Path) -> str:
    """The layer at sentence length, compared with multi-head attention and a plain version."""
    about = (
        f"Half of the sequences are padded. Training has dropout {record['setting']['dropout']} on the input of every dense "
        "layer; multi-head attention has it on its input and output. `plain`: Algorithm 1 in PyTorch without the numerical "
        "fallback. Columns: time of multi-head attention, and the ratios of the others to it.\n"
    )
    header, rows = sentences.table(record)
    lines = ["## MultiMaskAttention vs nn.MultiheadAttention at sentence length\n", _circumstances(record, path), about]
    return "\n".join([*lines, "```", aligned([*header[:3], f"{header[3]}, time", *header[4:]], rows), "```", ""])


def _cost_section(record: dict[str, Any], path: Path) -> str:
    """The cost model, and its estimates of trainings that were not run."""
    setting = record["setting"]
    shapes = f"lengths {setting['lengths']}, widths {setting['widths']}, {setting['tokens']} tokens, {setting['heads']} heads"
    return "\n".join(
        [
            "## Cost model\n",
            _circumstances(record, path),
            f"Training steps of a layer at {shapes}; see [cost model](../cost.md) for the formula.\n",
            f"{markdown(cost.rows(record))}\n",
            f"{cost.reduce_line(record)}\n",
            "Estimates (not measured):\n",
            *(f"- {line}" for line in cost.paper_lines()),
            "",
        ]
    )


def _stack_section(record: dict[str, Any], path: Path) -> str:
    """Cost of the encoder of a translation model or of an SRL model."""
    setting = record["setting"]
    title, unit = ("translation model", "subwords") if record["kind"] == "translation" else ("SRL model", "words")
    lines = [f"## Encoder of the {title}\n", _circumstances(record, path)]
    lines += [f"Training step (forward, backward) of {setting['tokens']:,} {unit}, 10 % of them padding.\n"]
    for name, text in stacks.tables(record).items():
        lines += [f"Sizes and dropout of `{name}`:\n", f"```\n{text}\n```\n"]
    return "\n".join(lines)


def _quickstart_section(record: dict[str, Any], path: Path) -> str:
    """Time of each command from a clone to predictions."""
    steps = [[step["command"], f"{step['seconds']:.0f} s"] for step in record["steps"]]
    total = f"{sum(step['seconds'] for step in record['steps']) / 60:.1f} min"
    return "\n".join(
        [
            "## Time from a clone to a trained model\n",
            _circumstances(record, path),
            f"{record['rows']:,} rows; accuracy on the 10 % held out for validation: {record['dev_accuracy']:.3f}.\n",
            f"```\n{aligned(['command', 'time'], [*steps, ['all', total]])}\n```\n",
        ]
    )


_INPUTS = {
    "label and text": "label_text",
    "label and pair": "label_pair",
    "tags in columns": "tags, columns",
    "tags, JSON": "tags, JSON lines",
    "SNLI, JSON": "SNLI, JSON lines",
    "SNLI, tab": "SNLI, tab-separated",
    "words of props": "words of a props file",
    "roles, JSON": "semantic roles, JSON lines",
    "index of shards": "index of a sharded file",
    "check of a file": "mtsa data check, texts",
    "check of tags": "mtsa data check, tags",
    "check of roles": "mtsa data check, semantic roles",
    "request to the server": "HTTP request",
}
"""Names on the page for those in records."""
_COMMANDS = {
    "training": "mtsa train",
    "pretraining": "mtsa pretrain",
    "making a table": "reproduce table",
    "dealing into shards": "mtsa data shard",
    "downloading": "mtsa data get",
}


def _robustness_section(record: dict[str, Any], path: Path) -> str:
    """Numbers of corrupted inputs and of interrupted commands, and the bytes lost."""
    inputs, kills = record["inputs"], record["kills"]
    keys = ("tried", "refused", "read")
    files = [
        [_INPUTS.get(row["name"], row["name"]).replace("run folder", "run directory"), *(f"{row[key]:,}" for key in keys)]
        for row in inputs
    ]
    total = [f"{sum(row[key] for row in inputs):,}" for key in keys]
    commands = []
    for row in kills:
        lost = str(row["bytes"]) if row["late"] else "-"  # without checkpoints, only the result can be lost
        counts = (str(row[key]) for key in ("kills", "late", "ends", "different"))
        commands.append([_COMMANDS.get(row["name"], row["name"]), *counts, lost])
    header = ["command", "kills", "kills after a checkpoint", "completed runs", "different results", "lost checkpoint bytes"]
    return "\n".join(
        [
            "## Robustness: corrupted files and interruptions\n",
            _circumstances(record, path),
            "Corrupted inputs are rejected with an error message or read successfully; no other outcome occurred.\n",
            f"```\n{aligned(['input', 'tried', 'rejected', 'read'], [*files, ['all', *total]])}\n```\n",
            "Commands are killed with SIGKILL at random times, rerun until they complete, and repeated.\n",
            f"```\n{aligned(header, commands)}\n```\n",
        ]
    )


def _pair_section(record: dict[str, Any], path: Path) -> str:
    """Cost of the pair models of the paper's Table 1."""
    setting = record["setting"]
    counts = {row["name"]: row["parameters"] for row in record["rows"]}
    parameters = aligned(["model", "parameters"], [[display(name), f"{count:,}"] for name, count in counts.items()])
    about = (
        f"The paper's width (300-d words, 600-d encoders), batch {setting['batch']}, dropout {setting['dropout']}, fastest "
        f"of {setting['repeats']} interleaved repeats. Columns: sentence length (both sentences). Ratios are relative to "
        "multi-head attention, which has 8 heads of 75; MTSA has 2 heads of 300, `MTSA, 8 heads` has 8 of 75.\n"
    )
    lines = [
        "## Cost of the NLI models\n",
        _circumstances(record, path),
        about,
        f"### Parameters (without word embeddings)\n\n```\n{parameters}\n```\n",
    ]
    titles = {"step": "Training step", "inference": "Inference", "operations": "Counted multiply-adds of the forward pass"}
    lines += [f"### {title}\n\n```\n{aligned(*pairs.table(record, name))}\n```\n" for name, title in titles.items()]
    lines.append(f"### Peak memory of a training step\n\n```\n{aligned(*pairs.memory_rows(record))}\n```\n")
    if record["passes"]:
        title = "Estimated time of one epoch (forward and backward) and of the prediction of the dev pairs"
        lines.append(f"### {title}\n\nExtrapolated from a sample of batches.\n")
        lines.append(f"```\n{aligned(*pairs.pass_rows(record))}\n```\n")
    return "\n".join(lines)


def _section(record: dict[str, Any], path: Path) -> str:
    setting = record["setting"]
    batch = f"batch {setting['batch']}" if setting["batch"] else "about 4,096 tokens per batch, at most 128 sequences"
    long_texts = "encoder:hierarchical_mtsa" in setting["names"] and max(setting["lengths"]) > 8192
    compared = "Encoders of long texts" if long_texts else "MultiMaskAttention"
    lines = [
        f"## {compared} vs nn.MultiheadAttention: width {setting['width']}, {setting['heads']} heads\n",
        _circumstances(record, path),
        f"Float32, no padding or dropout, {batch}; fastest of {setting['repeats']} repeats. Columns: batch x length.\n",
    ]
    for quantity, title in _TITLES.items():
        if (quantity == "memory" and not setting["memory"]) or (quantity == "operations" and long_texts):
            continue
        header, rows = table(record, quantity)
        header[1:] = [" x ".join(reversed(shape.split(" x "))) for shape in header[1:]]
        lines.append(f"### {title}\n\n```\n{aligned(header, rows)}\n```\n")
    if long_texts:
        lines.append(
            f"### Growth of a training step with the length, from 1,024 words on\n\n```\n{aligned(*growth(record))}\n```\n"
        )
    if record.get("safety"):
        shares = ", ".join(f"{row['name']} at {row['length']}: {row['share']:.1%}" for row in record["safety"])
        lines.append(f"Fraction of a training step spent on the numerical fallback: {shares}.\n")
    lines += [f"- skipped: {stop}" for stop in stops(record)]
    return "\n".join(lines)

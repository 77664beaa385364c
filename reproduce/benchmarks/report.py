"""What the results page says of layers, made from the records of benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mtsa.bench import sentences
from mtsa.bench.contenders import BASELINE
from mtsa.bench.layer import aligned, stops, table
from mtsa.errors import InputError
from mtsa.inference import export_parity as parity
from mtsa.messages import one_line
from reproduce.markdown import markdown

from . import cost, paper_recipes, serving, stacks, tagging, texts_per_second
from . import nli as pairs

_TITLES = {
    "step": "Training step (forward, backward, gradient of the input), and its ratio to `nn.MultiheadAttention`",
    "operations": "Counted multiply-adds of the forward pass, ratio to multi-head attention",
    "inference": "Inference",
    "memory": "Peak extra memory of a training step, in a process of its own",
}

_TARGETS: dict[tuple[str, int], float] = {
    ("paper", 64): 1.20, ("paper", 1024): 1.05, ("paper", 4096): 0.88,
    ("released", 16): 0.80, ("released", 64): 0.90, ("released", 256): 0.90,
    ("released", 1024): 0.85, ("released", 4096): 0.85,
}  # fmt: skip


_CHECKS = ("attack", "export")
"""Kinds of records that are not about speed or memory."""


def sections(records: Path, page: str = "") -> list[str]:
    """A section for every bench record below `records`; with a page, "speed" or "checks", those of the page.

    Raises:
        InputError: a file that is no record, or one that lacks something.
    """
    kinds = {
        "nli": _pair_section,
        "tagging": _batch_section,
        "serving": _batch_section,
        "export": _export_section,
        "attack": _attack_section,
        "cost": _cost_section,
        "newcomer": _newcomer_section,
        "translation": _stack_section,
        "srl": _stack_section,
        "sentences": _sentence_section,
        "paper-recipes": _paper_section,
        "texts-per-second": _texts_section,
    }
    found = []
    for path in sorted(records.glob("*/bench-*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            kind = record.get("kind", "")
            if page in ("", "checks" if kind in _CHECKS else "speed"):
                found.append(kinds.get(kind, _section)(record, path.relative_to(records)))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise InputError(
                f"{path} is no record of this version ({one_line(error)}); delete it, and measure again"
            ) from None
    return found


def _circumstances(record: dict[str, Any], path: Path) -> str:
    versions, machine = record["versions"], record["machine"]
    return f"`{path}`: {record['time']}, torch {versions['torch']}, {machine['threads']} threads, {machine['processor']}."


_PAPER_TEXT = """\
Each recipe was trained for {steps} steps on a sample in the official layout (`python -m reproduce bench paper`). Time is the
median of a step multiplied by the number of steps, without evaluations. Memory is the peak of the process above what it had
before training; the word vectors of GloVe, up to 0.5 GB, are not part of it. Operations are counted; divided by what a GPU
achieves on such layers, they give an estimate of its time.
"""


def _paper_section(record: dict[str, Any], path: Path) -> str:
    """What the trainings with the paper's settings would take."""
    text = _PAPER_TEXT.format(steps=record["rows"][0]["measured_steps"] + 1)
    parts = ["## Trainings with the paper's settings\n", _circumstances(record, path), text]
    return "\n".join([*parts, markdown(paper_recipes.table(record)), ""])


def _texts_section(record: dict[str, Any], path: Path) -> str:
    """Texts per second of fine-tuning and prediction."""
    about = (
        f"{record['texts']:,} texts of `{record['data']}`, {record['words_per_text']:.0f} words each on average; models are "
        "trained for one step, which does not change their speed."
    )
    parts = ["## Texts per second over MiniLM, beside other libraries\n", _circumstances(record, path), about, ""]
    return "\n".join([*parts, *(f"{markdown(table)}\n" for table in texts_per_second.tables(record))])


def _batch_section(record: dict[str, Any], path: Path) -> str:
    """What batches bring to a tagger, or to requests that come at the same time."""
    titles = {"tagging": "Tagging in batches", "serving": "Requests to the server at the same time"}
    told = {"tagging": tagging.lines, "serving": serving.lines}[record["kind"]](record)
    about = ", ".join(f"{key} {value}" for key, value in record["encoder"].items())
    return "\n".join(
        [
            f"## {titles[record['kind']]}\n",
            _circumstances(record, path),
            f"Task {record['task']}, encoder: {about}; {record['data']}.\n",
            *(f"- {line}" for line in told),
            "",
        ]
    )


def _export_section(record: dict[str, Any], path: Path) -> str:
    """How an exported model differs from the model, and how quick it is."""
    about = ", ".join(f"{key} {value}" for key, value in record["encoder"].items())
    lines = [f"## A model exported as {record['form']}\n", _circumstances(record, path)]
    lines += [f"Task {record['task']}, encoder: {about}.\n", "```", *parity.report_lines(record), "```", ""]
    return "\n".join(lines)


def _sentence_section(record: dict[str, Any], path: Path) -> str:
    """The layer at sentence length, beside multi-head attention and a plain version."""
    about = (
        f"Half of the sequences are padded. Training has dropout {record['setting']['dropout']} on the input of every dense "
        "layer; multi-head attention has it on its input and output. `plain`: Algorithm 1 in PyTorch without numeric safety.\n"
    )
    lines = ["## The layer at sentence length\n", _circumstances(record, path), about]
    return "\n".join([*lines, "```", aligned(*sentences.table(record)), "```", ""])


def _cost_section(record: dict[str, Any], path: Path) -> str:
    """The cost model, and what it says of trainings that were not run."""
    setting = record["setting"]
    shapes = f"lengths {setting['lengths']}, widths {setting['widths']}, {setting['tokens']} tokens, {setting['heads']} heads"
    return "\n".join(
        [
            "## Cost model\n",
            _circumstances(record, path),
            f"Training steps of a layer at {shapes}; see cost.md for the formula.\n",
            *(f"- {line}" for line in cost.lines(record)),
            "\nOn paper, measured nowhere:\n",
            *(f"- {line}" for line in cost.paper_lines()),
            "",
        ]
    )


def _stack_section(record: dict[str, Any], path: Path) -> str:
    """What tensorized attention costs in the encoder of a translator, or of a tagger of roles."""
    setting = record["setting"]
    title, unit = ("a translator", "subwords") if record["kind"] == "translation" else ("a tagger of roles", "words")
    lines = [f"## The encoder of {title}\n", _circumstances(record, path)]
    lines += [f"Training step (forward, backward) of {setting['tokens']:,} {unit}, a tenth of them padding.\n"]
    for name, text in stacks.tables(record).items():
        lines += [f"Sizes and dropout of `{name}`:\n", f"```\n{text}\n```\n"]
    return "\n".join(lines)


def _newcomer_section(record: dict[str, Any], path: Path) -> str:
    """How long each command took from a clone to answers."""
    steps = [[step["command"], f"{step['seconds']:.0f} s"] for step in record["steps"]]
    whole = f"{sum(step['seconds'] for step in record['steps']) / 60:.1f} min"
    return "\n".join(
        [
            "## From a clone to a model of one's own\n",
            _circumstances(record, path),
            f"A table of {record['rows']:,} rows; accuracy on the tenth held back: {record['dev_accuracy']:.3f}.\n",
            f"```\n{aligned(['command', 'time'], [*steps, ['all', whole]])}\n```\n",
        ]
    )


def _attack_section(record: dict[str, Any], path: Path) -> str:
    """How many damaged files were tried, how many kills were survived, and what was lost."""
    inputs, kills = record["inputs"], record["kills"]
    files = [[row["name"], f"{row['tried']:,}", f"{row['refused']:,}", f"{row['read']:,}"] for row in inputs]
    total = [f"{sum(row[key] for row in inputs):,}" for key in ("tried", "refused", "read")]
    work = []
    for row in kills:
        lost = str(row["bytes"]) if row["late"] else "-"  # without checkpoints there is nothing to lose but the result
        work.append([row["name"], *(str(row[key]) for key in ("kills", "late", "ends", "different")), lost])
    header = [
        "work",
        "kills",
        "with a checkpoint by then",
        "brought to an end",
        "with another result",
        "bytes of checkpoints lost",
    ]
    return "\n".join(
        [
            "## Attack: damaged files and kills\n",
            _circumstances(record, path),
            "Damaged files to each reader, and damaged requests: refused in one sentence, or read all the same.\n",
            f"```\n{aligned(['reader', 'tried', 'refused', 'read'], [*files, ['all', *total]])}\n```\n",
            "Work killed (SIGKILL) at random moments and gone on with, until it ended:\n",
            f"```\n{aligned(header, work)}\n```\n",
        ]
    )


def _pair_section(record: dict[str, Any], path: Path) -> str:
    """What the pair models of the paper's Table 1 cost here."""
    setting = record["setting"]
    counts = {row["name"]: row["parameters"] for row in record["rows"]}
    counted = aligned(["model", "parameters"], [[name, f"{count:,}"] for name, count in counts.items()])
    about = (
        f"The paper's width (300-d words, 600-d encoders), batch {setting['batch']}, dropout {setting['dropout']}, best of "
        f"{setting['repeats']} interleaved repeats; columns: words of both sentences; ratios to multi-head attention.\n"
    )
    lines = [
        "## What the models of natural language inference cost\n",
        _circumstances(record, path),
        about,
        f"### Parameters, word vectors left out\n\n```\n{counted}\n```\n",
    ]
    titles = {"step": "Training step", "inference": "Inference", "operations": "Counted multiply-adds of the forward pass"}
    lines += [f"### {title}\n\n```\n{aligned(*pairs.table(record, name))}\n```\n" for name, title in titles.items()]
    lines.append(f"### Peak memory of a training step\n\n```\n{aligned(*pairs.memory_rows(record))}\n```\n")
    if record["passes"]:
        title = (
            "A pass (forward and backward) over the training pairs, and the answers to the dev pairs, from a sample of batches"
        )
        lines.append(f"### {title}\n\n```\n{aligned(*pairs.pass_rows(record))}\n```\n")
    return "\n".join(lines)


def _section(record: dict[str, Any], path: Path) -> str:
    setting = record["setting"]
    batch = f"batch {setting['batch']}" if setting["batch"] else "batches of about 4,096 tokens, at most 128 sentences"
    lines = [
        f"## Layers: width {setting['width']}, {setting['heads']} heads, {batch}\n",
        _circumstances(record, path),
        f"Float32. Best of {setting['repeats']} interleaved repeats, seed {setting['seed']}. Columns: length x batch.\n",
    ]
    for quantity, title in _TITLES.items():
        if quantity == "memory" and not setting["memory"]:
            continue
        lines.append(f"### {title}\n\n```\n{aligned(*table(record, quantity))}\n```\n")
    if record.get("safety"):
        shares = ", ".join(f"{row['name']} at {row['length']}: {row['share']:.1%}" for row in record["safety"])
        lines.append(f"Part of a training step spent on numeric safety: {shares}.\n")
    lines += [f"- stopped: {stop}" for stop in stops(record)]
    lines.append(_against_targets(record))
    return "\n".join(lines)


def _against_targets(record: dict[str, Any]) -> str:
    """Where a set target was met or missed, for the setting the targets are for."""
    if record["setting"]["width"] != 600 or record["setting"]["batch"] is not None:
        return ""
    rows = {(row["name"], row["length"]): row for row in record["rows"] if "stopped" not in row}
    cells = [
        [name, str(length), f"{target:.2f}", f"{rows[name, length]['step_ratio']:.2f}",
         "met" if rows[name, length]["step_ratio"] <= target else "missed"]
        for (name, length), target in _TARGETS.items() if (name, length) in rows
    ]  # fmt: skip
    if not cells:
        return ""
    header = ["form", "length", "target", "measured", ""]
    return f"\n### Training step against the targets set (ratio to `{BASELINE}`)\n\n```\n{aligned(header, cells)}\n```\n"

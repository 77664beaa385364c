"""The tables of natural language inference: measured rows beside the paper's, made from records alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from mtsa.errors import InputError

from .markdown import markdown
from .nli import CORPORA, ROWS, comparable
from .records import check_alike, circumstances_of

PAPER: dict[str, tuple[float, float]] = {  # Table 1: accuracy on the training and test parts of SNLI
    "Bi-LSTM": (90.4, 85.0), "Bi-GRU": (91.9, 84.9), "Multi-CNN": (89.3, 83.2), "Hrchy-CNN": (91.3, 83.9),
    "Multi-head": (89.6, 84.2), "DiSA": (91.1, 85.6), "Bi-BloSA": (91.6, 85.8), "MTSA": (91.8, 86.3),
}  # fmt: skip
ABLATION: dict[str, float] = {  # Table 3: test accuracy
    "MTSA": 86.3, "MTSA w/o fw&bw masks": 85.3, "MTSA w/o token2token": 85.8, "MTSA w/o source2token": 84.9,
    "MTSA w/o proposed modules": 84.3,
}  # fmt: skip
TRANSFER: dict[str, tuple[float, float, float, float]] = {  # Table 2: SNLI dev and test, MultiNLI matched and mismatched
    "Transfer + Multi-Head": (86.9, 86.6, 76.3, 75.7), "Transfer + MTSA": (87.2, 86.9, 76.7, 76.4),
}  # fmt: skip

REMARKS = """\
Accuracy in percent, mean (standard deviation) over the seeds in brackets. Each record holds the dev curve and one evaluation
on the test pairs; the best step is chosen on the dev pairs.

Ours against the paper: the data set in the first column of each table (`snli-subset`: 18,000 training pairs of SNLI and 8,330
counterfactual ones in place of 549,367, official dev and test parts; `protocols`: 34,000 pairs on Wikipedia text in place of
the training part of MultiNLI, tested on the first 1,000 pairs of each of its dev parts), word vectors GloVe 6B of 100
dimensions (the paper: 300), half of the paper's width but for `mtsa-wide`, the settings of the `snli.cpu` recipe, which
were chosen among four with MTSA on the dev pairs and are the same for every row: head with highway layer, source2token
pooling, ELU (the paper's counts are those of heads that differ from row to row, see the counts below).

Over a pretrained model: the recipes `snli.gpt.cpu` and `snli.minilm.cpu`. The small GPT (4 layers, 256 wide) was trained by
`mtsa pretrain` on the English text at hand, the paper's on a large corpus of books; its language loss is weighed with 0.3.
MiniLM has no language model to weigh, and its makers trained it on pairs of SNLI and MultiNLI, so its rows are no clean test.
"""


def checked(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records, if they can stand in one table.

    Raises:
        InputError: one of no row or data set of the plan, or records of one cell with other settings or files.
    """
    for record in records:
        row, dataset = record["row"], record["dataset"]
        place = f"{dataset}/{row}/{record['unit']}.json"
        if row not in ROWS or dataset not in CORPORA or "parts" not in record["test_evaluations"][0]:
            raise InputError(f"{place} belongs to no cell of the table; delete it")
    check_alike(records, comparable)
    return list(records)


def _found(records: Sequence[dict[str, Any]], row: str, dataset: str, part: str) -> list[float]:
    values = []
    for record in records:
        if record["row"] == row and record["dataset"] == dataset:
            parts = record["test_evaluations"][0]["parts"]
            own = {"dev": record["dev_accuracy"], "train": record["train_accuracy"]}
            values.append(own[part] if part in own else parts[part]["accuracy"])
    return values


def _cell(values: list[float]) -> str:
    if not values:
        return "not run"
    spread = f" ({100 * statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{spread} [{len(values)}]"


def context_rows(records: Sequence[dict[str, Any]], dataset: str) -> list[list[str]]:
    """Table 1: accuracy of every context over word vectors on SNLI."""
    lines = [[dataset, "train", "dev", "test", "paper: train", "paper: test"]]
    for row in ROWS.values():
        if not row.below and not row.name.startswith("mtsa_"):
            printed = [f"{value:.1f}" for value in PAPER[row.paper]] if row.name == row.encoder else ["", ""]
            lines.append(
                [row.name, *(_cell(_found(records, row.name, dataset, part)) for part in ("train", "dev", "test")), *printed]
            )
    return lines


def ablation_rows(records: Sequence[dict[str, Any]], dataset: str, counts: dict[str, int]) -> list[list[str]]:
    """Table 3: what each part of the attention brings."""
    lines = [[dataset, "parameters, paper's width", "test", "difference", "paper: test", "paper: difference"]]
    whole = _found(records, "mtsa", dataset, "test")
    for row in ROWS.values():
        if row.paper in ABLATION and not row.options:
            values = _found(records, row.name, dataset, "test")
            gap = f"{100 * (statistics.fmean(values) - statistics.fmean(whole)):+.1f}" if values and whole else ""
            printed = ABLATION[row.paper]
            told = ["", ""] if row.name == "mtsa" else [gap, f"{printed - ABLATION['MTSA']:+.1f}"]
            lines.append([row.name, f"{counts[row.name]:,}", _cell(values), told[0], f"{printed:.1f}", told[1]])
    return lines


def transfer_rows(records: Sequence[dict[str, Any]], snli: str, multinli: str) -> list[list[str]]:
    """Table 2: over a pretrained model, and without one."""
    lines = [["", f"{snli}: dev", "test", f"{multinli}: matched", "mismatched", "paper"]]
    for row in ROWS.values():
        if row.others:
            cells = [_cell(_found(records, row.name, snli, part)) for part in ("dev", "test")]
            cells += [_cell(_found(records, row.name, multinli, part)) for part in ("matched", "mismatched")]
            printed = " / ".join(f"{value:.1f}" for value in TRANSFER[row.paper]) if row.below else ""
            lines.append([row.name, *cells, printed])
    return lines


def tables(records: Sequence[dict[str, Any]], counts: dict[str, int]) -> list[tuple[str, list[list[str]]]]:
    """Every table that the records have something for, with its title."""
    there = {record["dataset"] for record in records}
    found = []
    for dataset in ("snli", "snli-subset"):
        if dataset in there:
            found.append(("Contexts over word vectors (the paper's Table 1)", context_rows(records, dataset)))
            found.append(("Ablation (Table 3)", ablation_rows(records, dataset, counts)))
    for snli, multinli in (("snli", "multinli"), ("snli-subset", "protocols")):
        if {snli, multinli} & there:
            found.append(("Transfer from pretrained models (Table 2)", transfer_rows(records, snli, multinli)))
    return found


def section(records: Sequence[dict[str, Any]], counts: dict[str, int]) -> str:
    """The section of the results page."""
    parts = ["## Natural language inference\n", circumstances_of("nli", records) + "\n"]
    for title, rows in tables(records, counts):
        parts.append(f"### {title}\n\n{markdown(rows)}\n")
    parts += [f"- `{row.name}`: {row.about}." for row in ROWS.values()]
    return "\n".join([*parts, "", REMARKS])

"""The sentence-classification table: measured rows beside the paper's, made from records alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from mtsa.errors import InputError

from .classification import PROTOCOLS, ROWS, comparable
from .markdown import markdown
from .records import check_alike, circumstances_of

TITLES = {"cr": "CR", "mpqa": "MPQA", "subj": "SUBJ", "trec": "TREC", "sst5": "SST-5"}

PAPER: dict[str, dict[str, tuple[float, float]]] = {  # its Table 5: mean and deviation of the accuracy
    "Bi-LSTM": {"cr": (84.6, 1.6), "mpqa": (90.2, 0.9), "subj": (94.7, 0.7), "trec": (94.4, 0.3), "sst5": (49.9, 0.8)},
    "Multi-head": {"cr": (82.6, 1.9), "mpqa": (89.8, 1.2), "subj": (94.0, 0.8), "trec": (93.4, 0.4), "sst5": (48.2, 0.6)},
    "DiSA": {"cr": (84.8, 2.0), "mpqa": (90.1, 0.4), "subj": (94.2, 0.6), "trec": (94.2, 0.1), "sst5": (51.0, 0.7)},
    "Bi-BloSA": {"cr": (84.8, 0.9), "mpqa": (90.4, 0.8), "subj": (94.5, 0.5), "trec": (94.8, 0.2), "sst5": (50.6, 0.5)},
    "MTSA": {"cr": (84.9, 2.4), "mpqa": (90.5, 0.6), "subj": (94.5, 0.6), "trec": (95.3, 0.3), "sst5": (51.3, 0.7)},
}

REMARKS = """\
Accuracy in percent, mean (standard deviation) over 10 folds (CR, MPQA, SUBJ) or 5 runs (TREC, SST-5); [n of m] where not all
units were run. Each record holds the dev curve and one evaluation on the test part.

Ours against the paper: word vectors GloVe 6B of 100 dimensions (the paper: 300), cut to the words of the paper's data sets
where the file above says "tasks"; half of the paper's width but for `mtsa-wide`; the settings of the `cpu` recipes, which
were chosen with MTSA on dev parts and are the same for every row. The best step is chosen on a dev part: a tenth of the
training data, or the official dev part of SST. On TREC and CR the model that is tested is then trained anew on training and
dev data together, for as many passes; elsewhere it is the model of the best step. The paper's code chose the best step on the
evaluation data itself (the 500 TREC questions, the held-out folds), so its figures are optimistic beside these.

Rivals on the same splits: C of the logistic regression is chosen on the dev part, then the model is fitted on training and
dev data together; fastText has nothing chosen, and is trained on both too. On SST-5 fastText is trained on all phrases as
the encoders are, the logistic regression on whole sentences.

*unseen*: the same answers, without the test texts that stand in the training or dev data too (but for case and spaces).
"""


def checked(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records, if they can stand in one table.

    Raises:
        InputError: one of no row, data set or unit of the plan, or records of one cell with other settings or files.
    """
    for record in records:
        row, dataset, unit = record["row"], record["dataset"], record["unit"]
        place = f"{dataset}/{row}/{unit}.json"
        if row not in ROWS or dataset not in PROTOCOLS or unit not in PROTOCOLS[dataset].names:
            raise InputError(f"{place} belongs to no cell of the table; delete it")
        if not {"processor", "threads"} <= record["machine"].keys() or "torch" not in record["versions"]:
            raise InputError(f"{place} does not say on what machine or with what torch; delete it, and the unit is run again")
    check_alike(records, comparable)
    return list(records)


class Cells:
    """Test accuracies of the records, by row and data set."""

    def __init__(self, records: Sequence[dict[str, Any]]) -> None:
        self.all: dict[tuple[str, str], list[float]] = {}
        self.unseen: dict[tuple[str, str], list[float]] = {}
        self.seconds: dict[tuple[str, str], list[float]] = {}
        for record in records:
            place, test = (record["row"], record["dataset"]), record["test_evaluations"][0]
            self.all.setdefault(place, []).append(test["accuracy"])
            self.unseen.setdefault(place, []).append(test.get("unseen", test)["accuracy"])
            self.seconds.setdefault(place, []).append(record["seconds"])


def accuracy_rows(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Header and rows: each of ours with the paper's below it, then the rivals."""
    cells = Cells(records)
    lines = [["", *(TITLES[name] for name in PROTOCOLS)]]
    for row in ROWS.values():
        lines.append([row.name, *(_cell(cells.all.get((row.name, name)), PROTOCOLS[name].units) for name in PROTOCOLS)])
        if row.paper and row.name == row.encoder:
            lines.append([f"*paper: {row.paper}*", *("{:.1f} ({:.1f})".format(*PAPER[row.paper][name]) for name in PROTOCOLS)])
        if any(cells.unseen.get((row.name, name)) != cells.all.get((row.name, name)) for name in PROTOCOLS):
            lines.append([f"*unseen: {row.name}*", *(_unseen(cells, row.name, name) for name in PROTOCOLS)])
    return lines


def cost_rows(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Header and rows: seconds of a unit, mean over those recorded."""
    cells = Cells(records)
    lines = [["seconds of a unit", *(TITLES[name] for name in PROTOCOLS)]]
    for row in ROWS.values():
        found = [cells.seconds.get((row.name, name)) for name in PROTOCOLS]
        lines.append([row.name, *(f"{statistics.fmean(values):.0f}" if values else "" for values in found)])
    return lines


def section(records: Sequence[dict[str, Any]]) -> str:
    """The section of the results page."""
    rows = {row.name: row.about for row in ROWS.values()}
    parts = [
        "## Sentence classification\n",
        circumstances_of("classification", records),
        "",
        markdown(accuracy_rows(records)),
        "",
    ]
    parts += [f"- `{name}`: {about}." for name, about in rows.items()]
    parts += ["", REMARKS, markdown(cost_rows(records)), ""]
    return "\n".join(parts)


def _unseen(cells: Cells, row: str, dataset: str) -> str:
    place = (row, dataset)
    differs = cells.unseen.get(place) != cells.all.get(place)
    return _cell(cells.unseen[place], PROTOCOLS[dataset].units) if differs else ""


def _cell(values: list[float] | None, wanted: int) -> str:
    if not values:
        return "not run"
    count = "" if len(values) == wanted else f" [{len(values)} of {wanted}]"
    spread = f" ({100 * statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{spread}{count}"

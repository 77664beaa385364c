"""The table of translation: BLEU of several runs beside the paper's, made from records alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from mtsa.errors import InputError
from mtsa.metrics.bleu import bleu_of
from mtsa.metrics.significance import paired_bootstrap, t_test

from .markdown import markdown
from .records import check_alike, circumstances_of
from .translation import BITEXTS, ROWS, comparable

PAPER = (  # Table 6: weights, mean BLEU, and the chance of the difference
    ("multi-head, setup 1", "61.38 m", "23.64", ""),
    ("MTSA, setup 1", "61.58 m", "24.09", "0.001"),
    ("multi-head, setup 2", "61.38 m", "26.98", ""),
    ("MTSA, setup 2", "61.58 m", "27.21", "0.080"),
)

REMARKS = """\
BLEU of sacreBLEU, mean (standard deviation) over the runs in brackets; `p`: Welch's t-test of the runs against multi-head
attention; *resampled*: the part of 1,000 samples of the test sentences in which the runs together are not better than those
of multi-head attention with the same seeds. Each record holds the dev curve and one evaluation of each test part; the best
pass is chosen on dev.

Multi30k against the paper: 29,000 pairs in place of WMT14; 2 + 2 layers of 256 with 4 heads and 512 inside the feed-forward
parts, in place of 6 + 6 of 512 with 8 and 2,048; 4,000 subwords in place of 33,708; batches of 1,024 subwords for 8 passes,
a rate that rises and falls in a line, no dropout of the attention; the best pass by greedy translations of dev, where the
paper has the last checkpoint (setup 1). The settings of the `multi30k.cpu` recipe hold for every row. Of the paper's setup 1
the caption speaks of five runs, the cell of six (setup 2: three). The authors' translator has full masks; `mtsa-halves` is
what the rest of the paper does.
"""


def checked(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records, if they can stand in one table.

    Raises:
        InputError: one of no row or data set of the plan, or records of one cell with other settings or files.
    """
    for record in records:
        if record["row"] not in ROWS or record["dataset"] not in BITEXTS or "parts" not in record["test_evaluations"][0]:
            place = f"{record['dataset']}/{record['row']}/{record['unit']}.json"
            raise InputError(f"{place} belongs to no cell of the table; delete it")
    check_alike(records, comparable)
    check_alike([{**record, "row": ""} for record in records], _but_for_the_encoder)
    return list(records)


def _but_for_the_encoder(record: dict[str, Any]) -> Any:
    """What must be the same in all rows of a data set."""
    return {key: value for key, value in comparable(record).items() if key != "encoder"}


def bleu_rows(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Header and rows: each test part of each row, against multi-head attention."""
    lines = [["", "weights", "test part", "BLEU", "p", "resampled"]]
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        own = [record for record in records if record["dataset"] == dataset]
        for row in ROWS:
            runs = [record for record in own if record["row"] == row]
            lines += _row(dataset, row, runs, [record for record in own if record["row"] == "multihead"])
    theirs = [[f"*paper, WMT14: {name}*", weights, "newstest2014", bleu, chance, ""] for name, weights, bleu, chance in PAPER]
    return lines + theirs


def _row(dataset: str, row: str, runs: list[dict[str, Any]], plain: list[dict[str, Any]]) -> list[list[str]]:
    if not runs:
        return [[f"{dataset}: {row}", "", "", "not run", "", ""]]
    lines = []
    for part in runs[0]["test_evaluations"][0]["parts"]:
        ours, theirs = ([_part(record, part) for record in some] for some in (runs, plain))
        values = [figures["bleu"] for figures in ours]
        spread = f" ({statistics.stdev(values):.2f})" if len(values) > 1 else ""
        chance, worse = "", ""
        if row != "multihead" and theirs:
            found = t_test(values, [figures["bleu"] for figures in theirs])
            chance = "" if found is None else f"{found:.3f}"
            worse = _resampled(runs, plain, part)
        weights = f"{runs[0]['parameters']['all']:,}"
        cell = f"{statistics.fmean(values):.2f}{spread} [{len(values)}]"
        lines.append([f"{dataset}: {row}", weights, part, cell, chance, worse])
    return lines


def _resampled(runs: list[dict[str, Any]], plain: list[dict[str, Any]], part: str) -> str:
    """Paired resampling over the runs whose seed both have."""
    units = sorted({record["unit"] for record in runs} & {record["unit"] for record in plain})
    if not units:
        return ""
    ours, theirs = (
        [_part(record, part)["sentence_counts"] for unit in units for record in some if record["unit"] == unit]
        for some in (runs, plain)
    )
    return f"{paired_bootstrap(ours, theirs, bleu_of):.3f}"


def _part(record: dict[str, Any], part: str) -> dict[str, Any]:
    found: dict[str, Any] = record["test_evaluations"][0]["parts"][part]
    return found


def section(records: Sequence[dict[str, Any]]) -> str:
    """The section of the results page."""
    parts = ["## Translation\n", circumstances_of("translation", records) + "\n", markdown(bleu_rows(records)), ""]
    parts += [f"- `{row.name}`: {row.about}." for row in ROWS.values()]
    return "\n".join([*parts, "", REMARKS])

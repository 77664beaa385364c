"""The page of one table: plot, comparisons, scores with those of the paper, search, cost, and method."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from .claims import OFFICIAL, Finding, finding_rows
from .markdown import markdown
from .names import display
from .records import circumstances_of
from .table import Record, Table, is_screening


def page(table: Table, records: Sequence[Record], findings: Sequence[Finding], plot: str) -> str:
    """Return the page of a table.

    Args:
        table: its definition.
        records: all its records, including those of screening.
        findings: the verdicts on its claims and other comparisons.
        plot: link to the plot; empty if there is none.
    """
    complete = table.check(records)
    parts = [f"# {table.title}\n"]
    if not records:
        command = f"`python -m reproduce table {table.name}`"
        return "\n".join([*parts, f"Not run yet ({command}).\n", "## Method of the planned runs\n", table.notes])
    parts += [circumstances_of(records), ""]
    if any(one.claim.source for one in findings):
        parts += ["[Results](../results.md) has the verdicts on the claims of the paper.\n"]
    if plot:
        parts += [f"![Test scores with 95 % intervals]({plot})\n", "Open markers: not all planned runs are complete.\n"]
    started = {record["dataset"] for record in records}
    missing = table.missing(complete, {name for name in table.datasets if name in started or name not in OFFICIAL})
    if missing:
        parts += ["Not run yet:\n", *(f"- {line}" for line in missing), ""]
    for claim in dict.fromkeys(one.claim for one in findings):
        rows = [one for one in findings if one.claim is claim]
        if not claim.source and any(one.difference is not None for one in rows):
            parts += [f"## {claim.text}\n", markdown(finding_rows(rows)), ""]
    for view in table.shown(complete):
        parts += [f"## {view.title}\n", markdown(table.rows(view, complete)), ""]
        if view.paper and view.paper_data:
            parts += [f"Values of the paper, on {view.paper_data}:\n", markdown(table.paper_rows(view)), ""]
    searched = search_rows(table, records)
    if len(searched) > 1:
        parts += ["## Hyperparameter search\n", _SEARCH, markdown(searched), ""]
    return "\n".join([*parts, "## Cost\n", markdown(cost_rows(table, records)), "", "## Method\n", table.notes])


_SEARCH = """\
Dev scores (%) of all candidates after screening; dev scores of the finalists after full training (first run); and the selected
candidate. With folds, the dev set of each fold decides between the finalists.
"""


def _settings(candidate: Record) -> str:
    return ", ".join(f"{key.split('.')[-1]} {value}" for key, value in candidate.items())


def search_rows(table: Table, records: Sequence[Record]) -> list[list[str]]:
    """Return header and rows of the search: a row for each model and data set with records of screening."""
    candidates = table.search.candidates if table.search is not None else ()
    lines = [["data set", "model", *map(_settings, candidates), "finalists", "selected"]]
    for dataset in table.datasets.values():
        for model in table.models:
            runs = [one for one in records if (one["dataset"], one["model"]) == (dataset.name, model)]
            screened = [one for one in runs if is_screening(one)]
            if not screened:
                continue
            scores = []
            for candidate in candidates:
                values = [one["dev_score"] for one in screened if one["settings"].get("candidates") == [dict(candidate)]]
                scores.append(f"{100 * statistics.fmean(values):.1f}" if values else "")
            complete = [one for one in runs if not is_screening(one)]
            first = next((one for one in complete if one["run"] == dataset.run_name(0)), None)
            selected = Counter(_settings(one["chosen"]) for one in complete)
            if len(selected) > 1:
                text = "; ".join(f"{name} ({count} of {len(complete)} runs)" for name, count in selected.items())
            else:
                text = "".join(selected)
            lines.append([dataset.title, display(model), *scores, _finalists(first) if first else "", text])
    return lines


def _finalists(record: Record) -> str:
    """The settings of each finalist with its dev score."""
    pairs = zip(record["settings"]["candidates"], record["candidate_scores"], strict=True)
    return "; ".join(f"{_settings(candidate)}: {100 * score:.1f}" for candidate, score in pairs)


def cost_rows(table: Table, records: Sequence[Record]) -> list[list[str]]:
    """Return header and rows: parameters, time of one training, and time of all runs, for each model and data set."""
    part = "of these in the pretrained model" if table.name == "pretrained" else "of these in embeddings"
    lines = [["data set", "model", "parameters", part, "minutes per training", "total hours (with search)"]]
    for dataset in table.datasets.values():
        for model in table.models:
            runs = [one for one in records if (one["dataset"], one["model"]) == (dataset.name, model)]
            if not runs:
                continue
            parameters = next((one["parameters"] for one in runs if "parameters" in one), None)
            counts = ["", ""] if parameters is None else [f"{parameters['all']:,}", f"{parameters.get('words', 0):,}"]
            complete = [one for one in runs if not is_screening(one)]
            trainings = sum(len(one["settings"].get("candidates", [])) or 1 for one in complete)
            minutes = f"{sum(one['seconds'] for one in complete) / 60 / trainings:.1f}" if complete else ""
            hours = f"{sum(one['seconds'] for one in runs) / 3600:.2f}"
            lines.append([dataset.title, display(model), *counts, minutes, hours])
    return lines

"""The page of one table: picture, claims, values beside the paper's, search, cost, and how it was measured."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from .claims import Finding, finding_rows
from .markdown import markdown
from .records import circumstances_of
from .table import Record, Table, is_screening


def page(table: Table, records: Sequence[Record], found: Sequence[Finding], picture: str) -> str:
    """The page of a table.

    Args:
        table: its definition.
        records: all its records, those of screening too.
        found: the findings about its claims and other comparisons.
        picture: link to the picture; empty where there is none.
    """
    final = table.check(records)
    parts = [f"# {table.title}\n"]
    if not records:
        return "\n".join([*parts, f"There are no records yet (`python -m reproduce table {table.name}`).\n", table.notes])
    parts += [circumstances_of(table.name, records), ""]
    if picture:
        parts += [f"![Test scores with 95 % intervals]({picture})\n", "Open points: runs are missing.\n"]
    for claim in dict.fromkeys(one.claim for one in found):
        own = [one for one in found if one.claim is claim]
        if any(one.difference is not None for one in own):
            source = f" ({claim.source})" if claim.source.startswith("Table") else ""
            parts += [f"## {claim.text}{source}\n", markdown(finding_rows(own)), ""]
    for view in table.shown(final):
        parts += [f"## {view.title}\n", markdown(table.rows(view, final)), ""]
    searched = search_rows(table, records)
    if len(searched) > 1:
        parts += ["## Search\n", _SEARCH, markdown(searched), ""]
    return "\n".join([*parts, "## Cost\n", markdown(cost_rows(table, records)), "", "## How it was measured\n", table.notes])


_SEARCH = """\
Dev score of each candidate after screening, in percent; then that of the finalists after the whole training, on the first run;
and the chosen candidate. With folds, the dev part of each fold decides between the finalists.
"""


def _settings(candidate: Record) -> str:
    return ", ".join(f"{key.split('.')[-1]} {value}" for key, value in candidate.items())


def search_rows(table: Table, records: Sequence[Record]) -> list[list[str]]:
    """Header and rows of the search: a row for each model and data set with records of screening."""
    candidates = table.search.candidates if table.search is not None else ()
    lines = [["data set", "model", *map(_settings, candidates), "finalists", "chosen"]]
    for dataset in table.datasets.values():
        for model in table.models:
            own = [one for one in records if (one["dataset"], one["model"]) == (dataset.name, model)]
            screened = [one for one in own if is_screening(one)]
            if not screened:
                continue
            scores = []
            for candidate in candidates:
                found = [one["dev_score"] for one in screened if one["settings"].get("candidates") == [dict(candidate)]]
                scores.append(f"{100 * statistics.fmean(found):.1f}" if found else "")
            final = [one for one in own if not is_screening(one)]
            first = next((one for one in final if one["run"] == dataset.run_name(0)), None)
            finalists = ", ".join(f"{100 * score:.1f}" for score in first["candidate_scores"]) if first else ""
            chosen = Counter(_settings(one["chosen"]) for one in final)
            named = chosen if len(chosen) < 2 else [f"{name}: {count} of {len(final)}" for name, count in chosen.items()]
            lines.append([dataset.title, f"`{model}`", *scores, finalists, "; ".join(named)])
    return lines


def cost_rows(table: Table, records: Sequence[Record]) -> list[list[str]]:
    """Header and rows: weights, time of one training, and time of all runs, for each model and data set."""
    lines = [["data set", "model", "weights", "of them words", "minutes of a training", "hours in all"]]
    for dataset in table.datasets.values():
        for model in table.models:
            own = [one for one in records if (one["dataset"], one["model"]) == (dataset.name, model)]
            if not own:
                continue
            weights = next((one["parameters"] for one in own if "parameters" in one), None)
            counted = ["", ""] if weights is None else [f"{weights['all']:,}", f"{weights.get('words', 0):,}"]
            trained = [one for one in own if not is_screening(one)]
            trainings = sum(len(one["settings"].get("candidates", [])) or 1 for one in trained)
            minutes = f"{sum(one['seconds'] for one in trained) / 60 / trainings:.1f}" if trained else ""
            hours = f"{sum(one['seconds'] for one in own) / 3600:.2f}"
            lines.append([dataset.title, f"`{model}`", *counted, minutes, hours])
    return lines

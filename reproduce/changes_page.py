"""The page of a table of dev scores: each changed model compared with the same model before the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .markdown import markdown
from .names import display
from .records import circumstances_of, fill_defaults
from .table import Record, Table, is_screening, screening_name
from .tables.repairs import SCREENED


@dataclass(frozen=True)
class Change:
    """A change of a model in one run on a data set, with the records before and after it where they exist."""

    title: str  # data set, and fold where there are folds
    name: str
    base: str
    before: Record | None
    after: Record | None

    @property
    def points(self) -> float | None:
        """The change of the best dev score, in points."""
        if self.before is None or self.after is None:
            return None
        return 100 * float(self.after["dev_score"] - self.before["dev_score"])


def changes(table: Table, records: Sequence[Record], screened: Sequence[Record] = ()) -> list[Change]:
    """Every change of which at least one record exists.

    Args:
        table: a table of dev scores.
        records: its records.
        screened: records of table `nli`, used where a model of table `repairs` has no record of its own.
    """
    changes = []
    for dataset, number in ((one, number) for one in table.datasets.values() for number in range(one.screenings)):
        run = dataset.run_name(number)
        key = (dataset.name, screening_name(0, run))
        by_model = {one["model"]: one for one in records if (one["dataset"], one["run"]) == key}
        title = f"{dataset.title}, {run}" if dataset.folds else dataset.title
        for name, base in table.before.items():
            if table.models[name].planned(dataset):
                after, before = (by_model.get(one) or _screened(one, by_model, screened) for one in (name, base))
                if after is not None or before is not None:
                    changes.append(Change(title, name, base, before, after))
    return changes


def _screened(name: str, by_model: Mapping[str, Record], records: Sequence[Record]) -> Record | None:
    """A record of screening of table `nli` with the encoder of a model of this table and the other settings of its records."""
    for other in by_model.values():
        for record in records:
            alike = (record["dataset"], record["model"]) == (other["dataset"], SCREENED.get(name)) and is_screening(record)
            if alike and _without_encoder(record) == _without_encoder(other):
                return record
    return None


def _without_encoder(record: Record) -> dict[str, Any]:
    """The settings of a run with those of its candidate, flat, without the encoder."""
    settings = fill_defaults(record["settings"])
    (candidate,) = settings.pop("candidates", [{}])
    flat: dict[str, Any] = {}
    for section, value in settings.items():
        flat |= {f"{section}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {section: value}
    return {key: value for key, value in {**flat, **candidate}.items() if not key.startswith("encoder.")}


def change_rows(table: Table, changes: Sequence[Change]) -> list[list[str]]:
    """Return header and rows: the change, the best dev score before and after it, and the difference in points."""
    lines = [["data set", "model", "before", "after", "steps", "best dev score before", "best dev score after", "difference"]]
    for one in changes:
        if one.before is not None and one.after is not None:
            settings = [table.models[name].about for name in (one.base, one.name)]
            scores = [f"{100 * record['dev_score']:.1f}" for record in (one.before, one.after)]
            steps = " / ".join(f"{count:,}" for count in dict.fromkeys((one.before["steps"], one.after["steps"])))
            lines.append([one.title, display(one.name), *settings, steps, *scores, f"{one.points:+.1f}"])
    return lines


def single_rows(table: Table, records: Sequence[Record], changes: Sequence[Change]) -> list[list[str]]:
    """Return header and rows: the best dev score of models that are compared with no other."""
    compared = {id(record) for one in changes for record in (one.before, one.after) if one.points is not None}
    return [
        ["data set", "model", "settings", "steps", "best dev score"],
        *(
            [
                table.datasets[one["dataset"]].title,
                display(one["model"]),
                table.models[one["model"]].about,
                f"{one['steps']:,}",
                f"{100 * one['dev_score']:.1f}",
            ]
            for one in records
            if id(one) not in compared
        ),
    ]


def page(table: Table, records: Sequence[Record], changes: Sequence[Change], plot: str) -> str:
    """Return the page of a table of dev scores."""
    parts = [f"# {table.title}\n"]
    if not records:
        return "\n".join([*parts, f"Not run yet (`python -m reproduce table {table.name}`).\n", table.notes])
    parts += [circumstances_of(records), ""]
    if plot:
        parts += [f"![Dev scores before and after each change]({plot})\n"]
    compared, single = change_rows(table, changes), single_rows(table, records, changes)
    if len(compared) > 1:
        parts += [markdown(compared), ""]
    if len(single) > 1:
        parts += ["Without a comparison, because the model before the change has not been run, or for reference:\n"]
        parts += [markdown(single), ""]
    return "\n".join([*parts, table.notes])

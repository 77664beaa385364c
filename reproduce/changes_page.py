"""The page of a table of dev scores: each changed model beside the same model before the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .markdown import markdown
from .records import circumstances_of, complete
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
    found = []
    for dataset, number in ((one, number) for one in table.datasets.values() for number in range(one.screenings)):
        run = dataset.run_name(number)
        place = (dataset.name, screening_name(0, run))
        own = {one["model"]: one for one in records if (one["dataset"], one["run"]) == place}
        title = f"{dataset.title}, {run}" if dataset.folds else dataset.title
        for name, base in table.before.items():
            if table.models[name].planned(dataset):
                after, before = (own.get(one) or _screened(one, own, screened) for one in (name, base))
                if after is not None or before is not None:
                    found.append(Change(title, name, base, before, after))
    return found


def _screened(name: str, own: Mapping[str, Record], records: Sequence[Record]) -> Record | None:
    """A record of screening of table `nli` with the encoder of a model of this table and the other settings of its records."""
    for known in own.values():
        for record in records:
            alike = (record["dataset"], record["model"]) == (known["dataset"], SCREENED.get(name)) and is_screening(record)
            if alike and _beside_encoder(record) == _beside_encoder(known):
                return record
    return None


def _beside_encoder(record: Record) -> dict[str, Any]:
    """The settings of a run with those of its candidate, flat, without the encoder."""
    settings = complete(record["settings"])
    (candidate,) = settings.pop("candidates", [{}])
    flat: dict[str, Any] = {}
    for section, value in settings.items():
        flat |= {f"{section}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {section: value}
    return {key: value for key, value in {**flat, **candidate}.items() if not key.startswith("encoder.")}


def change_rows(table: Table, found: Sequence[Change]) -> list[list[str]]:
    """Header and rows: each change with the row before, the row after, and the difference in points."""
    lines = [["data set", "", "model", "settings", "steps", "best on dev", "change", "dev after each evaluation"]]
    for one in found:
        for when, name, record in (("before", one.base, one.before), ("after", one.name, one.after)):
            points = "" if when == "before" or one.points is None else f"{one.points:+.1f}"
            shown = ["", "not run yet", points, ""]
            if record is not None:
                curve = ", ".join(f"{100 * entry['score']:.1f}" for entry in record["dev_curve"])
                shown = [f"{record['steps']:,}", f"{100 * record['dev_score']:.1f}", points, curve]
            lines.append([one.title, when, f"`{name}`", table.models[name].about, *shown])
    return lines


def page(table: Table, records: Sequence[Record], found: Sequence[Change], picture: str) -> str:
    """The page of a table of dev scores."""
    parts = [f"# {table.title}\n"]
    if not records:
        return "\n".join([*parts, f"There are no records yet (`python -m reproduce table {table.name}`).\n", table.notes])
    parts += [circumstances_of(table.name, records), ""]
    if picture:
        parts += [f"![Dev scores before and after each change]({picture})\n"]
    parts += [markdown(change_rows(table, found)), ""]
    rest = [one for one in records if one["model"] not in {*table.before, *table.before.values()}]
    if rest:
        rows = [[one["dataset"], f"`{one['model']}`", f"{100 * one['dev_score']:.1f}"] for one in rest]
        parts += ["For comparison:\n", markdown([["data set", "model", "best on dev"], *rows]), ""]
    return "\n".join([*parts, table.notes])

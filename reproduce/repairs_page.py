"""The page of repairs: each repaired model beside the same model before the repair, on dev."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .markdown import markdown
from .records import circumstances_of, complete
from .table import Record, is_screening
from .tables import REPAIRS
from .tables.repairs import BEFORE, SCREENED


@dataclass(frozen=True)
class Repair:
    """A repair on one data set, with the records of the model before and after it where they exist."""

    dataset: str
    name: str
    before: Record | None
    after: Record | None

    @property
    def title(self) -> str:
        """The data set, as tables show it."""
        return str(REPAIRS.datasets[self.dataset].title)

    @property
    def change(self) -> float | None:
        """The change of the best dev score, in points."""
        if self.before is None or self.after is None:
            return None
        return 100 * float(self.after["dev_score"] - self.before["dev_score"])


def repairs(records: Sequence[Record], screened: Sequence[Record]) -> list[Repair]:
    """Every repair of which at least one record exists.

    Args:
        records: those of table `repairs`.
        screened: those of table `nli`; they are used where a model before its repair has no record of its own.
    """
    found = []
    for dataset in REPAIRS.datasets.values():
        own = {one["model"]: one for one in records if one["dataset"] == dataset.name}
        for name, base in BEFORE.items():
            if not REPAIRS.models[name].planned(dataset):
                continue
            after = own.get(name) or _screened(name, own, screened)
            before = own.get(base) or _screened(base, own, screened)
            if after is not None or before is not None:
                found.append(Repair(dataset.name, name, before, after))
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


def repair_rows(found: Sequence[Repair]) -> list[list[str]]:
    """Header and rows: each repair with the row before, the row after, and the change."""
    lines = [["data set", "", "model", "settings", "steps", "best on dev", "change", "dev after each evaluation"]]
    for one in found:
        for when, name, record in (("before", BEFORE[one.name], one.before), ("after", one.name, one.after)):
            change = "" if when == "before" or one.change is None else f"{one.change:+.1f}"
            shown = ["", "not run yet", change, ""]
            if record is not None:
                curve = ", ".join(f"{100 * entry['score']:.1f}" for entry in record["dev_curve"])
                shown = [f"{record['steps']:,}", f"{100 * record['dev_score']:.1f}", change, curve]
            lines.append([one.title, when, f"`{name}`", REPAIRS.models[name].about, *shown])
    return lines


def page(records: Sequence[Record], screened: Sequence[Record], picture: str) -> str:
    """The page of the repairs."""
    parts = [f"# {REPAIRS.title}\n"]
    found = repairs(REPAIRS.check(records), screened)
    if not found:
        return "\n".join([*parts, "There are no records yet (`python -m reproduce table repairs`).\n", REPAIRS.notes])
    parts += [circumstances_of(REPAIRS.name, records), ""]
    if picture:
        parts += [f"![Dev scores before and after each repair]({picture})\n"]
    parts += [markdown(repair_rows(found)), ""]
    rest = [one for one in records if one["model"] not in {*BEFORE, *BEFORE.values()}]
    if rest:
        rows = [[one["dataset"], f"`{one['model']}`", f"{100 * one['dev_score']:.1f}"] for one in rest]
        parts += ["For comparison:\n", markdown([["data set", "model", "best on dev"], *rows]), ""]
    return "\n".join([*parts, REPAIRS.notes])

"""Records of units: what was run, on what, with what, the dev curve, and exactly one evaluation on the test part."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mtsa.errors import InputError

_NEEDED = {
    "table": str, "dataset": str, "row": str, "unit": str, "settings": dict, "sources": dict, "seed": int, "versions": dict,
    "machine": dict, "time": str, "seconds": (int, float), "examples": dict, "dev_curve": list, "test_evaluations": list,
}  # fmt: skip
_CURE = "delete it, and the unit is run again"


def check_record(record: Any, path: Path) -> dict[str, Any]:
    """A record that can be counted.

    Raises:
        InputError: something is missing, it is the record of another unit, or the test part was not evaluated exactly once.
    """
    if not isinstance(record, dict):
        raise InputError(f"{path} is no record of a unit; {_CURE}")
    for key, kind in _NEEDED.items():
        if not isinstance(record.get(key), kind):  # type: ignore[arg-type]
            raise InputError(f'{path}: the record has no "{key}"; {_CURE}')
    if Path(record["dataset"]) / record["row"] / f"{record['unit']}.json" != Path(*path.parts[-3:]):
        raise InputError(f"{path} is the record of {record['dataset']}/{record['row']}/{record['unit']}; move it there")
    if not 0.0 <= record["seconds"] < math.inf or isinstance(record["seconds"], bool):
        raise InputError(f"{path}: seconds are {record['seconds']!r}; they must be a number of at least 0; {_CURE}")
    for entry in record["dev_curve"]:
        if not isinstance(entry, dict) or any("test" in str(key) for key in entry):
            raise InputError(f"{path}: the dev curve holds {entry!r}; dev figures alone belong there; {_CURE}")
    _check_tests(record["test_evaluations"], path)
    return record


def main_figure(figures: dict[str, Any]) -> tuple[str, Any]:
    """Name and value of what counts most: F1 of roles, BLEU of translations (as a part of 1), accuracy elsewhere."""
    if "bleu" in figures:
        return "BLEU", figures["bleu"] / 100.0 if isinstance(figures["bleu"], float) else figures["bleu"]
    return ("F1", figures["f1"]) if "f1" in figures else ("accuracy", figures.get("accuracy"))


def _check_tests(tests: list[Any], path: Path) -> None:
    if len(tests) != 1:
        raise InputError(f"{path}: the test part was evaluated {len(tests)} times; exactly once counts; {_CURE}")
    for figures in (tests[0], tests[0].get("unseen", tests[0]) if isinstance(tests[0], dict) else None):
        name, value = main_figure(figures) if isinstance(figures, dict) else ("accuracy", None)
        count = figures.get("count") if isinstance(figures, dict) else None
        if not isinstance(value, float) or not 0.0 <= value <= 1.0:
            raise InputError(f"{path}: the test {name} is {value!r}; it must be between 0 and 1; {_CURE}")
        if not isinstance(count, int) or count < 1:
            raise InputError(f"{path}: the count of test examples is {count!r}; it must be at least 1; {_CURE}")


def read_record(path: Path) -> dict[str, Any]:
    """One record, checked.

    Raises:
        InputError: as `check_record`, or a file that is no JSON.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{path} is no JSON; {_CURE}") from None
    return check_record(value, path)


def read_records(folder: Path) -> list[dict[str, Any]]:
    """All records of a table, checked.

    Raises:
        InputError: as `read_record`.
    """
    return [read_record(path) for path in sorted(folder.glob("[!.]*/*/*.json"))]


def check_alike(records: Sequence[dict[str, Any]], comparable: Callable[[dict[str, Any]], Any]) -> None:
    """See that the records of one cell of a table were made alike.

    Raises:
        InputError: two of them with other settings or files.
    """
    cells: dict[tuple[str, str], tuple[str, Any]] = {}
    for record in records:
        place = f"{record['dataset']}/{record['row']}/{record['unit']}.json"
        what = (comparable(record), record["sources"])
        first, other = cells.setdefault((record["row"], record["dataset"]), (place, what))
        if what != other:
            raise InputError(f"{place} and {first} were made with other settings or files; delete one of them")


def circumstances_of(table: str, records: Sequence[dict[str, Any]]) -> str:
    """How many records a table is made of, what they took, and on what: a sentence."""
    total = sum(record["seconds"] for record in records)
    threads = " or ".join(sorted({str(record["machine"]["threads"]) for record in records}))
    machines = ", ".join(sorted({record["machine"]["processor"] for record in records}))
    versions = ", ".join(sorted({record["versions"]["torch"] for record in records}))
    vectors = sorted({name for record in records for name in record["sources"] if "glove" in name})
    counted = "1 record" if len(records) == 1 else f"{len(records)} records"
    return (
        f"`python -m reproduce table {table}`: {counted} in `results/{table}`, {total / 3600:.1f} hours of runs "
        f"with {threads} thread(s) each, some side by side; {machines}; torch {versions}"
        + (f"; vectors {', '.join(vectors)}." if vectors else ".")
    )

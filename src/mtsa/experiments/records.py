"""Records of units: what was run, on what, with what, the dev curve, and exactly one evaluation on the test part."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from mtsa.data.source import InputError

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


def _check_tests(tests: list[Any], path: Path) -> None:
    if len(tests) != 1:
        raise InputError(f"{path}: the test part was evaluated {len(tests)} times; exactly once counts; {_CURE}")
    for figures in (tests[0], tests[0].get("unseen", tests[0]) if isinstance(tests[0], dict) else None):
        accuracy, count = (figures.get("accuracy"), figures.get("count")) if isinstance(figures, dict) else (None, None)
        if not isinstance(accuracy, float) or not 0.0 <= accuracy <= 1.0:
            raise InputError(f"{path}: the test accuracy is {accuracy!r}; it must be between 0 and 1; {_CURE}")
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

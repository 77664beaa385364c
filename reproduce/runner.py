"""The experiment runner: says what it will cost, runs unit after unit, records each as it ends, goes on after a stop.

A record appears whole or not at all, when its unit has ended; a unit with a record is never run again. Several runners may
share a folder: a unit under way is locked by the process that runs it, and the lock goes with the process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.files import fingerprint, locked, write_json

from .records import check_record, main_figure, read_record
from .units import Unit

_WORK = ".work"
_log = logging.getLogger(__name__)
_ASSUMED = 120.0  # seconds of a unit when nothing like it has a record


@dataclass(frozen=True)
class Left:
    """What a runner left undone."""

    units: list[Unit]
    seconds: float  # estimated


def run_units(
    units: Sequence[Unit],
    folder: Path,
    *,
    minutes: float | None,
    say: Callable[[str], None] = _log.info,
) -> Left:
    """Run the units that have no record; stop before one that would not end within the minutes.

    Raises:
        InputError: bad data, or a record of other settings or other data in the folder.
    """
    waiting = _pending(units, folder)
    say(_cost(units, waiting, folder))
    end = None if minutes is None else time.monotonic() + 60 * minutes
    left, busy, failed = [], [], dict[Unit, InputError]()
    for unit in waiting:
        if end is not None and time.monotonic() + estimate(unit, folder) > end:
            left.append(unit)
            continue
        lock = folder / _WORK / unit.path.with_suffix(".lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        with locked(lock) as mine:
            if not mine:
                busy.append(unit)
            elif not (folder / unit.path).exists():  # another runner may have ended it since
                try:
                    _run(unit, folder, say)
                except InputError as error:  # the others do not wait for it
                    failed[unit] = error
                    say(f"{unit.path.with_suffix('')} failed: {error}")
    if busy:
        names = ", ".join(str(unit.path.with_suffix("")) for unit in busy)
        say(f"left to other processes that were running them: {names}")
    if failed:
        unit = next(iter(failed))
        raise InputError(f"{len(failed)} of the units failed; the first, {unit.path.with_suffix('')}: {failed[unit]}")
    undone = [unit for unit in (*left, *busy) if not (folder / unit.path).exists()]
    return Left(undone, sum(estimate(unit, folder) for unit in undone))


def estimate(unit: Unit, folder: Path) -> float:
    """Seconds that a unit takes: the mean of its row on its data set, or else the longest of any row on that data set."""
    known = _seconds(folder / unit.path.parent)
    if known:
        return sum(known) / len(known)
    return max(_seconds(folder / unit.dataset, "*/*.json"), default=_ASSUMED)


def _seconds(folder: Path, pattern: str = "*.json") -> list[float]:
    return [float(read_record(path)["seconds"]) for path in folder.glob(pattern)]


def _pending(units: Sequence[Unit], folder: Path) -> list[Unit]:
    """The units without a record.

    Raises:
        InputError: the record of a unit was made with other settings or other data.
    """
    waiting, sums = [], dict[Path, Any]()
    for unit in units:
        path = folder / unit.path
        if not path.exists():
            waiting.append(unit)
            continue
        record = read_record(path)
        settings = unit.normal(record["settings"])
        if settings != unit.settings:
            keys = _differences(settings, unit.settings)
            raise InputError(f"{path} was made with other settings ({keys}); delete it, or name another folder with --records")
        for name, file in unit.files.items():
            if file not in sums:
                sums[file] = fingerprint(file)
            if record["sources"].get(name) != sums[file]:
                raise InputError(f"{path} was made with another {name}; delete it, or name another folder with --records")
    return waiting


def _differences(old: dict[str, Any], new: dict[str, Any], place: str = "") -> str:
    found = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            found.append(_differences(before, after, f"{place}{key}."))
        elif before != after:
            found.append(f"{place}{key}: {before!r}, now {after!r}")
    return ", ".join(text for text in found if text)


def _run(unit: Unit, folder: Path, say: Callable[[str], None]) -> None:
    work, path = folder / _WORK / unit.path.with_suffix(""), folder / unit.path
    what = {"settings": unit.settings, "sources": unit.sources()}
    named = json.dumps([what, sorted(map(str, unit.files.values()))], sort_keys=True)
    begun = work / hashlib.sha256(named.encode()).hexdigest()[:16]
    for other in work.glob("*"):
        if other != begun:  # begun with other settings or other data, or done with
            shutil.rmtree(other)
    names = {"table": unit.table, "dataset": unit.dataset, "row": unit.row, "unit": unit.name}
    record = {**names, **what, **unit.run(begun)}
    write_json(path, check_record(record, path))
    _remove(work)
    test = record["test_evaluations"][0]
    name, value = main_figure(test)
    say(f"{unit.path.with_suffix('')}: test {name} {value:.4f} ({test['count']:,} examples, {record['seconds']:.0f} s)")


def _remove(work: Path) -> None:
    """Nothing of a unit's work may be taken for an unfinished unit, whenever this is stopped: the names go first."""
    for inner in list(work.glob("*")):
        inner.rename(inner.with_name(f"{inner.name}.done"))
    shutil.rmtree(work, ignore_errors=True)


def _cost(units: Sequence[Unit], waiting: Sequence[Unit], folder: Path) -> str:
    total = sum(estimate(unit, folder) for unit in waiting)
    unknown = sum(not _seconds(folder / unit.dataset, "*/*.json") for unit in waiting)
    remark = f" ({unknown} of them on data sets without a record: {_ASSUMED:.0f} s assumed)" if unknown else ""
    done = len(units) - len(waiting)
    return f"{len(units)} units, {done} recorded; {len(waiting)} to run, about {total / 60:.0f} minutes{remark}"

"""The experiment runner: reports the cost, executes run after run, records each as it ends, and resumes after a stop.

A record appears whole or not at all, when its run has ended; a run with a record is never repeated. Several runners may share
a folder: a run in progress is locked by its process, and the lock ends with the process.
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

from .records import check_record, main_metric, read_record
from .runs import Run

_WORK = ".work"
_log = logging.getLogger(__name__)
_ASSUMED = 120.0  # seconds of a run when nothing like it has a record


@dataclass(frozen=True)
class Left:
    """What a runner left undone."""

    runs: list[Run]
    seconds: float  # estimated


def execute_all(
    runs: Sequence[Run],
    folder: Path,
    *,
    minutes: float | None,
    say: Callable[[str], None] = _log.info,
) -> Left:
    """Execute the runs that have no record; stop before one that would not end within the minutes.

    Raises:
        InputError: bad data, or a record of other settings or other data in the folder.
    """
    waiting = _pending(runs, folder)
    say(_cost(runs, waiting, folder))
    end = None if minutes is None else time.monotonic() + 60 * minutes
    left, busy, failed = [], [], dict[Run, InputError]()
    for run in waiting:
        if end is not None and time.monotonic() + estimate(run, folder) > end:
            left.append(run)
            continue
        lock = folder / _WORK / run.path.with_suffix(".lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        with locked(lock) as mine:
            if not mine:
                busy.append(run)
            elif not (folder / run.path).exists():  # another runner may have ended it since
                try:
                    _run(run, folder, say)
                except InputError as error:  # the others do not wait for it
                    failed[run] = error
                    say(f"{run.path.with_suffix('')} failed: {error}")
    if busy:
        names = ", ".join(str(run.path.with_suffix("")) for run in busy)
        say(f"in progress in other processes: {names}")
    if failed:
        run = next(iter(failed))
        raise InputError(f"{len(failed)} of the runs failed; the first, {run.path.with_suffix('')}: {failed[run]}")
    undone = [run for run in (*left, *busy) if not (folder / run.path).exists()]
    return Left(undone, sum(estimate(run, folder) for run in undone))


def estimate(run: Run, folder: Path) -> float:
    """Seconds that a run takes: the mean of its model on its data set, or else the longest of any model on that data set."""
    known = _seconds(folder / run.path.parent)
    if known:
        return run.cost * sum(known) / len(known)
    return run.cost * max(_seconds(folder / run.dataset, "*/*.json"), default=_ASSUMED)


def _seconds(folder: Path, pattern: str = "*.json") -> list[float]:
    """Seconds of one complete training, from each record."""
    found = []
    for path in folder.glob(pattern):
        record = read_record(path)
        candidates = record["settings"].get("candidates", [])
        found.append(float(record["seconds"]) / float(record["settings"].get("screened", len(candidates) or 1)))
    return found


def _pending(runs: Sequence[Run], folder: Path) -> list[Run]:
    """The runs without a record.

    Raises:
        InputError: the record of a run was made with other settings or other data.
    """
    waiting, sums = [], dict[Path, Any]()
    for run in runs:
        path = folder / run.path
        if not path.exists():
            waiting.append(run)
            continue
        record = read_record(path)
        settings = run.complete(record["settings"])
        if settings != run.settings:
            keys = _differences(settings, run.settings)
            raise InputError(f"{path} was made with other settings ({keys}); delete it, or name another folder with --records")
        for name, file in run.files.items():
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


def _run(run: Run, folder: Path, say: Callable[[str], None]) -> None:
    work, path = folder / _WORK / run.path.with_suffix(""), folder / run.path
    what = {"settings": run.settings, "sources": run.sources()}
    named = json.dumps([what, sorted(map(str, run.files.values()))], sort_keys=True)
    begun = work / hashlib.sha256(named.encode()).hexdigest()[:16]
    for other in work.glob("*"):
        if other != begun:  # begun with other settings or other data, or done with
            shutil.rmtree(other)
    names = {"table": run.table, "dataset": run.dataset, "model": run.model, "run": run.name}
    record = {**names, **what, **run.execute(begun)}
    write_json(path, check_record(record, path))
    _remove(work)
    if "dev_score" in record:
        say(f"{run.path.with_suffix('')}: dev score {record['dev_score']:.4f} ({record['seconds']:.0f} s)")
        return
    part, test = next(iter(record["test"].items()))
    name, value = main_metric(test)
    say(f"{run.path.with_suffix('')}: {part} {name} {value:.4f} ({test['count']:,} examples, {record['seconds']:.0f} s)")


def _remove(work: Path) -> None:
    """Delete the work of a run; renamed first, so that a stop in between leaves nothing that looks like an unfinished run."""
    for inner in list(work.glob("*")):
        inner.rename(inner.with_name(f"{inner.name}.done"))
    shutil.rmtree(work, ignore_errors=True)


def _cost(runs: Sequence[Run], waiting: Sequence[Run], folder: Path) -> str:
    total = sum(estimate(run, folder) for run in waiting)
    unknown = sum(not _seconds(folder / run.dataset, "*/*.json") for run in waiting)
    remark = f" ({unknown} of them on data sets without a record: {_ASSUMED:.0f} s assumed)" if unknown else ""
    done = len(runs) - len(waiting)
    return f"{len(runs)} runs, {done} recorded; {len(waiting)} to run, about {total / 60:.0f} minutes{remark}"

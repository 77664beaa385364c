"""The experiment runner: estimates the cost, executes the runs without a record, and resumes after an interruption.

Records are written atomically when a run ends; a run with a record is never repeated. Several runners may share a folder: a
run in progress is locked by its process, and the lock ends with the process.
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
_DEFAULT_SECONDS = 120.0  # estimate for a run on a data set without records


@dataclass(frozen=True)
class Remaining:
    """Runs that a runner did not execute."""

    runs: list[Run]
    seconds: float  # estimated


def execute_all(
    runs: Sequence[Run],
    folder: Path,
    *,
    minutes: float | None,
    say: Callable[[str], None] = _log.info,
) -> Remaining:
    """Execute the runs that have no record; runs that are estimated to exceed the minutes are not started.

    Raises:
        InputError: bad data, or a record of other settings or other data in the folder.
    """
    waiting = _pending(runs, folder)
    say(_cost(runs, waiting, folder))
    end = None if minutes is None else time.monotonic() + 60 * minutes
    remaining, locked_elsewhere, failed = [], [], dict[Run, InputError]()
    for run in waiting:
        if end is not None and time.monotonic() + estimate(run, folder) > end:
            remaining.append(run)
            continue
        lock = folder / _WORK / run.path.with_suffix(".lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        with locked(lock) as acquired:
            if not acquired:
                locked_elsewhere.append(run)
            elif not (folder / run.path).exists():  # another runner may have completed it in the meantime
                try:
                    _run(run, folder, say)
                except InputError as error:  # continue with the other runs
                    failed[run] = error
                    say(f"{run.path.with_suffix('')} failed: {error}")
    if locked_elsewhere:
        names = ", ".join(str(run.path.with_suffix("")) for run in locked_elsewhere)
        say(f"in progress in other processes: {names}")
    if failed:
        run = next(iter(failed))
        runs_failed = "1 run failed" if len(failed) == 1 else f"{len(failed)} runs failed"
        raise InputError(f"{runs_failed}; first error ({run.path.with_suffix('')}): {failed[run]}")
    remaining = [run for run in (*remaining, *locked_elsewhere) if not (folder / run.path).exists()]
    return Remaining(remaining, sum(estimate(run, folder) for run in remaining))


def estimate(run: Run, folder: Path) -> float:
    """Return the estimated seconds of a run: the mean of its model on its data set, or else the maximum on that data set."""
    recorded = _seconds(folder / run.path.parent)
    if recorded:
        return run.cost * sum(recorded) / len(recorded)
    return run.cost * max(_seconds(folder / run.dataset, "*/*.json"), default=_DEFAULT_SECONDS)


def _seconds(folder: Path, pattern: str = "*.json") -> list[float]:
    """Seconds of one complete training, from each record."""
    seconds = []
    for path in folder.glob(pattern):
        record = read_record(path)
        candidates = record["settings"].get("candidates", [])
        seconds.append(float(record["seconds"]) / float(record["settings"].get("screened", len(candidates) or 1)))
    return seconds


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
        settings = run.fill_defaults(record["settings"])
        if settings != run.settings:
            keys = _differences(settings, run.settings)
            raise InputError(
                f"{path} was made with other settings ({keys}); delete the record, or choose another folder with --records"
            )
        for name, file in run.files.items():
            if file not in sums:
                sums[file] = fingerprint(file)
            if record["sources"].get(name) != sums[file]:
                raise InputError(
                    f"the checksum of {name} differs from that in {path}; delete the record, "
                    "or choose another folder with --records"
                )
    return waiting


def _differences(old: dict[str, Any], new: dict[str, Any], place: str = "") -> str:
    differences = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            differences.append(_differences(before, after, f"{place}{key}."))
        elif before != after:
            differences.append(f"{place}{key}: {before!r}, now {after!r}")
    return ", ".join(text for text in differences if text)


def _run(run: Run, folder: Path, say: Callable[[str], None]) -> None:
    work, path = folder / _WORK / run.path.with_suffix(""), folder / run.path
    inputs = {"settings": run.settings, "sources": run.sources()}
    identity = json.dumps([inputs, sorted(map(str, run.files.values()))], sort_keys=True)
    work_folder = work / hashlib.sha256(identity.encode()).hexdigest()[:16]
    for other in work.glob("*"):
        if other != work_folder:  # of other settings or other data, or complete
            shutil.rmtree(other)
    names = {"table": run.table, "dataset": run.dataset, "model": run.model, "run": run.name}
    record = {**names, **inputs, **run.execute(work_folder)}
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
    remark = f" ({_DEFAULT_SECONDS:.0f} s assumed for {unknown} runs without records)" if unknown else ""
    finished = len(runs) - len(waiting)
    return f"{len(runs)} runs: {finished} finished, {len(waiting)} remaining, about {total / 60:.0f} minutes{remark}"

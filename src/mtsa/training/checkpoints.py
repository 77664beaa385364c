"""Checkpoint folders that appear whole or not at all: written under another name, forced to disk, then renamed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX, _SAVING = "checkpoint-", ".saving-"


def step_of(folder: Path) -> int:
    """The step after which a checkpoint was taken."""
    return int(folder.name.removeprefix(_PREFIX))


def checkpoint(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is, or would be."""
    return folder / f"{_PREFIX}{step}"


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = [entry for entry in folder.iterdir() if entry.name.removeprefix(_PREFIX).isdecimal() and entry.is_dir()]
    return sorted(found, key=step_of)


def saving_folder(folder: Path, step: int) -> Path:
    """Where a checkpoint is written before it gets its name."""
    return folder / f"{_SAVING}{step}"


def appear(partial: Path, folder: Path, step: int) -> Path:
    """Force a written checkpoint to disk and give it its name."""
    for file in partial.iterdir():
        _sync(file)
    _sync(partial)
    final = checkpoint(folder, step)
    if final.exists():  # a checkpoint of the same step, from before a restart
        _remove(final)
    partial.rename(final)
    _sync(folder)
    return final


def sweep(folder: Path, keep: set[Path]) -> None:
    """Remove what was never finished, and every checkpoint but those to keep."""
    for entry in folder.iterdir():
        if entry.name.startswith(_SAVING) or (entry.name.startswith(_PREFIX) and entry not in keep):
            _remove(entry)


def _remove(entry: Path) -> None:
    """A folder loses its name first, so that a stop in the middle never leaves half of one behind as a checkpoint."""
    if entry.name.startswith(_PREFIX):
        entry = entry.rename(entry.with_name(f"{_SAVING}removed-{entry.name}"))
    shutil.rmtree(entry, ignore_errors=True)


def _sync(path: Path) -> None:
    with _descriptor(path) as descriptor:
        os.fsync(descriptor)


@contextmanager
def _descriptor(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

"""Checkpoint folders that appear whole or not at all: written under another name, forced to disk, then renamed."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from mtsa.errors import InputError
from mtsa.files import fingerprint, fsync, write_json

_PREFIX, _TEMPORARY, _LIST = "checkpoint-", ".saving-", "files.json"


def step_of(folder: Path) -> int:
    """The step after which a checkpoint was taken."""
    return int(folder.name.removeprefix(_PREFIX))


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is, or would be."""
    return folder / f"{_PREFIX}{step}"


def list_checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = [entry for entry in folder.iterdir() if entry.name.removeprefix(_PREFIX).isdecimal() and entry.is_dir()]
    return sorted(found, key=step_of)


def temporary_path(folder: Path, step: int) -> Path:
    """Where a checkpoint is written before it gets its name."""
    return folder / f"{_TEMPORARY}{step}"


def finalize(partial: Path, folder: Path, step: int) -> Path:
    """List the files of a written checkpoint, force them to disk and give it its name."""
    write_json(partial / _LIST, {file.name: fingerprint(file) for file in sorted(partial.iterdir())})
    for file in partial.iterdir():
        fsync(file)
    fsync(partial)
    final = checkpoint_path(folder, step)
    if final.exists():  # a checkpoint of the same step, from before a restart
        _remove(final)
    partial.rename(final)
    fsync(folder)
    return final


def verify(folder: Path) -> None:
    """See that a checkpoint is as it was written.

    Raises:
        InputError: a file of it is missing or was changed.
    """
    try:
        listed = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        there = {file.name for file in folder.iterdir()} - {_LIST}
        damaged = next((name for name in sorted(there | listed.keys()) if fingerprint(folder / name) != listed[name]), None)
    except (OSError, ValueError, AttributeError, KeyError, RecursionError):
        damaged = _LIST
    if damaged is not None:
        raise InputError(
            f"{folder} is damaged ({damaged}), or of an earlier version; delete it, and the same command goes on from the rest"
        )


def delete_except(folder: Path, keep: set[Path]) -> None:
    """Remove what was never finished, and every checkpoint but those to keep."""
    for entry in folder.iterdir():
        if entry.name.startswith(_TEMPORARY) or (entry.name.startswith(_PREFIX) and entry not in keep):
            _remove(entry)


def remove_all(folder: Path) -> None:
    """Remove a folder of checkpoints; anything else in it stays."""
    if folder.is_dir():
        delete_except(folder, keep=set())
        with suppress(OSError):
            folder.rmdir()


def _remove(entry: Path) -> None:
    """A folder loses its name first, so that a stop in the middle never leaves half of one behind as a checkpoint."""
    if entry.name.startswith(_PREFIX):
        entry = entry.rename(entry.with_name(f"{_TEMPORARY}removed-{entry.name}"))
    shutil.rmtree(entry, ignore_errors=True)

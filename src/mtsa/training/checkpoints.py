"""Checkpoint directories, written atomically: under a temporary name, synced to disk, then renamed."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from mtsa.errors import InputError
from mtsa.files import fingerprint, fsync, write_json

_PREFIX, _TEMPORARY, _LIST = "checkpoint-", ".saving-", "files.json"


def step_of(folder: Path) -> int:
    """Return the step of a checkpoint."""
    return int(folder.name.removeprefix(_PREFIX))


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step."""
    return folder / f"{_PREFIX}{step}"


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    complete = [entry for entry in folder.iterdir() if entry.name.removeprefix(_PREFIX).isdecimal() and entry.is_dir()]
    return sorted(complete, key=step_of)


def temporary_path(folder: Path, step: int) -> Path:
    """Return the path under which a checkpoint is written before it is renamed."""
    return folder / f"{_TEMPORARY}{step}"


def finalize(partial: Path, folder: Path, step: int) -> Path:
    """Write the checksums of a checkpoint, sync its files to disk and rename it."""
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
    """Verify the checksums of a checkpoint.

    Raises:
        InputError: a file is missing or has a wrong checksum.
    """
    try:
        listed = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        there = {file.name for file in folder.iterdir()} - {_LIST}
        damaged = next((name for name in sorted(there | listed.keys()) if fingerprint(folder / name) != listed[name]), None)
    except (OSError, ValueError, AttributeError, KeyError, RecursionError):
        damaged = _LIST
    if damaged is not None:
        raise InputError(
            f"{folder} is damaged ({damaged}) or was written by an earlier version; delete it and rerun the command to resume"
        )


def delete_except(folder: Path, keep: set[Path]) -> None:
    """Delete incomplete checkpoints, and all checkpoints except those in `keep`."""
    for entry in folder.iterdir():
        if entry.name.startswith(_TEMPORARY) or (entry.name.startswith(_PREFIX) and entry not in keep):
            _remove(entry)


def remove_all(folder: Path) -> None:
    """Delete the checkpoints in a folder, and the folder if it is empty."""
    if folder.is_dir():
        delete_except(folder, keep=set())
        with suppress(OSError):
            folder.rmdir()


def _remove(entry: Path) -> None:
    """Delete a checkpoint; it is renamed first, so that an interruption never leaves an incomplete checkpoint."""
    if entry.name.startswith(_PREFIX):
        entry = entry.rename(entry.with_name(f"{_TEMPORARY}removed-{entry.name}"))
    shutil.rmtree(entry, ignore_errors=True)

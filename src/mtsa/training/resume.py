"""The directory of an unfinished run: data sources, last checkpoint, and a lock against other processes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mtsa.data.sharding import Shards
from mtsa.errors import InputError
from mtsa.files import fingerprint, locked, write_json, write_text
from mtsa.models.pretrained_source import locate_pretrained

from . import checkpoints
from .model_inputs import MODEL_FILES
from .recipe import Recipe
from .recipe_files import same_recipe, to_toml
from .run_directory import MANIFEST, RECIPE, check_run
from .split import Split

CHECKPOINTS, REFIT = "checkpoints", "refit"
_OLD_STATE = "trainer_state.json"  # of version 0.2
SOURCES = "sources.json"


def is_main_process() -> bool:
    """Return whether this process logs and writes files (rank 0)."""
    return int(os.environ.get("RANK", "0")) == 0


def describe_sources(recipe: Recipe, split: Split) -> dict[str, Any]:
    """Return checksums and sizes of the data of a run, which must match to resume it."""
    counts = {"train": 0, "dev": 0, "test": 0} | {part: len(examples) for part, examples in split.named().items()}
    files = {}
    wanted = recipe.pretrained.model
    below = [str(Path(locate_pretrained(wanted)) / name) for name in MODEL_FILES] if wanted else []
    data = recipe.data
    targets = (data.train_target, data.dev_target, data.test_target, *data.tests_target)
    for name in (data.train, data.dev, data.test, *data.tests, *targets, recipe.vectors.file, *below):
        if name and Path(name).is_file():
            shown = str(Path(wanted) / Path(name).name) if name in below else name
            files[shown] = fingerprint(Path(name))
    digest = hashlib.sha256()
    for part, examples in split.named().items():
        if isinstance(examples, Shards):
            digest.update(f"{part}\0{examples.sha256()}\n".encode())
            continue
        for example in examples:
            digest.update("\0".join((part, *example.texts, f"{example.label}\n")).encode("utf-8", "replace"))
    return {"examples": counts, "sha256": digest.hexdigest(), "files": files}


def find_checkpoint(folder: Path, recipe: Recipe, sources: dict[str, Any]) -> Path | None:
    """Return the last checkpoint of an unfinished run of this recipe; None if there is nothing to resume.

    Raises:
        InputError: the folder has other content.
    """
    if (folder / MANIFEST).exists():
        remove_checkpoints(folder)
        raise InputError(f"{folder} contains a finished run; choose another folder with --out, or delete it")
    found = checkpoints.list_checkpoints(folder / CHECKPOINTS)
    if found and (found[-1] / _OLD_STATE).exists():
        raise InputError(
            f"{folder} contains an unfinished run of version 0.2, which cannot be resumed; "
            "choose another folder with --out, or delete it"
        )
    if found and (folder / RECIPE).exists() and (folder / SOURCES).exists():
        if not same_recipe(folder / RECIPE, recipe):
            raise InputError(
                f"{folder} contains an unfinished run with another recipe; choose another folder with --out, or delete it"
            )
        if read_state(folder / SOURCES) != sources:
            raise InputError(
                f"{folder} contains an unfinished run with other data; choose another folder with --out, or delete it"
            )
        return found[-1]
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose a folder with --out")
    if folder.is_dir() and any(
        not entry.name.endswith(".partial") and entry.name not in (CHECKPOINTS, REFIT, SOURCES, RECIPE, "tensorboard")
        for entry in folder.iterdir()
    ):
        raise InputError(f"{folder} is not empty and contains no run; choose another folder with --out")
    return None


def read_state(path: Path) -> Any:
    """Read a JSON file of an unfinished run.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} is damaged; delete the folder and train again") from None


@contextmanager
def lock_run_directory(folder: Path) -> Iterator[None]:
    """Create the run directory if necessary, and lock it against other processes.

    Raises:
        InputError: it cannot be created, or is in use by another process.
    """
    if not is_main_process():
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; choose another folder with --out") from None
    with locked(folder) as acquired:
        if not acquired:
            raise InputError(
                f"{folder}: another process is using this folder; wait for it to finish, or choose another folder with --out"
            )
        try:
            yield
        except InputError:
            with suppress(OSError):
                folder.rmdir()  # if it is empty
            raise


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a finished run; does nothing for unfinished or damaged runs."""
    with suppress(InputError):
        check_run(folder)
        for name in (CHECKPOINTS, REFIT):
            checkpoints.remove_all(folder / name)
        (folder / SOURCES).unlink(missing_ok=True)


def init_run_directory(folder: Path, recipe: Recipe, sources: dict[str, Any], *, fresh: bool) -> None:
    """Create the run directory, with the files that identify the run when it is resumed."""
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        for partial in folder.glob(".*.partial"):  # of a killed process
            partial.unlink()
        if fresh:
            shutil.rmtree(folder / REFIT, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; choose another folder with --out") from None
    write_json(folder / SOURCES, sources)
    write_text(folder / RECIPE, to_toml(recipe))

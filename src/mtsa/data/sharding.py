"""Training data that does not fit into memory, distributed at random over shards (files of JSON lines).

A folder of shards contains `shards.json` (the task and the number of examples of each shard), `shard-00000.jsonl` and so on.
Each shard is a random sample of all examples, so shuffling the shards, and the examples within each shard, is equivalent to
shuffling all examples.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.files import fingerprint, fsync, locked, write_json
from mtsa.progress import advance
from mtsa.tasks.registry import get_task

from .text_files import LONGEST

INDEX = "shards.json"
SIZE = 16  # megabytes of text in a shard, about 100 when it is encoded
_MAX_SHARDS = 100_000  # shards
_BUFFER_SIZE = 32_000_000  # characters in memory that are not yet written


@dataclass(frozen=True)
class Shards:
    """The examples of a folder of shards; iteration loads one shard at a time."""

    folder: Path
    task: str
    counts: tuple[int, ...]  # examples of each

    def __len__(self) -> int:
        return sum(self.counts)

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self.counts)):
            yield from self.read(number)

    def read(self, number: int) -> list[Any]:
        """Return the examples of one shard.

        Raises:
            InputError: a file is missing or damaged, or contains more or fewer examples than listed.
        """
        path = self.folder / _name(number)
        examples = get_task(self.task).read_shard(path)
        if len(examples) != self.counts[number]:
            raise InputError(
                f"{path} contains {len(examples):,} examples, but {INDEX} lists {self.counts[number]:,}; recreate the shards"
            )
        return examples

    def sha256(self) -> str:
        """Return the checksum of all files.

        Raises:
            InputError: a file is missing.
        """
        files = [self.folder / INDEX, *(self.folder / _name(number) for number in range(len(self.counts)))]
        missing = next((path for path in files if not path.is_file()), None)
        if missing is not None:
            raise InputError(f"{missing}: no such file; create the shards again with: mtsa data shard")
        return hashlib.sha256("".join(fingerprint(path)["sha256"] for path in files).encode()).hexdigest()


def is_shards(name: str) -> bool:
    """Return whether this is a folder of shards."""
    return bool(name) and (Path(name) / INDEX).is_file()


def open_shards(folder: Path, task: str) -> Shards:
    """Open a folder of shards.

    Raises:
        InputError: an invalid index, or shards for another task.
    """
    path = folder / INDEX
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} is not a valid index; create the shards again with: mtsa data shard") from None
    counts = value.get("counts") if isinstance(value, dict) else None
    if (
        not isinstance(counts, list)
        or not 0 < len(counts) <= _MAX_SHARDS
        or not all(isinstance(count, int) and not isinstance(count, bool) and count > 0 for count in counts)
    ):
        raise InputError(f'{path}: "counts" must be a list of positive numbers; create the shards again with: mtsa data shard')
    if value.get("task") != task:
        raise InputError(
            f"{path}: these shards were created for task {value.get('task')}, not {task}; use --task, or create new shards"
        )
    return Shards(folder, task, tuple(counts))


def write_shards(
    examples: Iterable[Any],
    folder: Path,
    *,
    task: str,
    shards: int,
    seed: int,
) -> Shards:
    """Distribute examples at random over about `shards` shards; the folder is written atomically.

    Raises:
        InputError: there are no examples, one is too long, or the folder exists.
    """
    _check_absent(folder)
    partial = folder.with_name(f".{folder.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    with locked(partial) as acquired:
        if not acquired:
            raise InputError(
                f"{folder}: in use by another process; wait for it to finish, or choose another folder with --out"
            )
        try:
            _check_absent(folder)  # again: another process may have finished since
            for left in partial.iterdir():  # of a process that was killed
                left.unlink()
            counts = _distribute(examples, partial, task, max(1, min(shards, _MAX_SHARDS)), random.Random(seed))
            if not counts:
                raise InputError("the data contains no examples")
            write_json(partial / INDEX, {"task": task, "seed": seed, "counts": counts})
            for file in (*partial.iterdir(), partial):
                fsync(file)
            partial.rename(folder)
            fsync(folder.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return Shards(folder, task, tuple(counts))


def _check_absent(folder: Path) -> None:
    if folder.exists():
        raise InputError(f"{folder} already exists; choose another folder with --out, or delete it")


def _distribute(examples: Iterable[Any], folder: Path, task: str, shards: int, chance: random.Random) -> list[int]:
    waiting: dict[int, list[str]] = {}
    counts, held = [0] * shards, 0
    for number, example in enumerate(examples, 1):
        line = json.dumps(get_task(task).to_json(example), ensure_ascii=False)
        if len(line) > LONGEST:
            raise InputError(
                f"line {example.line}: the example has {len(line):,} characters; at most {LONGEST:,} are allowed; split it"
            )
        place = chance.randrange(shards)
        waiting.setdefault(place, []).append(line)
        counts[place] += 1
        held += len(line)
        if held > _BUFFER_SIZE:
            _write(waiting, folder)
            waiting, held = {}, 0
        if not number % 1000:
            advance(1000)
    _write(waiting, folder)
    kept = [place for place, count in enumerate(counts) if count]  # a shard may be empty by chance
    for new, old in enumerate(kept):
        (folder / _name(old)).rename(folder / _name(new))
    return [counts[place] for place in kept]


def _write(waiting: dict[int, list[str]], folder: Path) -> None:
    for place, lines in waiting.items():
        with (folder / _name(place)).open("a", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)


def _name(number: int) -> str:
    return f"shard-{number:05d}.jsonl"

"""Training examples that do not fit into memory: dealt out at random into shards, files of JSON lines that do.

A folder of shards holds `shards.json` (for which task, how many examples in each) and `shard-00000.jsonl` and so on. Each
example has its shard by chance, so a shard is a random sample of all: to shuffle the shards, and each by itself, is to shuffle
all.
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
SIZE = 16  # megabytes of text in a shard: some 100 when it is numbered
_MAX_SHARDS = 100_000  # shards
_BUFFER_SIZE = 32_000_000  # characters that wait in memory to be written


@dataclass(frozen=True)
class Shards:
    """The examples of a folder of shards; to go through them reads the files, one at a time."""

    folder: Path
    task: str
    counts: tuple[int, ...]  # examples of each

    def __len__(self) -> int:
        return sum(self.counts)

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self.counts)):
            yield from self.read(number)

    def read(self, number: int) -> list[Any]:
        """The examples of one shard.

        Raises:
            InputError: a file that is not there, that is damaged, or that holds more or fewer examples.
        """
        path = self.folder / _name(number)
        found = get_task(self.task).read_shard(path)
        if len(found) != self.counts[number]:
            raise InputError(
                f"{path} holds {len(found):,} examples, but {INDEX} says {self.counts[number]:,}; make the shards anew"
            )
        return found

    def sha256(self) -> str:
        """Of all files together.

        Raises:
            InputError: a file that is not there.
        """
        files = [self.folder / INDEX, *(self.folder / _name(number) for number in range(len(self.counts)))]
        gone = next((path for path in files if not path.is_file()), None)
        if gone is not None:
            raise InputError(f"{gone}: there is no such file; make the shards anew with: mtsa data shard")
        return hashlib.sha256("".join(fingerprint(path)["sha256"] for path in files).encode()).hexdigest()


def is_shards(name: str) -> bool:
    """Whether this is a folder of shards."""
    return bool(name) and (Path(name) / INDEX).is_file()


def open_shards(folder: Path, task: str) -> Shards:
    """A folder of shards.

    Raises:
        InputError: an index that is none, or shards for another task.
    """
    path = folder / INDEX
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} cannot be read; make the shards anew with: mtsa data shard") from None
    counts = value.get("counts") if isinstance(value, dict) else None
    if (
        not isinstance(counts, list)
        or not 0 < len(counts) <= _MAX_SHARDS
        or not all(isinstance(count, int) and not isinstance(count, bool) and count > 0 for count in counts)
    ):
        raise InputError(f'{path}: "counts" must be a list of numbers above 0; make the shards anew with: mtsa data shard')
    if value.get("task") != task:
        raise InputError(f"{path}: these shards are for task {value.get('task')}, not {task}; give --task, or make others")
    return Shards(folder, task, tuple(counts))


def write_shards(
    examples: Iterable[Any],
    folder: Path,
    *,
    task: str,
    shards: int,
    seed: int,
) -> Shards:
    """Deal examples out into about so many shards; the folder appears whole or not at all.

    Raises:
        InputError: no examples, one that is too long, or a folder that is there already.
    """
    _check_absent(folder)
    partial = folder.with_name(f".{folder.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    with locked(partial) as mine:
        if not mine:
            raise InputError(f"{folder}: another process is dealing into it; wait for it, or name another folder with --out")
        try:
            _check_absent(folder)  # again: the other one may have ended since
            for left in partial.iterdir():  # by a process that was killed while it dealt
                left.unlink()
            counts = _distribute(examples, partial, task, max(1, min(shards, _MAX_SHARDS)), random.Random(seed))
            if not counts:
                raise InputError("there are no examples to deal out")
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
        raise InputError(f"{folder} is there already; name another folder with --out, or delete it")


def _distribute(examples: Iterable[Any], folder: Path, task: str, shards: int, chance: random.Random) -> list[int]:
    waiting: dict[int, list[str]] = {}
    counts, held = [0] * shards, 0
    for number, example in enumerate(examples, 1):
        line = json.dumps(get_task(task).to_json(example), ensure_ascii=False)
        if len(line) > LONGEST:
            raise InputError(
                f"line {example.line}: an example of {len(line):,} characters; split it, at most {LONGEST:,} are read"
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
    kept = [place for place, count in enumerate(counts) if count]  # chance may leave a shard empty
    for new, old in enumerate(kept):
        (folder / _name(old)).rename(folder / _name(new))
    return [counts[place] for place in kept]


def _write(waiting: dict[int, list[str]], folder: Path) -> None:
    for place, lines in waiting.items():
        with (folder / _name(place)).open("a", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)


def _name(number: int) -> str:
    return f"shard-{number:05d}.jsonl"

"""Word vectors in the text format of GloVe: plain, .gz or .zip."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from mtsa.errors import InputError, line_error
from mtsa.progress import progress

_WIDEST = 4096
_LONGEST_LINE = 64 * _WIDEST


@dataclass(frozen=True)
class Vectors:
    """Vectors of the requested words, and of further words that may occur in new text."""

    width: int
    wanted: dict[str, Tensor]  # word -> [width]
    others: list[str]
    other_rows: Tensor  # [len(others), width]


def read_vectors(
    path: Path,
    wanted: Collection[str],
    *,
    member: str = "",
    others: int = 0,
    acceptable: Callable[[str], bool] = lambda word: True,
) -> Vectors:
    """Read the vectors of the requested words, and of the first `others` further words.

    Args:
        path: GloVe text, plain, .gz or .zip.
        wanted: the words of the training text.
        member: name of the file in a .zip that contains several.
        others: number of further words to keep, in the order of the file (GloVe files are sorted by frequency).
        acceptable: which further words to keep.

    Raises:
        InputError: not a valid vector file; the message contains the line.
    """
    wanted = set(wanted)
    found: dict[str, Tensor] = {}
    names: list[str] = []
    rows: list[np.ndarray] = []
    width = 0
    with _opened(path, member) as file, progress("reading vectors", unit="lines") as bar:
        for number, line in _lines(file, path):
            if number == 1 and _is_header(line):
                continue
            if width == 0:
                width = len(line.split()) - 1
                if not 1 <= width <= _WIDEST:
                    raise line_error(path, number, "not a word vector; expected a word followed by its values")
            word, values = _split(path, number, line, width)
            if word in wanted:
                if word not in found:
                    found[word] = torch.from_numpy(_parsed(path, number, values, width))
            elif len(names) < others and acceptable(word):
                names.append(word)
                rows.append(_parsed(path, number, values, width))
            if number % 5000 == 0:
                bar.update(number)
    if width == 0:
        raise InputError(f"{path} contains no word vectors; it seems to be empty")
    table = torch.from_numpy(np.stack(rows)) if rows else torch.zeros(0, width)
    return Vectors(width, found, names, table)


def _is_header(line: bytes) -> bool:
    """Whether this is the header of word2vec files: number of vectors, and their width."""
    parts = line.split()
    return len(parts) == 2 and all(part.isdigit() for part in parts)


def _split(path: Path, number: int, line: bytes, width: int) -> tuple[str, bytes]:
    parts = line.rstrip().rsplit(b" ", width)  # a word may contain spaces
    if len(parts) != width + 1:
        count = len(line.split()) - 1
        raise line_error(path, number, f"{count} values, but the previous lines have {width}; is the file truncated?")
    try:
        return parts[0].decode("utf-8"), line[len(parts[0]) :]
    except UnicodeDecodeError:
        return parts[0].decode("utf-8", errors="replace"), line[len(parts[0]) :]  # such a word never matches


def _parsed(path: Path, number: int, values: bytes, width: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # overflow becomes infinity, which is an error below
            row = np.array(values.split(), dtype=np.float32)
    except ValueError:
        raise line_error(path, number, "a value is not a number; is the file corrupt?") from None
    if len(row) != width:
        raise line_error(path, number, f"{len(row)} values instead of {width}; is the file corrupt?")
    if not np.isfinite(row).all():
        raise line_error(path, number, "a value is not finite; is the file corrupt?")
    return row


def _lines(file: io.BufferedIOBase, path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise line_error(path, number, "the line is too long for a word vector; is this a file of word vectors?")
            if line.strip():
                yield number, line
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise line_error(path, number + 1, f"the file is damaged ({error}); download it again") from None


@contextmanager
def _opened(path: Path, member: str) -> Iterator[io.BufferedIOBase]:
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive, _inside(path, archive, member) as inner:
                yield io.BufferedReader(inner)  # type: ignore[type-var]
        elif path.suffix.lower() == ".gz":
            with gzip.open(path, "rb") as packed:
                yield packed
        else:
            with path.open("rb") as plain:
                yield plain
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; expected a file of word vectors") from None
    except PermissionError:
        raise InputError(f"{path}: no permission to read this file") from None
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError):
        raise InputError(f"{path} is not a valid zip file; download it again") from None


def _inside(path: Path, archive: zipfile.ZipFile, member: str) -> IO[bytes]:
    name = _member(path, archive, member)
    try:
        return archive.open(name)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile):
        raise InputError(f"{path} is a damaged zip file; download it again") from None
    except (NotImplementedError, RuntimeError):  # unknown compression, or a password
        raise InputError(
            f"{path}: {name} is encrypted or uses an unsupported compression; extract it and use the text file"
        ) from None


def _member(path: Path, archive: zipfile.ZipFile, member: str) -> str:
    names = [info.filename for info in archive.infolist() if info.filename and not info.filename.endswith("/")]
    shown = ", ".join(" ".join(name.split()) for name in names[:5]) + (", ..." if len(names) > 5 else "")
    if member:
        if member not in names:
            raise InputError(f'{path} contains no file "{member}"; it contains {shown}')
        return member
    if not names:
        raise InputError(f"{path} is an empty archive; download it again")
    if len(names) != 1:
        raise InputError(f"{path} contains {len(names)} files ({shown}); choose one with --set vectors.member={names[0]}")
    return names[0]

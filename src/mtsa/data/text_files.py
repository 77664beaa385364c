"""Lines of a text file: decoded strictly, numbered, and limited in length."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mtsa.errors import InputError, line_error

LONGEST = 1_048_576
"""Maximum number of characters of a line or field."""


def lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line, split at LF or CRLF. .gz files are decompressed.

    Raises:
        InputError: no such file, not in that encoding, a NUL character, or a line of more than 1,048,576 characters.
    """
    with _open(path) as file:
        number = 0
        while raw := _line(file, path):
            number += 1
            if len(raw) > 4 * LONGEST:
                raise _too_long(path, number)
            text = decode(raw, encoding, path, number).rstrip("\n").removesuffix("\r")
            if number == 1:
                text = text.removeprefix("\ufeff")
            if len(text) > LONGEST:
                raise _too_long(path, number)
            if "\0" in text:  # in encodings such as UTF-16
                raise _no_text(path, number)
            yield number, text


def _line(file: BinaryIO, path: Path) -> bytes:
    try:
        return file.readline(4 * LONGEST + 2)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(
            f"{path} is not a complete gzip file; download it again, or decompress it and use the result"
        ) from None


def _too_long(path: Path, number: int) -> InputError:
    return line_error(path, number, f"more than {LONGEST:,} characters; split the text, or check for missing line breaks")


def _no_text(path: Path, number: int) -> InputError:
    return line_error(
        path, number, "the line contains a NUL character; the file may be UTF-16 or binary, save it as UTF-8 text"
    )


def decode(raw: bytes, encoding: str, path: Path, number: int) -> str:
    """Decode a line.

    Raises:
        InputError: a byte is invalid in the encoding, or the encoding is unknown.
    """
    if number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{path} is UTF-16 text; save it as UTF-8")
    if b"\0" in raw:
        raise _no_text(path, number)
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        other = "cp1252" if encoding.lower().replace("-", "") == "utf8" else "utf-8"
        raise line_error(
            path,
            number,
            f"byte 0x{byte:02x} is not valid {encoding}; specify the encoding of the file, such as --encoding {other}",
        ) from None
    except LookupError:
        raise InputError(f'unknown encoding "{encoding}"; common ones are utf-8, cp1252 and latin-1') from None


def _open(path: Path) -> BinaryIO:
    try:
        return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; expected a file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None

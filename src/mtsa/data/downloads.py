"""Downloads that go on where they stopped, appear whole or not at all, and are the same every time.

No checksum is invented: the first download of a file writes its size and SHA-256 into a lock file beside it, and every later
one must match.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.files import fingerprint, replacing, write_json

from .catalogue import Download

LOCK = "downloads.lock.json"
_CHUNK = 1 << 20
_LARGEST_MEMBER = 4 << 30

ProgressCallback = Callable[[int, int | None], None]  # bytes here, bytes in all


def fetch(
    download: Download, folder: Path, tick: ProgressCallback = lambda here, total: None, *, tries: int = 3, pause: float = 1.0
) -> Path:
    """Fetch one file into the folder, unless it is there and matches the lock file; take out its members.

    Args:
        download: what to fetch.
        folder: where to.
        tick: hears the progress.
        tries: how often to take up a broken connection before giving up.
        pause: seconds before the first new try; each further one waits twice as long.

    Raises:
        InputError: the server does not answer or not with the file, or the file differs from the first download.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / download.name
    locked = _read_lock(folder).get(download.name)
    if not (target.exists() and locked and fingerprint(target) == _size_and_hash(locked)):
        part = folder / f".{download.name}.part"
        _fetch_with_retries(download.url, part, tick, tries, pause)
        found = fingerprint(part)
        if locked and found != _size_and_hash(locked):
            part.unlink()
            raise InputError(
                f"{download.url}: {found['size']:,} bytes with SHA-256 {found['sha256'][:12]}..., but the first download had "
                f"{locked['size']:,} with {locked['sha256'][:12]}... ({folder / LOCK}); if the change is known to be right, "
                f'delete "{download.name}" from that file'
            )
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
        part.with_name(part.name + ".tag").unlink(missing_ok=True)
        _write_lock(folder, download, found)
    _extract_members(target, download, folder)
    return target


def _fetch_with_retries(url: str, part: Path, tick: ProgressCallback, tries: int, pause: float) -> None:
    for attempt in range(tries):
        try:
            _resume_download(url, part, tick)
            return
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == tries - 1:
                raise InputError(f"{url}: the server answers {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            if attempt == tries - 1:
                why = getattr(error, "reason", error)
                kept = (
                    f"; {part.stat().st_size:,} bytes are kept, the same command goes on from there" if part.exists() else ""
                )
                raise InputError(f"{url}: {why}{kept}") from None
        time.sleep(pause * 2**attempt)


def _resume_download(url: str, part: Path, tick: ProgressCallback) -> None:
    """Fetch what is missing of a partial file; a server that cannot continue gives the whole file again."""
    here = part.stat().st_size if part.exists() else 0
    tag = part.with_name(part.name + ".tag")  # which version of the file the part is of
    headers = {"Range": f"bytes={here}-"} if here else {}
    if here and tag.exists():
        headers["If-Range"] = tag.read_text(encoding="utf-8")
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416 and here:  # nothing is missing, or the file shrank: start over, the checksum decides
            part.unlink()
            _resume_download(url, part, tick)
            return
        raise
    with answer:
        continued = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {here}-")
        length = answer.headers.get("Content-Length")
        total = None if length is None else int(length) + (here if continued else 0)
        here = here if continued else 0
        if not continued:
            _save_version(tag, answer.headers.get("ETag") or answer.headers.get("Last-Modified"))
        with part.open("ab" if continued else "wb") as file:
            while piece := answer.read(_CHUNK):
                file.write(piece)
                here += len(piece)
                tick(here, total)
    if total is not None and here != total:
        raise OSError(f"the connection broke after {here:,} of {total:,} bytes")


def _save_version(tag: Path, version: str | None) -> None:
    tag.unlink(missing_ok=True)
    if version and not version.startswith("W/"):
        tag.write_text(version, encoding="utf-8")


def _size_and_hash(locked: dict[str, Any]) -> dict[str, Any]:
    return {"size": locked["size"], "sha256": locked["sha256"]}


def _read_lock(folder: Path) -> dict[str, Any]:
    path = folder / LOCK
    if not path.exists():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        for entry in entries.values():
            _size_and_hash(entry)
    except (ValueError, AttributeError, TypeError, KeyError):
        raise InputError(
            f"{path} is no lock file any more; restore it, or delete it to accept the next downloads as first"
        ) from None
    found: dict[str, Any] = entries
    return found


def _write_lock(folder: Path, download: Download, found: dict[str, Any]) -> None:
    write_json(folder / LOCK, _read_lock(folder) | {download.name: {"url": download.url, **found}})


def _extract_members(archive: Path, download: Download, folder: Path) -> None:
    if not download.members:
        return
    try:
        with zipfile.ZipFile(archive) as opened:
            for member, name in download.members:
                info = opened.getinfo(member)
                if info.file_size > _LARGEST_MEMBER:
                    raise InputError(f"{archive}: {member} would take {info.file_size:,} bytes; that is no data set")
                target = folder / name
                if target.exists() and target.stat().st_size == info.file_size:
                    continue
                with opened.open(info) as inside, replacing(target) as partial, partial.open("wb") as out:
                    while piece := inside.read(_CHUNK):
                        out.write(piece)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        KeyError,
        NotImplementedError,
        RuntimeError,
        UnicodeDecodeError,
    ) as error:
        raise InputError(f"{archive} is not the archive it should be ({error}); delete it and fetch it again") from None

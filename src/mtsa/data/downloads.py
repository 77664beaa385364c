"""Downloads that resume after an interruption, are written atomically, and are verified by checksum.

The first download of a file writes its size and SHA-256 to a lock file in the same folder; every later download must match
them.
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

ProgressCallback = Callable[[int, int | None], None]  # bytes received, bytes in total


def fetch(
    download: Download,
    folder: Path,
    progress: ProgressCallback = lambda received, total: None,
    *,
    max_attempts: int = 3,
    backoff_seconds: float = 1.0,
) -> Path:
    """Download one file, unless it exists and matches the lock file, and extract its members.

    Args:
        download: the file.
        folder: target folder.
        progress: callback for the progress.
        max_attempts: number of attempts.
        backoff_seconds: seconds before the second attempt; doubled for each further one.

    Raises:
        InputError: the download fails, or the file differs from the first download.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / download.name
    locked = _read_lock(folder).get(download.name)
    if not (target.exists() and locked and fingerprint(target) == _size_and_hash(locked)):
        part = folder / f".{download.name}.part"
        _fetch_with_retries(download.url, part, progress, max_attempts, backoff_seconds)
        found = fingerprint(part)
        if locked and found != _size_and_hash(locked):
            part.unlink()
            raise InputError(
                f"{download.url}: {found['size']:,} bytes with SHA-256 {found['sha256'][:12]}..., but the first download had "
                f"{locked['size']:,} with {locked['sha256'][:12]}... ({folder / LOCK}); if the change is intended, "
                f'delete "{download.name}" from that file'
            )
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(target)
        part.with_name(part.name + ".tag").unlink(missing_ok=True)
        _write_lock(folder, download, found)
    _extract_members(target, download, folder)
    return target


def _fetch_with_retries(url: str, part: Path, progress: ProgressCallback, max_attempts: int, backoff_seconds: float) -> None:
    for attempt in range(max_attempts):
        try:
            _resume_download(url, part, progress)
            return
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == max_attempts - 1:
                raise InputError(
                    f"{url}: the server returned {error.code} {error.reason}; try again later, or download it manually"
                ) from None
        except (OSError, http.client.HTTPException) as error:
            if attempt == max_attempts - 1:
                why = getattr(error, "reason", error)
                kept = f"; {part.stat().st_size:,} bytes were downloaded; rerun the command to resume" if part.exists() else ""
                raise InputError(f"{url}: {why}{kept}") from None
        time.sleep(backoff_seconds * 2**attempt)


def _resume_download(url: str, part: Path, progress: ProgressCallback) -> None:
    """Download the missing part of a file; servers without range support send the whole file again."""
    received = part.stat().st_size if part.exists() else 0
    tag = part.with_name(part.name + ".tag")  # version (ETag) of the partial file
    headers = {"Range": f"bytes={received}-"} if received else {}
    if received and tag.exists():
        headers["If-Range"] = tag.read_text(encoding="utf-8")
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416 and received:  # nothing is missing, or the file shrank: start over
            part.unlink()
            _resume_download(url, part, progress)
            return
        raise
    with response:
        continued = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {received}-")
        length = response.headers.get("Content-Length")
        total = None if length is None else int(length) + (received if continued else 0)
        received = received if continued else 0
        if not continued:
            _save_version(tag, response.headers.get("ETag") or response.headers.get("Last-Modified"))
        with part.open("ab" if continued else "wb") as file:
            while piece := response.read(_CHUNK):
                file.write(piece)
                received += len(piece)
                progress(received, total)
    if total is not None and received != total:
        raise OSError(f"the connection was lost after {received:,} of {total:,} bytes")


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
        raise InputError(f"{path} is not a valid lock file; restore it, or delete it to accept the next downloads") from None
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
                    raise InputError(
                        f"{archive}: {member} has {info.file_size:,} bytes, more than "
                        f"{_LARGEST_MEMBER:,}; delete it and download it again"
                    )
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
        raise InputError(f"{archive} is not the expected archive ({error}); delete and download it again") from None

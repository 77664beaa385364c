"""`mtsa serve` under load: requests that come at the same time, beside the same requests one after the other.

The server is a process of its own, reached over loopback, each request on a connection of its own.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.inference.auto import open_predictor
from mtsa.machine import circumstances
from mtsa.progress import advance
from mtsa.tasks.text_predictor import TextPredictor

_CLOSE = 1e-4  # probabilities of a text answered alone and among others


@dataclass(frozen=True)
class _Reply:
    status: int  # 0: none came
    body: Any
    seconds: float


def run(folder: Path, data: str, requests: int) -> dict[str, Any]:
    """Ask a served classifier or pair model the texts of a file, one after the other and all at once.

    Args:
        folder: a finished run.
        data: a file of texts; they are repeated when there are fewer than `requests`.
        requests: how many there are, each with one text.

    Raises:
        ValueError: a run of another task, or bad data.
    """
    predictor = open_predictor(folder)
    if not isinstance(predictor, TextPredictor):
        raise InputError(f"{folder} holds no classifier and no model of pairs")
    examples = list(predictor.examples(data))
    if not examples:
        raise InputError(f"{data} holds no texts")
    chosen = [examples[place % len(examples)] for place in range(requests)]
    asked = [{"text": one.text} if one.pair is None else {"text": one.text, "pair": one.pair} for one in chosen]
    right = [answer.as_json() for _, answer in predictor.predict_each(chosen, {})]
    with serving(folder) as port:
        asyncio.run(_ask(port, asked[:20], together=True))  # nobody pays for the first calls
        alone, spent = _timed(port, asked, False)
        together, seconds = _timed(port, asked, True)
    rates = {"together": requests / seconds, "alone": requests / spent}
    return {
        **circumstances(),
        "kind": "serving",
        "task": predictor.run.recipe.task,
        "encoder": dict(predictor.run.recipe.encoder),
        "data": Path(data).name,
        "requests": requests,
        "requests_per_second": rates,
        "ratio": rates["together"] / rates["alone"],
        "lost": {"together": _lost(together), "alone": _lost(alone)},
        "wrong": {"together": _wrong(together, right), "alone": _wrong(alone, right)},
        "seconds": {"together": _quantiles(together), "alone": _quantiles(alone)},
    }


@contextmanager
def serving(*folders: Path) -> Iterator[int]:
    """A server for some runs on a free port, as long as the block lasts."""
    command = [sys.executable, "-m", "mtsa", "serve", *map(str, folders), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stderr is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
            if found is None:
                raise InputError(f"the server did not start: {server.stderr.read().strip()}")
            yield int(found.group(1))
        finally:
            server.terminate()
            server.wait(60)


def lines(record: dict[str, Any]) -> list[str]:
    """What the record says."""
    rates, seconds = record["requests_per_second"], record["seconds"]
    told = [
        f"{record['requests']:,} requests {name}: {rates[key]:,.0f} a second; half in {1000 * seconds[key]['p50']:.0f} ms, "
        f"99 % in {1000 * seconds[key]['p99']:.0f} ms; {record['lost'][key]} lost, {record['wrong'][key]} wrong"
        for key, name in (("alone", "one after the other"), ("together", "at the same time"))
    ]
    return [*told, f"at the same time they are answered {record['ratio']:.1f} times as fast in all"]


def _timed(port: int, asked: Sequence[dict[str, str]], together: bool) -> tuple[list[_Reply], float]:
    begun = time.perf_counter()
    replies = asyncio.run(_ask(port, asked, together=together))
    return replies, time.perf_counter() - begun


async def _ask(port: int, asked: Sequence[dict[str, str]], *, together: bool) -> list[_Reply]:
    if together:
        return list(await asyncio.gather(*(_request(port, question) for question in asked)))
    return [await _request(port, question) for question in asked]


async def _request(port: int, question: dict[str, str]) -> _Reply:
    """One request on a connection of its own; a connection that breaks gives status 0."""
    begun = time.perf_counter()
    content = json.dumps({"questions": [question]}).encode()
    head = (
        f"POST /api/predict HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + content)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        start, _, body = answer.partition(b"\r\n\r\n")
        reply = _Reply(int(start.split(b" ", 2)[1]), json.loads(body), time.perf_counter() - begun)
    except (OSError, ValueError, IndexError):
        reply = _Reply(0, None, time.perf_counter() - begun)
    advance(1)
    return reply


def _lost(replies: Sequence[_Reply]) -> int:
    return sum(reply.status != 200 for reply in replies)


def _wrong(replies: Sequence[_Reply], right: Sequence[dict[str, Any]]) -> int:
    answered = ((reply, wanted) for reply, wanted in zip(replies, right, strict=True) if reply.status == 200)
    return sum(not _same(reply.body["answers"][0], wanted) for reply, wanted in answered)


def _same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    if "value" in wanted:
        return math.isclose(found["value"], wanted["value"], rel_tol=_CLOSE, abs_tol=_CLOSE)
    near = all(abs(found["probabilities"][label] - value) <= _CLOSE for label, value in wanted["probabilities"].items())
    return found["label"] == wanted["label"] and near


def _quantiles(replies: Sequence[_Reply]) -> dict[str, float]:
    ordered = sorted(reply.seconds for reply in replies)
    return {name: ordered[min(len(ordered) - 1, int(part * len(ordered)))] for name, part in (("p50", 0.5), ("p99", 0.99))}

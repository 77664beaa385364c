"""`mtsa serve` under load: concurrent requests, compared with the same requests in sequence.

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
from mtsa.machine import environment_info
from mtsa.progress import advance
from mtsa.tasks.text_predictor import TextPredictor

_CLOSE = 1e-4  # tolerance for probabilities of a text predicted alone and in a batch


@dataclass(frozen=True)
class _Reply:
    status: int  # 0: no response
    body: Any
    seconds: float


def run(folder: Path, data: str, requests: int) -> dict[str, Any]:
    """Send the texts of a file to a served classifier or pair model, in sequence and concurrently.

    Args:
        folder: a finished run.
        data: a file of texts; they are repeated when there are fewer than `requests`.
        requests: how many there are, each with one text.

    Raises:
        ValueError: a run of another task, or bad data.
    """
    predictor = open_predictor(folder)
    if not isinstance(predictor, TextPredictor):
        raise InputError(f"{folder} is not a classifier or a pair model; choose the run directory of one")
    examples = list(predictor.examples(data))
    if not examples:
        raise InputError(f"{data} contains no texts; choose a file with at least one")
    chosen = [examples[index % len(examples)] for index in range(requests)]
    inputs = [{"text": one.text} if one.pair is None else {"text": one.text, "pair": one.pair} for one in chosen]
    expected = [prediction.as_json() for _, prediction in predictor.predict_each(chosen, {})]
    with serving(folder) as port:
        asyncio.run(_send_all(port, inputs[:20], concurrent=True))  # warm-up
        sequential, sequential_seconds = _timed(port, inputs, False)
        concurrent, concurrent_seconds = _timed(port, inputs, True)
    rates = {"together": requests / concurrent_seconds, "alone": requests / sequential_seconds}
    return {
        **environment_info(),
        "kind": "serving",
        "task": predictor.run.recipe.task,
        "encoder": dict(predictor.run.recipe.encoder),
        "data": Path(data).name,
        "requests": requests,
        "requests_per_second": rates,
        "ratio": rates["together"] / rates["alone"],
        "lost": {"together": _lost(concurrent), "alone": _lost(sequential)},
        "wrong": {"together": _wrong(concurrent, expected), "alone": _wrong(sequential, expected)},
        "seconds": {"together": _quantiles(concurrent), "alone": _quantiles(sequential)},
    }


@contextmanager
def serving(*folders: Path) -> Iterator[int]:
    """Start a server for run directories on a free port; it stops at the end of the block."""
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
    """Return the result as lines of text."""
    rates, seconds = record["requests_per_second"], record["seconds"]
    lines = [
        f"{record['requests']:,} {name} requests: {rates[key]:,.0f} requests/s, "
        f"latency p50 {1000 * seconds[key]['p50']:.0f} ms, p99 {1000 * seconds[key]['p99']:.0f} ms, "
        f"{record['lost'][key]} failed, {record['wrong'][key]} wrong"
        for key, name in (("alone", "sequential"), ("together", "concurrent"))
    ]
    return [*lines, f"speed-up of concurrent requests: {record['ratio']:.1f}x"]


def _timed(port: int, inputs: Sequence[dict[str, str]], concurrent: bool) -> tuple[list[_Reply], float]:
    start = time.perf_counter()
    replies = asyncio.run(_send_all(port, inputs, concurrent=concurrent))
    return replies, time.perf_counter() - start


async def _send_all(port: int, inputs: Sequence[dict[str, str]], *, concurrent: bool) -> list[_Reply]:
    if concurrent:
        return list(await asyncio.gather(*(_request(port, one) for one in inputs)))
    return [await _request(port, one) for one in inputs]


async def _request(port: int, question: dict[str, str]) -> _Reply:
    """Send one request on a separate connection; a broken connection gives status 0."""
    begin = time.perf_counter()
    content = json.dumps({"inputs": [question]}).encode()
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
        reply = _Reply(int(start.split(b" ", 2)[1]), json.loads(body), time.perf_counter() - begin)
    except (OSError, ValueError, IndexError):
        reply = _Reply(0, None, time.perf_counter() - begin)
    advance(1)
    return reply


def _lost(replies: Sequence[_Reply]) -> int:
    return sum(reply.status != 200 for reply in replies)


def _wrong(replies: Sequence[_Reply], expected: Sequence[dict[str, Any]]) -> int:
    pairs = ((reply, value) for reply, value in zip(replies, expected, strict=True) if reply.status == 200)
    return sum(not _same(reply.body["predictions"][0], value) for reply, value in pairs)


def _same(prediction: dict[str, Any], expected: dict[str, Any]) -> bool:
    if "value" in expected:
        return math.isclose(prediction["value"], expected["value"], rel_tol=_CLOSE, abs_tol=_CLOSE)
    probabilities = prediction["probabilities"]
    close = all(abs(probabilities[label] - value) <= _CLOSE for label, value in expected["probabilities"].items())
    return prediction["label"] == expected["label"] and close


def _quantiles(replies: Sequence[_Reply]) -> dict[str, float]:
    ordered = sorted(reply.seconds for reply in replies)
    return {name: ordered[min(len(ordered) - 1, int(part * len(ordered)))] for name, part in (("p50", 0.5), ("p99", 0.99))}

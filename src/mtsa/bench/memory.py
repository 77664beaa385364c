"""Peak memory of one layer, measured in a separate process.

`python -m mtsa.bench.memory NAME BATCH LENGTH WIDTH HEADS` prints the peaks in bytes above the initial memory as JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from .contenders import contender


def peak_extra(name: str, shape: tuple[int, int, int], heads: int, *, timeout: float) -> dict[str, int]:
    """Return the additional peak memory, `inference_bytes` and `step_bytes`; empty if time or memory ran out."""
    batch, length, width = shape
    command = [sys.executable, "-m", "mtsa.bench.memory", name, *map(str, (batch, length, width, heads))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return {}
    peaks: dict[str, int] = json.loads(done.stdout)
    return peaks


def _status(field: str) -> int | None:
    """A field of /proc/self/status in bytes, where there is such a file."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), None)


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return _status("VmRSS") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_bytes(before: int, work: Callable[[], object]) -> int:
    """Return the peak memory over two calls, minus the initial memory."""
    if _status("VmHWM") is not None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    for _ in range(2):
        work()
    peak = _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return max(0, peak - before)


def probe(name: str, batch: int, length: int, width: int, heads: int) -> dict[str, int]:
    """Return the peak memory of an inference pass and of a training step, in this process."""
    entry = contender(name)
    layer = entry.build(width, heads)
    warm = layer(torch.randn(1, 8, width, requires_grad=True))  # libraries loaded, threads started
    warm.sum().backward()
    del warm
    x, grad = torch.randn(batch, length, width), torch.ones(batch, length, width)
    before = resident()
    peaks = {"inference_bytes": peak_bytes(before, torch.no_grad()(lambda: layer(x)))}
    x.requires_grad_()

    def step() -> None:
        layer.zero_grad(set_to_none=True)
        layer(x).backward(grad)

    return peaks | {"step_bytes": peak_bytes(before, step)}


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1], *map(int, sys.argv[2:]))))

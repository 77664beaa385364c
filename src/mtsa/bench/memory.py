"""Peak memory of one layer, in a process of its own so that nothing else has touched the memory before.

`python -m mtsa.bench.memory NAME BATCH LENGTH WIDTH HEADS MODE` prints the peak in bytes above what was there before.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import torch

from .contenders import contender

MODES = ("step", "inference")


def peak_extra(name: str, shape: tuple[int, int, int], heads: int, mode: str, *, timeout: float) -> int | None:
    """Peak extra bytes of a training step or inference pass; None if it did not end in time or in memory."""
    batch, length, width = shape
    command = [sys.executable, "-m", "mtsa.bench.memory", name, *map(str, (batch, length, width, heads)), mode]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return int(done.stdout)


def _status(field: str) -> int | None:
    """A field of /proc/self/status in bytes, where there is such a file."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), None)


def _probe(name: str, batch: int, length: int, width: int, heads: int, mode: str) -> int:
    layer = contender(name).build(width, heads)
    layer(torch.randn(1, 8, width, requires_grad=True)).sum().backward()  # libraries loaded, threads started
    x = torch.randn(batch, length, width, requires_grad=mode == "step")
    grad = torch.ones(batch, length, width)
    before = _status("VmRSS") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if _status("VmHWM") is not None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    for _ in range(2):
        if mode == "step":
            layer.zero_grad(set_to_none=True)
            layer(x).backward(grad)
        else:
            with torch.no_grad():
                layer(x)
    peak = _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return max(0, peak - before)


if __name__ == "__main__":
    name, *numbers, mode = sys.argv[1:]
    batch, length, width, heads = map(int, numbers)
    print(_probe(name, batch, length, width, heads, mode))

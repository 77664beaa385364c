"""`python -m reproduce bench cost`: time and memory of a training step, fitted to measurements.

Notation: B batch, N length, E width, H heads. An operation is a multiply-add; a training step is three forward passes.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from mtsa.bench.contenders import BASELINE, contender
from mtsa.bench.memory import peak_extra
from mtsa.bench.timing import measure
from mtsa.machine import environment_info
from reproduce.parameter_counts import build

from .nli import PAPER_SECONDS, operations

NAMES = ("released", "paper", BASELINE)
TIME = ("start", "feature", "dense", "pair")  # seconds: of a call, a feature of a token, an operation on tokens, one on pairs
MEMORY = ("start", "feature")  # bytes: of a call, a feature of a token

_GPUS = {
    "GTX 1080 Ti": 11.3e12,
    "V100": 15.7e12,
    "A100": 19.5e12,
}  # peak rates from data sheets: float32 operations per second, two per multiply-add
_PAPERS_GPU = "GTX 1080 Ti"
_SNLI = (549_367, 14.1, 8.3)  # labelled training pairs, mean words of premise and hypothesis
_WMT = {"setup1": (250_000, 2048, 1), "setup2": (133_000, 4 * 6144, 4)}  # steps, tokens of a step, GPUs
_SUBWORDS = 33_708
_UTILIZATION = 0.4  # of large matrix products (estimate)


@dataclass(frozen=True)
class Setting:
    """Settings of the benchmark."""

    lengths: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024)
    widths: tuple[int, ...] = (128, 256, 512)
    tokens: tuple[int, ...] = (1024, 4096)  # of a batch
    heads: int = 8
    repeats: int = 3
    memory_lengths: tuple[int, ...] = (64, 256, 1024)
    memory_widths: tuple[int, ...] = (256, 512)
    weights: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)  # that two processes add up
    names: tuple[str, ...] = NAMES
    seed: int = 0


def ticks(setting: Setting) -> int:
    """Return the number of progress steps of `run`."""
    shapes = len(setting.lengths) * len(setting.widths) * len(setting.tokens)
    memory = len(setting.memory_lengths) * len(setting.memory_widths)
    return len(setting.names) * (shapes * (setting.repeats + 1) + memory) + 1


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure and fit. A second fit leaves out the longest length to measure the extrapolation error."""
    rows: list[dict[str, Any]] = []
    for width, tokens, length in itertools.product(setting.widths, setting.tokens, setting.lengths):
        batch = max(1, tokens // length)
        layers = {name: contender(name).build(width, setting.heads) for name in setting.names}
        found = measure(
            layers, (batch, length, width), trained=setting.names, repeats=setting.repeats, seconds=20.0, seed=setting.seed,
            tick=lambda length=length: tick(f"length {length}"),  # type: ignore[misc]
        )  # fmt: skip
        for name, timing in found.items():
            rows.append({"name": name, "batch": batch, "length": length, "width": width, "step_seconds": timing.step})
    memory = []
    for width, length, name in itertools.product(setting.memory_widths, setting.memory_lengths, setting.names):
        batch = max(1, max(setting.tokens) // length)
        peaks = peak_extra(name, (batch, length, width), setting.heads, timeout=300)
        memory.append({"name": name, "batch": batch, "length": length, "width": width, **peaks})
        tick("memory")
    reduced = _reduced(setting.weights)
    tick("two processes")
    record = {"kind": "cost", "setting": json.loads(json.dumps(asdict(setting))), **environment_info()}
    record |= {"rows": rows, "memory": memory, "processes": reduced}
    return record | {"fits": [_fit_all(record, name) for name in setting.names], "reduce": _fit_reduce(reduced)}


def features(name: str, batch: int, length: int, width: int, heads: int) -> list[float]:
    """Return the features of the time of a training step, in the order of `TIME`."""
    counted = contender(name).operations
    assert counted is not None
    tokens, dense = batch * length, counted(0, width, heads)
    return [1.0, tokens * width, 3 * tokens * dense, 3 * tokens * (counted(length, width, heads) - dense)]


def fit(features: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return the non-negative coefficients with the least sum of squared relative errors."""
    a = torch.tensor(features, dtype=torch.float64) / torch.tensor(values, dtype=torch.float64)[:, None]
    scale = a.abs().amax(0).clamp(min=1e-300)
    a = a / scale
    b = torch.ones(len(values), dtype=torch.float64)
    best, coefficients = float("inf"), [0.0] * a.shape[1]
    for count in range(1, a.shape[1] + 1):
        for chosen in itertools.combinations(range(a.shape[1]), count):
            solved = torch.linalg.lstsq(a[:, chosen], b[:, None], driver="gelsd").solution[:, 0]
            error = float((a[:, chosen] @ solved - b).square().sum())
            if bool((solved >= 0).all()) and error < best - 1e-12:
                best, coefficients = error, [0.0] * a.shape[1]
                for index, value in zip(chosen, solved.tolist(), strict=True):
                    coefficients[index] = value / float(scale[index])
    return coefficients


def predicted(coefficients: Sequence[float], features: Sequence[float]) -> float:
    """Return the value of the formula."""
    return sum(one * other for one, other in zip(coefficients, features, strict=True))


def _fit_all(record: dict[str, Any], name: str) -> dict[str, Any]:
    heads = record["setting"]["heads"]
    rows = [row for row in record["rows"] if row["name"] == name]
    inputs = [features(name, row["batch"], row["length"], row["width"], heads) for row in rows]
    times = [row["step_seconds"] for row in rows]
    time = fit(inputs, times)
    maximum = max(row["length"] for row in rows)
    shorter = [index for index, row in enumerate(rows) if row["length"] < maximum]
    fit_without_longest = fit([inputs[index] for index in shorter], [times[index] for index in shorter])
    longest = [index for index in range(len(rows)) if index not in shorter]
    peaks = [row for row in record["memory"] if row["name"] == name and "step_bytes" in row]
    memory_inputs = [[1.0, float(row["batch"] * row["length"] * row["width"])] for row in peaks]
    memory = fit(memory_inputs, [row["step_bytes"] for row in peaks])
    return {
        "name": name,
        "time": dict(zip(TIME, time, strict=True)),
        "time_errors": [predicted(time, one) / value - 1 for one, value in zip(inputs, times, strict=True)],
        "beyond_errors": [predicted(fit_without_longest, inputs[index]) / times[index] - 1 for index in longest],
        "memory": dict(zip(MEMORY, memory, strict=True)),
        "memory_errors": [
            predicted(memory, one) / row["step_bytes"] - 1 for one, row in zip(memory_inputs, peaks, strict=True)
        ],
    }


# Processes

_REDUCE = """
import json, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
found = []
for count in map(int, sys.argv[1:]):
    values, best = torch.ones(count), float("inf")
    for _ in range(6):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(values)
        best = min(best, time.perf_counter() - start)
    found.append({"weights": count, "seconds": best})
if dist.get_rank() == 0:
    print(json.dumps(found))
dist.destroy_process_group()
"""


def _reduced(weights: Sequence[int]) -> list[dict[str, Any]]:
    """Seconds of an all-reduce of each number of weights, with two processes."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    command = [*launch, sys.executable, "-c", _REDUCE, *map(str, weights)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment)
    rows: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return rows


def _fit_reduce(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    coefficients = fit([[1.0, float(row["weights"])] for row in rows], [row["seconds"] for row in rows])
    return {"start": coefficients[0], "weight": coefficients[1]}


# Estimates


def estimates() -> list[dict[str, Any]]:
    """Estimate the hours of the paper's trainings on GPUs, at the utilization of its GPU (MTSA on SNLI) and at 40 %."""
    pairs, premise, hypothesis = _SNLI
    epoch = 6.0 * pairs * operations(build("mtsa", words=2), "mtsa", round((premise + hypothesis) / 2))
    utilization = epoch / PAPER_SECONDS["mtsa"][0] / _GPUS[_PAPERS_GPU]
    trainings = {"SNLI, one epoch": (epoch, 1)}
    for name, (steps, tokens, count) in _WMT.items():
        trainings[f"WMT14, {name}"] = (6.0 * steps * tokens * _translator_operations(), count)
    return [
        {
            "training": name, "gpu": gpu, "count": count, "operations": total,
            "hours": {share: total / (share * rate * count) / 3600 for share in (utilization, _UTILIZATION)},
        }
        for name, (total, count) in trainings.items() for gpu, rate in _GPUS.items()
    ]  # fmt: skip


def _translator_operations(width: int = 512, hidden: int = 2048, layers: int = 6) -> float:
    """Multiply-adds of a forward pass for a token of each side, with MTSA in the encoder, without those on pairs of tokens."""
    feed = 2 * width * hidden
    source2token = width * width / 8  # a map of each of eight heads onto itself
    encoder = 4 * width**2 + source2token + feed
    decoder = 8 * width**2 + feed
    return layers * (encoder + decoder) + width * _SUBWORDS


# Text


def rows(record: dict[str, Any]) -> list[list[str]]:
    """Return header and rows of the fitted coefficients and errors."""
    header = ["model", "constant (ms)", "per feature of a token (ns)", "operations on tokens (GFLOP/s)"]
    header += ["operations on pairs (GFLOP/s)", "mean error", "error at the longest length (extrapolated)"]
    lines = [[*header, "memory: constant (MB)", "memory: per feature of a token (bytes)", "memory: mean error"]]
    for fitted in record["fits"]:
        time, memory = fitted["time"], fitted["memory"]
        rates = [f"{2 / time[key] / 1e9:.0f}" if time[key] else "" for key in ("dense", "pair")]
        errors = [f"{_size(fitted[key]):.0%}" for key in ("time_errors", "beyond_errors", "memory_errors")]
        seconds = [f"{time['start'] * 1e3:.2f}", f"{time['feature'] * 1e9:.2f}"]
        sizes = [f"{memory['start'] / 1e6:.0f}", f"{memory['feature']:.0f}"]
        lines.append([fitted["name"], *seconds, *rates, *errors[:2], *sizes, errors[2]])
    return lines


def reduce_line(record: dict[str, Any]) -> str:
    """Return a line about the all-reduce of gradients."""
    start, weight = 1e3 * record["reduce"]["start"], 1e9 * record["reduce"]["weight"]
    return f"All-reduce of gradients, two processes: {start:.1f} ms + {weight:.1f} ns per parameter."


def paper_lines() -> list[str]:
    """Return a line for each estimated training."""
    return [
        f"{row['training']} ({row['operations']:.1e} operations), {row['count']} x {row['gpu']}: "
        + ", ".join(f"{_duration(hours)} at {share:.0%} utilization" for share, hours in row["hours"].items())
        for row in estimates()
    ]


def _duration(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.1f} min"


def _size(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / len(errors) if errors else 0.0

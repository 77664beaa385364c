"""`python -m reproduce bench cost`: time and memory of a training step, fitted to measurements.

Letters: B batch, N length, E width, H heads. An operation is a multiply-add; a training step is three forward passes.
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
from mtsa.machine import circumstances
from reproduce.parameter_counts import build

from .nli import PAPER_SECONDS, operations

NAMES = ("released", "paper", BASELINE)
TIME = ("start", "feature", "dense", "pair")  # seconds: of a call, a feature of a token, an operation on tokens, one on pairs
MEMORY = ("start", "feature")  # bytes: of a call, a feature of a token

_GPUS = {
    "GTX 1080 Ti": 11.3e12,
    "V100": 15.7e12,
    "A100": 19.5e12,
}  # float32 operations (two a multiply-add) a second, makers' word
_PAPERS_GPU = "GTX 1080 Ti"
_SNLI = (549_367, 14.1, 8.3)  # labelled training pairs, mean words of premise and hypothesis
_WMT = {"setup1": (250_000, 2048, 1), "setup2": (133_000, 4 * 6144, 4)}  # steps, tokens of a step, GPUs
_SUBWORDS = 33_708
_BUSY = 0.4  # part of a GPU's rate that large products reach, about


@dataclass(frozen=True)
class Setting:
    """What is measured."""

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
    """How often `run` calls `tick`."""
    shapes = len(setting.lengths) * len(setting.widths) * len(setting.tokens)
    memory = len(setting.memory_lengths) * len(setting.memory_widths)
    return len(setting.names) * (shapes * (setting.repeats + 1) + memory) + 1


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure, fit, and say what follows; the longest length is kept from a second fit, to see how far the formula reaches."""
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
    record = {"kind": "cost", "setting": json.loads(json.dumps(asdict(setting))), **circumstances()}
    record |= {"rows": rows, "memory": memory, "processes": reduced}
    return record | {"fits": [_fit_all(record, name) for name in setting.names], "reduce": _fit_reduce(reduced)}


def features(name: str, batch: int, length: int, width: int, heads: int) -> list[float]:
    """What the time of a training step is made of, in the order of `TIME`."""
    counted = contender(name).operations
    assert counted is not None
    tokens, dense = batch * length, counted(0, width, heads)
    return [1.0, tokens * width, 3 * tokens * dense, 3 * tokens * (counted(length, width, heads) - dense)]


def fit(features: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Coefficients, none of them negative, with the least sum of squared relative errors."""
    a = torch.tensor(features, dtype=torch.float64) / torch.tensor(values, dtype=torch.float64)[:, None]
    scale = a.abs().amax(0).clamp(min=1e-300)
    a = a / scale
    b = torch.ones(len(values), dtype=torch.float64)
    best, found = float("inf"), [0.0] * a.shape[1]
    for count in range(1, a.shape[1] + 1):
        for chosen in itertools.combinations(range(a.shape[1]), count):
            solved = torch.linalg.lstsq(a[:, chosen], b[:, None], driver="gelsd").solution[:, 0]
            error = float((a[:, chosen] @ solved - b).square().sum())
            if bool((solved >= 0).all()) and error < best - 1e-12:
                best, found = error, [0.0] * a.shape[1]
                for place, value in zip(chosen, solved.tolist(), strict=True):
                    found[place] = value / float(scale[place])
    return found


def predicted(coefficients: Sequence[float], features: Sequence[float]) -> float:
    """What the formula gives."""
    return sum(one * other for one, other in zip(coefficients, features, strict=True))


def _fit_all(record: dict[str, Any], name: str) -> dict[str, Any]:
    heads = record["setting"]["heads"]
    rows = [row for row in record["rows"] if row["name"] == name]
    made = [features(name, row["batch"], row["length"], row["width"], heads) for row in rows]
    times = [row["step_seconds"] for row in rows]
    time = fit(made, times)
    longest = max(row["length"] for row in rows)
    near = [place for place, row in enumerate(rows) if row["length"] < longest]
    short = fit([made[place] for place in near], [times[place] for place in near])
    beyond = [place for place in range(len(rows)) if place not in near]
    peaks = [row for row in record["memory"] if row["name"] == name and "step_bytes" in row]
    held = [[1.0, float(row["batch"] * row["length"] * row["width"])] for row in peaks]
    memory = fit(held, [row["step_bytes"] for row in peaks])
    return {
        "name": name,
        "time": dict(zip(TIME, time, strict=True)),
        "time_errors": [predicted(time, one) / value - 1 for one, value in zip(made, times, strict=True)],
        "beyond_errors": [predicted(short, made[place]) / times[place] - 1 for place in beyond],
        "memory": dict(zip(MEMORY, memory, strict=True)),
        "memory_errors": [predicted(memory, one) / row["step_bytes"] - 1 for one, row in zip(held, peaks, strict=True)],
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
    """Seconds that two processes here take to add up so many weights."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    command = [*launch, sys.executable, "-c", _REDUCE, *map(str, weights)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=environment)
    found: list[dict[str, Any]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _fit_reduce(found: Sequence[dict[str, Any]]) -> dict[str, float]:
    made = fit([[1.0, float(row["weights"])] for row in found], [row["seconds"] for row in found])
    return {"start": made[0], "weight": made[1]}


# On paper


def on_paper() -> list[dict[str, Any]]:
    """Hours that trainings of the paper would take on GPUs: as busy as the paper's was with MTSA on SNLI, and busier."""
    pairs, premise, hypothesis = _SNLI
    epoch = 6.0 * pairs * operations(build("mtsa", words=2), "mtsa", round((premise + hypothesis) / 2))
    busy = epoch / PAPER_SECONDS["mtsa"][0] / _GPUS[_PAPERS_GPU]
    trainings = {"SNLI in full, one pass": (epoch, 1)}
    for name, (steps, tokens, count) in _WMT.items():
        trainings[f"WMT14, {name}"] = (6.0 * steps * tokens * _translator_operations(), count)
    return [
        {
            "training": name, "gpu": gpu, "count": count, "operations": total,
            "hours": {share: total / (share * rate * count) / 3600 for share in (busy, _BUSY)},
        }
        for name, (total, count) in trainings.items() for gpu, rate in _GPUS.items()
    ]  # fmt: skip


def _translator_operations(width: int = 512, hidden: int = 2048, layers: int = 6) -> float:
    """Multiply-adds of a forward pass for a token of each side, MTSA in the encoder; those on pairs of tokens are left out."""
    feed = 2 * width * hidden
    source2token = width * width / 8  # a map of each of eight heads onto itself
    encoder = 4 * width**2 + source2token + feed
    decoder = 8 * width**2 + feed
    return layers * (encoder + decoder) + width * _SUBWORDS


# For people


def lines(record: dict[str, Any]) -> list[str]:
    """The fits, in words and units."""
    told = []
    for found in record["fits"]:
        time, memory = found["time"], found["memory"]
        parts = [f"{time['start'] * 1e3:.2f} ms", f"{time['feature'] * 1e9:.2f} ns for a feature of a token"]
        parts += [
            f"{what} at {2 / time[key] / 1e9:.0f} GFLOP/s"
            for key, what in (("dense", "operations on tokens"), ("pair", "operations on pairs"))
            if time[key]
        ]
        errors = [_size(found[key]) for key in ("time_errors", "beyond_errors", "memory_errors")]
        told.append(
            f"{found['name']}: {' + '.join(parts)}; off by {errors[0]:.0%} on average, and by {errors[1]:.0%} at the longest "
            f"length when it is fitted to the others; memory {memory['start'] / 1e6:.0f} MB + {memory['feature']:.0f} bytes "
            f"for a feature of a token, off by {errors[2]:.0%}"
        )
    added = record["reduce"]
    told.append(
        f"two processes add up their gradients in {added['start'] * 1e3:.1f} ms + {added['weight'] * 1e9:.1f} ns for a weight"
    )
    return told


def paper_lines() -> list[str]:
    """What would be on GPUs."""
    return [
        f"{row['training']}, {row['operations']:.1e} operations, on {row['count']} x {row['gpu']}: "
        + ", ".join(f"{_duration(hours)} at {share:.0%} of its rate" for share, hours in row["hours"].items())
        for row in on_paper()
    ]


def _duration(hours: float) -> str:
    return f"{hours:.1f} hours" if hours >= 1 else f"{hours * 60:.1f} minutes"


def _size(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / len(errors) if errors else 0.0

"""`mtsa bench layer`: time and memory of each layer against length, as a record, a table and two plots."""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from mtsa.machine import environment_info

from .contenders import BASELINE, CONTENDERS, contender
from .memory import peak_extra
from .timing import Timing, measure

GIB = 1024.0**3


@dataclass(frozen=True)
class Setting:
    """Settings of the benchmark."""

    lengths: tuple[int, ...] = (16, 64, 256, 1024, 4096, 8192)
    width: int = 600
    heads: int = 8
    batch: int | None = None  # None: as many sentences as make 4,096 tokens, at most 128
    repeats: int = 12
    seed: int = 0
    names: tuple[str, ...] = tuple(name for name in CONTENDERS if not name.startswith("encoder:"))
    memory: bool = True
    memory_budget_gib: float = 2.0
    patience: float = 10.0  # seconds: a form slower than this in one step stops there
    seconds: float = 20.0  # at one length, for one layer; two repeats are always made

    def batch_at(self, length: int) -> int:
        return self.batch if self.batch is not None else min(128, max(1, 4096 // length))


PRESETS: dict[str, Setting] = {
    "layer": Setting(),
    "paper": Setting(
        lengths=(16, 32, 64, 128, 256, 384, 512),
        width=300,
        heads=2,
        batch=64,
        repeats=4,
        names=(BASELINE, "paper", "paper/reference", *(name for name in CONTENDERS if name.startswith("encoder:"))),
        seconds=12.0,
    ),
    "documents": Setting(
        lengths=(128, 256, 512, 1024, 2048, 4096, 8192, 16384),
        width=300,
        heads=6,
        batch=1,
        repeats=8,
        names=(BASELINE, *(f"encoder:{name}" for name in ("mtsa", "hierarchical_mtsa", "bilstm", "biblosa"))),
        patience=60.0,
        seconds=30.0,
    ),
}
"""`layer`: 600 wide, 8 heads. `paper`: the paper's Figure 1, batch 64 and 300 channels, with every registered encoder.
`documents`: one text of 128 to 16,384 words, 300 channels."""
_LONG_FROM = 1024  # length from which on the growth is measured


def run(
    setting: Setting,
    tick: Callable[[str], None] = lambda note: None,
    *,
    begun: dict[str, Any] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda record: None,
) -> dict[str, Any]:
    """Run the benchmark, length by length, and return the record.

    Args:
        setting: the settings.
        tick: called after each repeat with a description.
        begun: the record of an interrupted run with the same settings; its lengths are not measured again.
        keep: called with the current record after each length.

    Raises:
        ValueError: unknown contender.
    """
    names = [contender(name).name for name in setting.names]
    record = begun or {"setting": _plain(setting), **environment_info(), "rows": []}
    stopped: dict[str, str] = {row["name"]: row["stopped"] for row in record["rows"] if "stopped" in row}
    for group in _groups(names):
        for length in setting.lengths:
            measured = {(row["name"], row["length"]) for row in record["rows"]}
            if (group[-1], length) not in measured:
                _measure_at(length, group, setting, record, stopped, tick)
                keep(record)
    return record


def _groups(names: Sequence[str]) -> list[list[str]]:
    """Names that are measured together, the baseline with each: forms that hold gigabytes do not stir the others' memory."""
    light = [name for name in names if not CONTENDERS[name].heavy and name != BASELINE]
    heavy = [name for name in names if CONTENDERS[name].heavy]
    return [[BASELINE, *group] for group in (light, heavy) if group or group is light]


def same(record: dict[str, Any], setting: Setting) -> bool:
    """Return whether a record has these settings, this version and this machine."""
    return record.get("setting") == _plain(setting) and all(
        record.get(key) == value for key, value in environment_info().items() if key != "time"
    )


def _plain(setting: Setting) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(asdict(setting)))
    return found


def _measure_at(
    length: int,
    names: Sequence[str],
    setting: Setting,
    record: dict[str, Any],
    stopped: dict[str, str],
    tick: Callable[[str], None],
) -> None:
    shape = (setting.batch_at(length), length, setting.width)
    torch.manual_seed(setting.seed)
    layers = {}
    rows: list[dict[str, Any]] = []
    for name in names:
        reason = stopped.get(name) or _too_large(name, shape, setting)
        if reason:
            stopped[name] = reason
            rows.append({"name": name, "length": length, "batch": shape[0], "stopped": reason})
        else:
            layers[name] = CONTENDERS[name].build(setting.width, setting.heads)
    note = f"length {length}"
    timings = measure(layers, shape, trained=set(layers), repeats=setting.repeats, seconds=setting.seconds, seed=setting.seed,
                      tick=functools.partial(tick, note))  # fmt: skip
    known = any(row["name"] == BASELINE and row["length"] == length for row in record["rows"])
    for name, timing in timings.items():
        if name == BASELINE and known:
            continue
        row = _row(name, shape, timing, timings[BASELINE], setting)
        if setting.memory:
            row |= peak_extra(name, shape, setting.heads, timeout=20 * setting.patience)
            tick(f"{note}, memory")
        rows.append(row)
        slowest = max(timing.step or 0.0, timing.inference)
        if slowest > setting.patience:
            stopped[name] = f"a training step took {slowest:.0f} s at length {length}, more than {setting.patience:.0f} s"
    record["rows"] += rows


def ticks(setting: Setting) -> int:
    """Return an upper bound of the number of calls of `tick`."""
    names = len({*setting.names, BASELINE})
    return len(setting.lengths) * names * (setting.repeats + 1 + int(setting.memory))


def _row(name: str, shape: tuple[int, int, int], timing: Timing, base: Timing, setting: Setting) -> dict[str, Any]:
    batch, length, width = shape
    count, count_base = CONTENDERS[name].operations, CONTENDERS[BASELINE].operations
    row: dict[str, Any] = {"name": name, "length": length, "batch": batch, "repeats": timing.repeats}
    if timing.step is not None and base.step is not None:
        row |= {"step_seconds": timing.step, "step_ratio": timing.step / base.step, "step_median_seconds": timing.step_median}
    row |= {"inference_seconds": timing.inference, "inference_ratio": timing.inference / base.inference}
    if count is not None and count_base is not None:
        row["operations_ratio"] = count(length, width, setting.heads) / count_base(length, width, setting.heads)
    return row


def _too_large(name: str, shape: tuple[int, int, int], setting: Setting) -> str | None:
    needed = CONTENDERS[name].live_bytes(*shape, setting.heads) / GIB
    if needed <= setting.memory_budget_gib:
        return None
    return f"needs about {needed:.1f} GiB at length {shape[1]}, more than the budget of {setting.memory_budget_gib:g} GiB"


def table(record: dict[str, Any], quantity: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of the table of `step`, `inference`, `operations` or `memory`: contenders by lengths."""
    lengths = list(dict.fromkeys(row["length"] for row in record["rows"]))
    names = list(dict.fromkeys(row["name"] for row in record["rows"]))
    cells = {(row["name"], row["length"]): row for row in record["rows"]}
    lines = []
    for name in names:
        lines.append([name, *(_cell(cells.get((name, length)), cells[BASELINE, length], quantity) for length in lengths)])
    return ["layer", *(f"{length} x {cells[BASELINE, length]['batch']}" for length in lengths)], lines


def growth(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of the growth of a training step with the length N, from 1,024 tokens on.

    An exponent p is that of time or memory proportional to N^p, fitted to all lengths.
    """
    lines = []
    for name in dict.fromkeys(row["name"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["name"] == name and row["length"] >= _LONG_FROM and "stopped" not in row]
        cells = [
            _exponent([(row["length"], row[key]) for row in rows if row.get(key)]) for key in ("step_seconds", "step_bytes")
        ]
        longest = str(rows[-1]["length"]) if rows else "-"
        lines.append([name, longest, *("-" if cell is None else f"{cell:.2f}" for cell in cells)])
    return ["layer", "longest", "exponent of time", "exponent of memory"], lines


def _exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """The slope of a least-squares line through the logarithms."""
    if len(points) < 2:
        return None
    found = statistics.linear_regression(*zip(*((math.log(n), math.log(value)) for n, value in points), strict=True))
    return float(found.slope)


def aligned(header: list[str], rows: list[list[str]]) -> str:
    """Return a table as text; it is not truncated to the width of the terminal."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )


def _cell(row: dict[str, Any] | None, base: dict[str, Any], quantity: str) -> str:
    if row is None or "stopped" in row:
        return "stopped"
    if quantity == "memory":
        used, reference = row.get("step_bytes"), base.get("step_bytes")
        return "-" if not used or not reference else f"{used / 1024**2:.0f} MiB {used / reference:.2f}x"
    if quantity == "operations":
        return f"{row['operations_ratio']:.2f}x" if "operations_ratio" in row else "-"
    if f"{quantity}_seconds" not in row:
        return "-"  # it does not train here
    return f"{row[f'{quantity}_seconds'] * 1e3:.0f} ms {row[f'{quantity}_ratio']:.2f}x"


def stops(record: dict[str, Any]) -> Sequence[str]:
    """Return which layers were skipped, and why."""
    return list(dict.fromkeys(f"{row['name']}: {row['stopped']}" for row in record["rows"] if "stopped" in row))

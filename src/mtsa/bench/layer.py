"""`mtsa bench layer`: time and memory of each layer against length, as a record, a table and two pictures."""

from __future__ import annotations

import datetime
import functools
import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import mtsa

from . import safety
from .contenders import BASELINE, CONTENDERS, contender
from .memory import peak_extra
from .timing import measure

GIB = 1024.0**3


@dataclass(frozen=True)
class Setting:
    """What is measured."""

    lengths: tuple[int, ...] = (16, 64, 256, 1024, 4096, 8192)
    width: int = 600
    heads: int = 8
    batch: int | None = None  # None: as many sentences as make 4,096 tokens, at most 128
    repeats: int = 6
    seed: int = 0
    names: tuple[str, ...] = tuple(CONTENDERS)
    memory: bool = True
    memory_budget_gib: float = 4.0
    patience: float = 20.0  # seconds: a form slower than this in one step stops there

    def batch_at(self, length: int) -> int:
        return self.batch if self.batch is not None else min(128, max(1, 4096 // length))


PRESETS: dict[str, Setting] = {
    "layer": Setting(),
    "paper": Setting(lengths=(16, 32, 64, 128, 256, 384, 512), width=300, heads=2, batch=64, repeats=3),
}
"""`layer`: 600 wide, 8 heads. `paper`: the setting of the paper's Figure 1, batch 64 and 300 channels."""


def run(setting: Setting, tick: Callable[[str], None] = lambda note: None) -> dict[str, Any]:
    """Measure everything; `tick` hears what was done after each repeat. Returns the record.

    Raises:
        ValueError: an unknown contender.
    """
    names = [contender(name).name for name in setting.names]
    if BASELINE not in names:
        names.insert(0, BASELINE)
    record: dict[str, Any] = {"setting": asdict(setting), **_circumstances(), "rows": [], "safety": []}
    stopped: dict[str, str] = {}
    for length in setting.lengths:
        shape = (setting.batch_at(length), length, setting.width)
        torch.manual_seed(setting.seed)
        layers = {}
        for name in names:
            reason = stopped.get(name) or _too_large(name, shape, setting)
            if reason:
                stopped[name] = reason
                record["rows"].append({"name": name, "length": length, "batch": shape[0], "stopped": reason})
            else:
                layers[name] = CONTENDERS[name].build(setting.width, setting.heads)
        note = f"length {length}"
        heard = functools.partial(tick, note)
        timings = measure(layers, shape, repeats=setting.repeats, seed=setting.seed, tick=heard)
        for name, timing in timings.items():
            row = _row(name, shape, timing.step, timing.inference, timings[BASELINE], setting)
            if setting.memory:
                for mode in ("step", "inference"):
                    row[f"{mode}_bytes"] = peak_extra(name, shape, setting.heads, mode, timeout=20 * setting.patience)
                tick(f"{note}, memory")
            record["rows"].append(row)
            if timing.step > setting.patience:
                stopped[name] = f"a step took {timing.step:.0f} s at length {length}, more than {setting.patience:.0f} s"
        for name in ("paper", "released"):
            if name in layers:
                share = safety.share(layers[name], shape, repeats=setting.repeats, seed=setting.seed)
                record["safety"].append({"name": name, "length": length, "share": share})
    return record


def ticks(setting: Setting) -> int:
    """An upper bound of how often `run` calls `tick`."""
    names = len({*setting.names, BASELINE})
    return len(setting.lengths) * names * (setting.repeats + 1 + int(setting.memory))


def _row(name: str, shape: tuple[int, int, int], step: float, inference: float, base: Any, setting: Setting) -> dict[str, Any]:
    batch, length, width = shape
    counted = CONTENDERS[name].operations(length, width, setting.heads)
    counted_base = CONTENDERS[BASELINE].operations(length, width, setting.heads)
    return {
        "name": name,
        "length": length,
        "batch": batch,
        "step_seconds": step,
        "inference_seconds": inference,
        "step_ratio": step / base.step,
        "inference_ratio": inference / base.inference,
        "operations_ratio": counted / counted_base,
    }


def _too_large(name: str, shape: tuple[int, int, int], setting: Setting) -> str | None:
    needed = CONTENDERS[name].live_bytes(*shape, setting.heads) / GIB
    if needed <= setting.memory_budget_gib:
        return None
    return f"needs about {needed:.1f} GiB at length {shape[1]}, more than the budget of {setting.memory_budget_gib:g} GiB"


def _circumstances() -> dict[str, Any]:
    return {
        "versions": {"mtsa": mtsa.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "processor": _processor()},
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def save(record: dict[str, Any], path: Path) -> None:
    """Write a record whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1) + "\n")
    partial.replace(path)


def table(record: dict[str, Any], quantity: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table of `step`, `inference`, `operations` or `memory`: contenders down, lengths across."""
    lengths = list(dict.fromkeys(row["length"] for row in record["rows"]))
    names = list(dict.fromkeys(row["name"] for row in record["rows"]))
    cells = {(row["name"], row["length"]): row for row in record["rows"]}
    lines = []
    for name in names:
        lines.append([name, *(_cell(cells.get((name, length)), cells[BASELINE, length], quantity) for length in lengths)])
    return ["layer", *(f"{length} x {cells[BASELINE, length]['batch']}" for length in lengths)], lines


def aligned(header: list[str], rows: list[list[str]]) -> str:
    """A table as text: nothing is cut, however narrow the terminal."""
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
        return f"{row['operations_ratio']:.2f}x"
    return f"{row[f'{quantity}_seconds'] * 1e3:.0f} ms {row[f'{quantity}_ratio']:.2f}x"


def stops(record: dict[str, Any]) -> Sequence[str]:
    """Where forms stopped, and why, each once."""
    return list(dict.fromkeys(f"{row['name']}: {row['stopped']}" for row in record["rows"] if "stopped" in row))

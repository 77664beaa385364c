"""The paper's Figure 1c: accuracy against inference time, the size of a point its memory."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mtsa.errors import InputError

from .names import display
from .plots import picture


def read_costs(path: Path) -> dict[str, tuple[float, float]]:
    """Return (seconds of predicting the dev pairs, bytes of a training step) of each model in a record of `bench nli`.

    Raises:
        InputError: not such a record, or one made without --data.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        seconds = {row["name"]: float(row["dev_seconds"]) for row in record["passes"]}
        memory = {row["name"]: float(row["step_bytes"]) for row in record["memory"] if row["step_bytes"]}
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is not a record of bench nli; make one with: python -m reproduce bench nli --data FOLDER"
        ) from None
    if not seconds:
        raise InputError(f"{path} has no times of the dev pairs; repeat it with: python -m reproduce bench nli --data FOLDER")
    return {name: (seconds[name], memory[name]) for name in seconds if name in memory}


def draw(records: Sequence[Mapping[str, Any]], costs: dict[str, tuple[float, float]], path: Path) -> list[str]:
    """Write the plot of the models of Table 1 that have both records and costs, and return their names.

    Raises:
        InputError: there is none.
    """
    found: dict[str, list[float]] = {}
    dataset = "snli" if any(record["dataset"] == "snli" for record in records) else "snli-subset"
    for record in records:
        if record["model"] in costs and record["dataset"] == dataset and not record["model"].startswith("mtsa_"):  # ablations
            found.setdefault(record["model"], []).append(record["test"]["test"]["accuracy"])
    if not found:
        raise InputError(
            "no model has both accuracy records and a cost measurement; run python -m reproduce table nli and "
            "python -m reproduce bench nli --data FOLDER first"
        )
    points = []
    for name, values in sorted(found.items(), key=lambda item: costs[item[0]][0]):
        seconds, memory = costs[name]
        points.append((name, round(seconds, 3), round(100 * statistics.fmean(values), 3), round(memory / 1024**2)))
    with picture(path, [4.25], points) as (axes,):
        for place, (name, duration, accuracy, size) in enumerate(points):
            colour = "tab:red" if name == "mtsa" else "tab:grey"
            axes.scatter(duration, accuracy, s=size, alpha=0.55, color=colour)
            distance = 6 + size**0.5 / 2
            shift = (0, -distance - 6 if place % 2 else distance)  # labels above and below in turn
            label = f"{display(name)}, {size} MiB"
            axes.annotate(label, (duration, accuracy), xytext=shift, textcoords="offset points", fontsize=7, ha="center")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("{x:g}")
        axes.set_xlabel("seconds for the dev pairs (model of the paper's width)")
        axes.set_ylabel("test accuracy, % (model of half the width)")
        title = {"snli": "SNLI", "snli-subset": "SNLI subset"}[dataset]
        axes.set_title(f"{title}; area: peak memory of a training step, length 64, batch 64, full width", fontsize=9)
        axes.margins(0.18)
        axes.grid(alpha=0.3)
    return list(found)

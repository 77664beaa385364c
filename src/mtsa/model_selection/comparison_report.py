"""The results of a comparison: statistics over folds, the table, and the recommendation."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtsa.messages import counted
from mtsa.metrics.significance import LEVEL, corrected_interval, corrected_t, holm

from .recommendation import Recommendation, Standing, recommend

METRICS = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
"""Metrics for the ranking, and their display names."""


@dataclass(frozen=True)
class Comparison:
    """A finished comparison.

    Args:
        folder: folder of the record.
        record: all measurements, as in record.json.
    """

    folder: Path
    record: dict[str, Any]

    @property
    def standings(self) -> list[Standing]:
        """The results of each model, best first."""
        return rank(self.record["units"], self.record["settings"]["metric"])

    @property
    def recommendation(self) -> Recommendation:
        """The recommended model, and why."""
        settings = self.record["settings"]
        return recommend(self.standings, METRICS[settings["metric"]], self.record["examples"], settings["folds"])

    def __str__(self) -> str:
        """The table and the recommendation."""
        return report(self.record, self.standings, self.recommendation)


def rank(units: Sequence[Mapping[str, Any]], metric: str) -> list[Standing]:
    """Return the results of each model over all folds, best first, with the difference from the best.

    Args:
        units: record of each model on each fold.
        metric: a key of `METRICS`.
    """
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for unit in sorted(units, key=lambda unit: unit["fold"]):
        by_model.setdefault(unit["model"], []).append(unit)
    scores = {name: [100 * unit[metric] for unit in found] for name, found in by_model.items()}
    found = []
    for name, runs in by_model.items():
        low, high = corrected_interval(scores[name])
        seconds = statistics.fmean(unit["train_seconds"] for unit in runs)
        tested = sum(unit["examples"]["test"] for unit in runs)
        speed = tested / sum(unit["examples"]["test"] / unit["texts_per_second"] for unit in runs)
        size = max(unit["bytes"] for unit in runs)
        mean = statistics.fmean(scores[name])
        found.append(Standing(name, mean, max(0.0, low), min(100.0, high), seconds, speed, size))
    best, *others = sorted(found, key=lambda one: (-one.mean, one.cost))
    differences = [corrected_t(scores[best.name], scores[one.name]) for one in others]
    adjusted = holm([difference.p for difference in differences])
    rest = [replace(one, difference=gap, p=p) for one, gap, p in zip(others, differences, adjusted, strict=True)]
    return [best, *rest]


def report(record: Mapping[str, Any], standings: Sequence[Standing], recommendation: Recommendation) -> str:
    """Return the comparison as text."""
    settings, machine = record["settings"], record["machine"]
    classes = record["classes"]
    largest = max(classes, key=classes.__getitem__)
    share = 100 * classes[largest] / record["examples"]
    head = ["model", METRICS[settings["metric"]], "95 % interval", "training", "texts/s", "size", "difference from the best"]
    rows = [
        [
            one.name,
            f"{one.mean:.1f}",
            f"{one.low:.1f} to {one.high:.1f}",
            _duration(one.train_seconds),
            _rounded(one.texts_per_second),
            _size(one.bytes),
            _difference(one),
        ]
        for one in standings
    ]
    about = (
        f"{counted(record['examples'], 'example')}, {len(classes)} classes (majority class {largest}: {share:.1f} %), "
        f"{settings['folds']} folds, seed {settings['seed']}"
    )
    threads = f"{counted(machine['threads'], 'thread')} of {machine['processor']}"
    compared = counted(len(standings) - 1, "comparison")
    lines = [
        about,
        "",
        *_aligned([head, *rows]),
        "",
        *(f"{name}: {about}" for name, about in record["models"].items()),
        "",
        f"Training: time per fold. Texts/s: prediction. Both with {threads}.",
        f"Differences: corrected resampled t-test over folds, p-values adjusted for {compared} (Holm).",
    ]
    return "\n".join([*lines, *record["left_out"].values(), "", recommendation.sentence])


def _difference(one: Standing) -> str:
    if one.difference is None:
        return "best"
    p = f"p = {one.p:.3f}" if one.p >= 0.001 else "p < 0.001"
    verdict = "lower" if one.p < LEVEL else "not significant"
    return f"{-one.difference.mean:+.1f} points, {verdict} ({p})"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table: the first and the last column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        inner = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *inner, row[-1]]))
    return lines


def _duration(seconds: float) -> str:
    if seconds >= 90:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"


def _rounded(value: float) -> str:
    """A number with two significant digits."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 9.5 else f"{value:.1f}"


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= 0.95 * size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} kB"

"""Whether two models differ: intervals from paired resampling of runs and test examples, or from folds.

A record holds, for every test example, the counts that the metric is made of, so that two models can be compared example by
example. With seeds, runs and examples are resampled together (bootstrap). The statistics of folds, and the correction for the
number of models compared, are those of `mtsa.metrics.significance`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mtsa.metrics.bleu import bleu_of
from mtsa.metrics.significance import LEVEL, Difference, corrected_t, holm

from .markdown import markdown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .table import Column, Record, Table, View

SAMPLES = 2000
_F1 = ("right", "answered", "there")


def pack_items(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The counts of each test example, from its metrics: a string of 0 and 1 for accuracy, otherwise a string for each."""
    if "sentence_counts" in scores[0]:
        return {"metric": "bleu", "rows": [" ".join(map(str, one["sentence_counts"][0])) for one in scores]}
    if "there" in scores[0]:
        return {"metric": "f1", "rows": [" ".join(str(one[key]) for key in _F1) for one in scores]}
    return {"metric": "accuracy", "rows": "".join(str(round(one["accuracy"])) for one in scores)}


def unpack_items(items: Mapping[str, Any]) -> NDArray[np.int64]:
    """Counts [examples, counts of each]."""
    if items["metric"] == "accuracy":
        return np.array([[int(right)] for right in items["rows"]], dtype=np.int64)
    return np.array([[int(value) for value in row.split()] for row in items["rows"]], dtype=np.int64)


def metric_of(name: str, totals: Sequence[float], examples: int) -> float:
    """A metric, in percent, from the sums of the counts."""
    if name == "accuracy":
        return 100.0 * float(totals[0]) / examples
    if name == "f1":
        right, answered, there = totals
        return 100.0 * 2.0 * float(right) / float(answered + there) if answered + there else 0.0
    return bleu_of([[int(value) for value in totals]])


def bootstrap(
    ours: Sequence[NDArray[np.int64]], theirs: Sequence[NDArray[np.int64]], metric: str, *, seed: int = 0
) -> Difference:
    """The difference of means over runs; runs of each model and test examples are drawn anew in each sample.

    Args:
        ours: counts of each run.
        theirs: counts of the other model's runs, for the same examples.
        metric: "accuracy", "f1" or "bleu".
        seed: of the resampling.
    """
    size = len(ours[0])
    assert {len(run) for run in (*ours, *theirs)} == {size}
    rng = np.random.default_rng(seed)

    def mean(runs: Sequence[NDArray[np.int64]], chosen: Sequence[int], weights: NDArray[np.int64]) -> float:
        return float(np.mean([metric_of(metric, (weights @ runs[run]).tolist(), size) for run in chosen]))

    def difference(mine: Sequence[int], other: Sequence[int], weights: NDArray[np.int64]) -> float:
        return mean(ours, mine, weights) - mean(theirs, other, weights)

    once = np.ones(size, dtype=np.int64)
    found = difference(range(len(ours)), range(len(theirs)), once)
    samples = np.empty(SAMPLES)
    for number in range(SAMPLES):
        weights = np.bincount(rng.integers(size, size=size), minlength=size)
        mine, other = (rng.integers(len(runs), size=len(runs)).tolist() for runs in (ours, theirs))
        samples[number] = difference(mine, other, weights)
    low, high = np.quantile(samples, [LEVEL / 2, 1 - LEVEL / 2])
    tail = min(int((samples <= 0).sum()), int((samples >= 0).sum()))
    return Difference(found, float(low), float(high), min(1.0, 2 * (tail + 1) / (SAMPLES + 1)), len(ours))


def compare(table: Table, column: Column, one: str, other: str, records: Sequence[Record]) -> Difference | None:
    """Two models in a column; None unless both have the same runs, all that are planned, and at least two."""
    dataset = table.datasets[column.dataset]
    found = []
    for model in (one, other):
        runs = {
            record["run"]: record for record in records if record["model"] == model and record["dataset"] == column.dataset
        }
        found.append(runs)
    ours, theirs = found
    names = [dataset.run_name(number) for number in range(dataset.runs)]
    if set(ours) != set(names) or set(theirs) != set(names) or len(names) < 2:
        return None
    if column.metric != ours[names[0]]["test"].get(column.part, {}).get("items", {}).get("metric"):
        return None
    if dataset.folds:
        mine, others = ([column.value(runs[name]) or 0.0 for name in names] for runs in found)
        return corrected_t(mine, others)
    first, second = ([unpack_items(runs[name]["test"][column.part]["items"]) for name in names] for runs in found)
    return bootstrap(first, second, column.metric)


def comparison_lines(table: Table, view: View, records: Sequence[Record]) -> list[str]:
    """A table of differences between the reference model of a view and the others; nothing where none can be computed."""
    lines = []
    for column in view.columns if view.reference else ():
        found = {
            name: difference
            for name in view.models
            if name != view.reference and (difference := compare(table, column, view.reference, name, records)) is not None
        }
        for (name, difference), p in zip(found.items(), holm([one.p for one in found.values()]), strict=True):
            verdict = "no difference found" if p >= LEVEL else "higher" if difference.mean > 0 else "lower"
            interval = f"{difference.low:+.2f} to {difference.high:+.2f}"
            lines.append(
                [f"{view.reference} - {name}", column.title, f"{difference.mean:+.2f}", interval, f"{p:.3f}", verdict]
            )
    if not lines:
        return []
    head = ["difference", "", "points", "95 % interval", "p (Holm)", f"{view.reference} is"]
    return [markdown([head, *lines])]

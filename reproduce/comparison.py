"""Whether two models differ: intervals from paired resampling of runs and test examples, or from folds.

A record contains the counts of every test example from which the metric is computed, so that two models can be compared
example by example. With seeds, runs and examples are resampled together (bootstrap). The statistics of folds, and the
correction for the number of models compared, are those of `mtsa.metrics.significance`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mtsa.metrics.bleu import bleu_of
from mtsa.metrics.significance import LEVEL, Difference, corrected_interval, corrected_t

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .table import Column, Record, Table

SAMPLES = 2000
_CHUNK = 100  # samples that are computed together
_F1 = ("correct", "predicted", "support")


def pack_items(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The counts of each test example, from its metrics: a string of 0 and 1 for accuracy, otherwise a string for each."""
    if "sentence_counts" in scores[0]:
        return {"metric": "bleu", "rows": [" ".join(map(str, one["sentence_counts"][0])) for one in scores]}
    if "support" in scores[0]:
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
    counts_a: Sequence[NDArray[np.int64]], counts_b: Sequence[NDArray[np.int64]], metric: str, *, seed: int = 0
) -> Difference:
    """Return the difference of means over runs; each sample resamples the runs of both models and the test examples.

    Args:
        counts_a: counts of each run of the first model.
        counts_b: counts of each run of the second model, for the same examples.
        metric: "accuracy", "f1" or "bleu".
        seed: of the resampling.
    """
    difference = _mean(counts_a, metric) - _mean(counts_b, metric)
    means = _resample((counts_a, counts_b), metric, seed)
    samples = means[:, 0] - means[:, 1]
    low, high = np.quantile(samples, [LEVEL / 2, 1 - LEVEL / 2])
    tail = min(int((samples <= 0).sum()), int((samples >= 0).sum()))
    return Difference(difference, float(low), float(high), min(1.0, 2 * (tail + 1) / (SAMPLES + 1)), len(counts_b))


def _mean(runs: Sequence[NDArray[np.int64]], metric: str) -> float:
    return float(np.mean([metric_of(metric, run.sum(0).tolist(), len(run)) for run in runs]))


@functools.lru_cache(maxsize=2)
def _weights(size: int, seed: int) -> NDArray[np.uint8]:
    """How often each test example is drawn [samples, examples]."""
    rng = np.random.default_rng(seed)
    return np.array([np.bincount(rng.integers(size, size=size), minlength=size) for _ in range(SAMPLES)], dtype=np.uint8)


def _resample(models: Sequence[Sequence[NDArray[np.int64]]], metric: str, seed: int) -> NDArray[np.float64]:
    """The mean over runs [samples, models]; the test examples of a sample are the same for all models."""
    runs = [run for model in models for run in model]
    size, width = runs[0].shape
    assert {len(run) for run in runs} == {size}
    rng = np.random.default_rng([seed, 1])
    counts = np.hstack(runs).astype(np.float64)
    weights = _weights(size, seed)
    means = np.empty((SAMPLES, len(models)))
    for first in range(0, SAMPLES, _CHUNK):
        totals = weights[first : first + _CHUNK].astype(np.float64) @ counts
        for row, total in enumerate(totals.reshape(-1, len(runs), width).tolist()):
            values = np.array([metric_of(metric, one, size) for one in total])
            start = 0
            for place, model in enumerate(models):
                means[first + row, place] = values[start + rng.integers(len(model), size=len(model))].mean()
                start += len(model)
    return means


def cell(table: Table, column: Column, model: str, records: Sequence[Record]) -> dict[str, Record]:
    """The runs of a model on the data set of a column, by name; empty unless all planned runs have records."""
    dataset = table.datasets[column.dataset]
    runs = {one["run"]: one for one in records if one["model"] == model and one["dataset"] == column.dataset}
    planned = [dataset.run_name(number) for number in range(table.models[model].planned(dataset))]
    return {name: runs[name] for name in planned} if planned and runs.keys() >= set(planned) else {}


def compare(table: Table, column: Column, model_a: str, model_b: str, records: Sequence[Record]) -> Difference | None:
    """Compare two models in a column, on the runs that are planned for both; None unless all these runs are complete."""
    dataset = table.datasets[column.dataset]
    runs_a, runs_b = (cell(table, column, model, records) for model in (model_a, model_b))
    names = [name for name in runs_a if name in runs_b]
    if not names or (dataset.folds and len(names) < dataset.folds):
        return None
    if column.metric != runs_a[names[0]]["test"].get(column.part, {}).get("items", {}).get("metric"):
        return None
    if dataset.folds:
        scores_a, scores_b = ([column.value(runs[name]) or 0.0 for name in names] for runs in (runs_a, runs_b))
        return corrected_t(scores_a, scores_b)
    counts_a, counts_b = (_counts(column, [runs[name] for name in names]) for runs in (runs_a, runs_b))
    return bootstrap(counts_a, counts_b, column.metric)


def interval(table: Table, column: Column, model: str, records: Sequence[Record]) -> tuple[float, float] | None:
    """The interval of a model's mean over its runs so far; None where it cannot be computed."""
    runs = [one for one in records if one["model"] == model and one["dataset"] == column.dataset]
    if table.datasets[column.dataset].folds:
        values = table.values(column, model, records)
        return corrected_interval(values) if len(values) > 1 else None
    if not runs or column.metric != runs[0]["test"].get(column.part, {}).get("items", {}).get("metric"):
        return None
    samples = _resample([_counts(column, runs)], column.metric, 0)[:, 0]
    low, high = np.quantile(samples, [LEVEL / 2, 1 - LEVEL / 2])
    return float(low), float(high)


def _counts(column: Column, records: Sequence[Record]) -> list[NDArray[np.int64]]:
    return [unpack_items(record["test"][column.part]["items"]) for record in records]

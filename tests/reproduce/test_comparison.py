"""Comparison of two models: resampling, folds, correction, and when none is made."""

import dataclasses

import numpy as np
import pytest
from reproduce.comparison import (
    bootstrap,
    compare,
    interval,
    metric_of,
    pack_items,
    unpack_items,
)

from mtsa.metrics.bleu import score_translations
from mtsa.metrics.significance import corrected_interval, corrected_t
from tests.reproduce.test_table import record, table_of


def answers(share, size=400, seed=0):
    return (np.random.default_rng(seed).random((size, 1)) < share).astype(np.int64)


@pytest.mark.parametrize(
    "scores",
    [
        [{"accuracy": 1.0}, {"accuracy": 0.0}, {"accuracy": 1.0}],
        [{"correct": 2, "predicted": 3, "support": 4, "f1": 0.5}, {"correct": 0, "predicted": 0, "support": 1, "f1": 0.0}],
    ],
)
def test_items_are_unpacked_as_they_were_packed(scores):
    items = unpack_items(pack_items(scores))
    keys = ("correct", "predicted", "support") if "correct" in scores[0] else ("accuracy",)
    assert items.tolist() == [[int(one[key]) for key in keys] for one in scores]


def test_metrics_from_counts_are_those_of_the_scorer():
    assert metric_of("accuracy", [3], 4) == 75.0
    assert metric_of("f1", [2, 4, 4], 9) == 50.0
    assert metric_of("f1", [0, 0, 0], 9) == 0.0
    truths, texts = ["a cat sat on the mat", "two dogs run in the park"], ["a cat sat on a mat", "two dogs run in the park"]
    whole = score_translations(truths, texts)
    items = unpack_items(
        pack_items([score_translations([truth], [text]).as_json() for truth, text in zip(truths, texts, strict=True)])
    )
    assert metric_of("bleu", items.sum(0).tolist(), 2) == pytest.approx(whole.bleu)


def test_bootstrap_of_a_clear_and_of_no_difference():
    better, worse = [answers(0.9, seed=n) for n in range(3)], [answers(0.7, seed=10 + n) for n in range(3)]
    clear = bootstrap(better, worse, "accuracy")
    assert clear.mean == pytest.approx(100 * (np.mean(better) - np.mean(worse)))
    assert 10 < clear.low < clear.mean < clear.high < 30
    assert clear.p < 0.01
    opposite = bootstrap(worse, better, "accuracy")
    assert opposite.mean == -clear.mean
    assert opposite.high < 0
    same = bootstrap(better, better, "accuracy")
    assert same.mean == 0.0
    assert same.low < 0 < same.high
    assert same.p > 0.5


def test_bootstrap_is_paired_by_example():
    """The same gap counts for more when the models fail on the same examples."""
    rng = np.random.default_rng(0)
    first = (rng.random((400, 1)) < 0.7).astype(np.int64)
    nested = first.copy()
    nested[np.flatnonzero(first)[:12]] = 0
    shuffled = rng.permutation(nested)
    paired, unpaired = bootstrap([first], [nested], "accuracy"), bootstrap([first], [shuffled], "accuracy")
    assert paired.mean == pytest.approx(unpaired.mean)
    assert paired.high - paired.low < 0.6 * (unpaired.high - unpaired.low)


def test_bootstrap_draws_runs_too():
    """Runs that differ from seed to seed widen the interval."""
    steady = [answers(0.8, seed=0)] * 3
    varied = [answers(share, seed=0) for share in (0.7, 0.8, 0.9)]
    narrow, wide = (bootstrap(runs, steady, "accuracy") for runs in (steady, varied))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_only_complete_cells_with_the_same_runs_are_compared():
    table = table_of()
    column = table.views[0].columns[0]
    both = [record(model, "a", f"seed-{n}", value) for model, value in (("one", 0.9), ("two", 0.5)) for n in range(2)]
    found = compare(table, column, "one", "two", both)
    assert found.mean == pytest.approx(40.0)
    assert found.runs == 2
    assert compare(table, column, "one", "two", both[:3]) is None
    assert compare(table, column, "one", "two", [both[0], both[2]]) is None  # one seed of two


def test_a_model_with_fewer_planned_runs_is_compared_on_those():
    table = table_of()
    table.models["two"] = dataclasses.replace(table.models["two"], runs={"a": 1})
    records = [record("one", "a", "seed-0", 0.9), record("one", "a", "seed-1", 0.1), record("two", "a", "seed-0", 0.5)]
    found = compare(table, table.views[0].columns[0], "one", "two", records)
    assert found.mean == pytest.approx(40.0)
    assert found.runs == 1


def test_the_interval_of_one_model_contains_its_mean():
    table = table_of()
    seeds = [record("one", "a", f"seed-{n}", value) for n, value in enumerate((0.9, 0.7))]
    low, high = interval(table, table.views[0].columns[0], "one", seeds)
    assert 40 < low < 80 < high <= 100
    column = type(table.views[0].columns[0])("B", "b")
    folds = [record("one", "b", f"fold-0{n}", value) for n, value in ((1, 0.9), (2, 0.8), (3, 0.7))]
    assert interval(table, column, "one", folds) == corrected_interval([90.0, 80.0, 70.0])
    assert interval(table, column, "one", folds[:1]) is None
    assert interval(table, column, "two", folds) is None


def test_folds_are_compared_by_the_corrected_t_test():
    table = table_of()
    table.models["two"] = dataclasses.replace(table.models["two"], runs={})
    column = type(table.views[0].columns[0])("B", "b")
    values = {"one": (0.9, 0.8, 0.9), "two": (0.6, 0.6, 0.5)}
    records = [record(model, "b", f"fold-{n:02d}", value) for model in values for n, value in enumerate(values[model], 1)]
    found = compare(table, column, "one", "two", records)
    assert found == corrected_t([90.0, 80.0, 90.0], [60.0, 60.0, 50.0])
    assert compare(table_of(), column, "one", "two", records) is None  # not planned

"""The rule that recommends a model, in constructed cases."""

import pytest
from scipy import stats

from mtsa.metrics.significance import Difference
from mtsa.model_selection.comparison_report import rank
from mtsa.model_selection.recommendation import MARGIN, Standing, recommend

CHEAP, DEAR = {"train_seconds": 1.0, "texts_per_second": 1000.0, "bytes": 10_000}, {
    "train_seconds": 100.0, "texts_per_second": 50.0, "bytes": 90_000_000,
}  # fmt: skip


def best(name="best", mean=80.0, cost=DEAR):
    return Standing(name, mean, mean - 1, mean + 1, **cost)


def other(name, mean, p, cost):
    return Standing(name, mean, mean - 1, mean + 1, **cost, difference=Difference(80.0 - mean, 0.0, 0.0, p, 5), p=p)


@pytest.mark.parametrize(
    ("standings", "expected", "words"),
    [
        ([best(), other("a", 70.0, 0.01, CHEAP)], "best", "all other models score significantly lower"),
        ([best(), other("a", 79.0, 0.3, CHEAP)], "a", "not significantly lower than that of best (80.0)"),
        ([best(), other("a", 79.0, 0.049, CHEAP)], "best", "significantly lower"),
        ([best(), other("a", 80 - MARGIN - 0.1, 0.3, CHEAP)], "best", "the difference from a is not significant"),
        ([best(cost=CHEAP), other("a", 79.5, 0.3, DEAR)], "best", "it is cheaper than a"),
        (
            [
                best(),
                other("a", 79.8, 0.6, DEAR | {"bytes": 80_000_000}),
                other("b", 79.0, 0.4, CHEAP),
                other("c", 60.0, 0.01, CHEAP),
            ],
            "b",
            "the cheapest of the 3 models",
        ),
        (
            [best(), other("a", 75.0, 0.2, CHEAP), other("b", 74.0, 0.2, CHEAP)],
            "best",
            "but the differences from a and b are not significant",
        ),
    ],
)
def test_the_cheapest_of_those_that_are_not_worse_is_recommended(standings, expected, words):
    found = recommend(standings, "accuracy", 833, 5)
    assert found.name == expected
    assert words in found.sentence
    assert found.sentence.startswith(f"Use {expected}: ")
    assert found.sentence.endswith("(833 examples, 5 folds).")
    assert found.sentence.count(". ") <= 1  # at most two sentences


@pytest.mark.parametrize("key", ["train_seconds", "texts_per_second", "bytes"])
def test_each_part_of_the_cost_counts(key):
    worse = DEAR[key] * (0.5 if key == "texts_per_second" else 2)
    standings = [best(cost=DEAR | {key: worse}), other("a", 80.0, 1.0, DEAR)]
    assert recommend(standings, "accuracy", 100, 5).name == "a"
    standings = [best(cost=DEAR), other("a", 80.0, 1.0, DEAR | {key: worse})]
    assert recommend(standings, "accuracy", 100, 5).name == "best"


def unit(model, fold, accuracy, macro_f1=0.5, speed=100.0):
    return {
        "model": model, "fold": fold, "accuracy": accuracy, "macro_f1": macro_f1, "train_seconds": float(fold),
        "texts_per_second": speed, "bytes": 10 * fold, "examples": {"test": 20},
    }  # fmt: skip


SCORES = {"a": (0.9, 0.8, 0.9, 0.85), "b": (0.7, 0.55, 0.7, 0.7), "c": (0.88, 0.84, 0.86, 0.8)}
UNITS = [unit(model, fold, score) for model, scores in SCORES.items() for fold, score in enumerate(scores, 1)]


def test_the_statistics_of_a_comparison_are_those_of_scipy():
    found = rank(list(reversed(UNITS)), "accuracy")
    assert [one.name for one in found] == ["a", "c", "b"]
    factor = ((1 / 4 + 1 / 3) / (1 / 4)) ** 0.5
    raw = {}
    for name in "bc":
        plain = stats.ttest_rel(SCORES["a"], SCORES[name])
        raw[name] = 2 * stats.t.sf(plain.statistic / factor, 3)
    assert raw["b"] < raw["c"]
    for one in found[1:]:
        assert one.p == pytest.approx(min(1.0, 2 * raw["b"]) if one.name == "b" else max(2 * raw["b"], raw["c"]))
    error = 100 * factor * stats.sem(SCORES["a"])
    expected = stats.t.interval(0.95, 3, loc=86.25, scale=error)
    assert (found[0].low, found[0].high) == pytest.approx((expected[0], min(100.0, expected[1])))
    assert found[2].significant
    assert not found[1].significant
    assert not found[0].significant


def test_costs_are_those_of_all_folds():
    units = [unit("a", 1, 0.9, speed=100.0), unit("a", 2, 0.9, speed=50.0), unit("b", 1, 0.5), unit("b", 2, 0.6)]
    first = rank(units, "accuracy")[0]
    assert first.train_seconds == 1.5
    assert first.texts_per_second == pytest.approx(40 / (20 / 100 + 20 / 50))
    assert first.bytes == 20


def test_the_metric_decides_the_order():
    units = [unit("a", 1, 0.9, 0.3), unit("a", 2, 0.8, 0.4), unit("b", 1, 0.7, 0.6), unit("b", 2, 0.6, 0.7)]
    assert [one.name for one in rank(units, "accuracy")] == ["a", "b"]
    assert [one.name for one in rank(units, "macro_f1")] == ["b", "a"]

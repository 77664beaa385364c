"""Figures against cases worked out by hand."""

import math

import pytest

from mtsa.metrics.classification import score_classes
from mtsa.metrics.regression import score_numbers


def test_figures_of_three_classes():
    found = score_classes([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 0, 0], ["a", "b", "c"])
    assert found.confusion == ((2, 1, 0), (1, 1, 0), (1, 0, 0))  # rows: the truth
    assert found.accuracy == 0.5
    a, b, c = found.classes
    assert (a.precision, a.recall, a.count) == (0.5, 2 / 3, 3)
    assert a.f1 == pytest.approx(4 / 7)
    assert (b.precision, b.recall, b.f1) == (0.5, 0.5, 0.5)
    assert (c.precision, c.recall, c.f1, c.count) == (0.0, 0.0, 0.0, 1)
    assert found.macro_f1 == pytest.approx((4 / 7 + 0.5 + 0) / 3)


def test_a_class_that_nowhere_occurs_does_not_count_in_the_mean():
    found = score_classes([0, 1], [0, 1], ["a", "b", "never"])
    assert found.macro_f1 == 1.0
    assert found.as_json()["count"] == 2


def test_figures_of_numbers():
    found = score_numbers([1.0, 2.0, 3.0, 6.0], [1.0, 4.0, 3.0, 5.0])
    assert found.mse == pytest.approx((0 + 4 + 0 + 1) / 4)
    assert found.mae == pytest.approx(3 / 4)
    assert found.pearson == pytest.approx(9.0 / math.sqrt(14.0 * 8.75))
    assert score_numbers([1.0, 2.0], [3.0, 3.0]).pearson == 0.0


def test_correlation_of_ranks():
    assert score_numbers([1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0]).spearman == pytest.approx(1.0)
    assert score_numbers([1.0, 2.0, 3.0], [5.0, 4.0, 3.0]).spearman == pytest.approx(-1.0)
    tied = score_numbers([1.0, 2.0, 2.0, 4.0], [3.0, 1.0, 2.0, 4.0]).spearman
    assert tied == pytest.approx(1.5 / math.sqrt(4.5 * 5.0))  # ranks 0, 1.5, 1.5, 3 and 2, 0, 1, 3

"""The statistics of folds, against scipy."""

import numpy as np
import pytest
from scipy import stats

from mtsa.metrics.significance import corrected_interval, corrected_t, holm, t_quantile, two_sided_p


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 9, 30])
def test_student_t_is_that_of_scipy(freedom):
    for t in (-3.0, 0.0, 0.2, 1.0, 2.5, 12.0):
        assert two_sided_p(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-14)
    for p in (0.5, 0.05, 0.001):
        assert t_quantile(p, freedom) == pytest.approx(stats.t.isf(p / 2, freedom), rel=1e-10)


@pytest.mark.parametrize("folds", [2, 3, 5, 10])
def test_corrected_t_is_the_t_test_with_a_larger_variance(folds):
    rng = np.random.default_rng(folds)
    ours, theirs = 80 + rng.normal(size=folds), 79 + rng.normal(size=folds)
    found = corrected_t(ours.tolist(), theirs.tolist())
    factor = np.sqrt((1 / folds + 1 / (folds - 1)) / (1 / folds))  # Nadeau and Bengio
    plain = stats.ttest_rel(ours, theirs)
    interval = plain.confidence_interval(0.95)
    assert found.mean == pytest.approx((ours - theirs).mean())
    assert found.high - found.low == pytest.approx(factor * (interval.high - interval.low))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(plain.statistic) / factor, folds - 1))
    assert found.runs == folds
    error = factor * stats.sem(ours)
    expected = stats.t.interval(0.95, folds - 1, loc=ours.mean(), scale=error)
    assert corrected_interval(ours.tolist()) == pytest.approx(expected)


def test_equal_scores_do_not_differ():
    equal = corrected_t([1.0, 2.0], [1.0, 2.0])
    assert (equal.mean, equal.p) == (0.0, 1.0)


def test_a_constant_difference_is_not_tested():
    """The accuracies of two small folds often differ by the same number of examples; that is no evidence."""
    found = corrected_t([100 * 27 / 30, 100 * 24 / 30], [100 * 26 / 30, 100 * 23 / 30])
    assert found.mean == pytest.approx(100 / 30)
    assert found.p == 1.0


def test_scores_of_different_folds_are_not_compared():
    with pytest.raises(ValueError, match="shorter"):
        corrected_t([1.0, 2.0, 3.0], [1.0, 2.0])


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []

"""Significance tests: Welch's t-test over runs, and the paired bootstrap over sentences."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence


def t_test(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Two-sided p-value of Welch's t-test for the difference of means; None with fewer than two runs."""
    from scipy.stats import ttest_ind

    if min(len(ours), len(theirs)) < 2:
        return None
    found = float(ttest_ind(ours, theirs, equal_var=False).pvalue)
    return None if math.isnan(found) else found


def paired_bootstrap(
    ours: Sequence[Sequence[Sequence[int]]],
    theirs: Sequence[Sequence[Sequence[int]]],
    figure: Callable[[Sequence[Sequence[int]]], float],
    *,
    samples: int = 1000,
    seed: int = 0,
) -> float:
    """The share of bootstrap samples in which ours, averaged over its runs, is not better; always above 0.

    Args:
        ours: for each run, the counts of each sentence from which the metric is computed.
        theirs: the same sentences of as many runs of the other system.
        figure: computes the metric from such counts; higher is better.
        samples: number of samples.
        seed: seed of the sampling.
    """
    assert len({len(run) for run in (*ours, *theirs)}) == 1
    rng = random.Random(seed)
    worse = 0
    for _ in range(samples):
        places = rng.choices(range(len(ours[0])), k=len(ours[0]))
        mine, other = (sum(figure([run[place] for place in places]) for run in some) / len(some) for some in (ours, theirs))
        worse += mine <= other
    return (worse + 1) / (samples + 1)

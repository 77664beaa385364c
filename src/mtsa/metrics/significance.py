"""Whether a difference is more than chance: Welch's t-test over runs, and paired resampling of sentences."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence


def t_test(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The chance (two-sided p) of such a difference of means among runs that are alike; None with fewer than two runs."""
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
    """The part of samples of the test sentences in which ours, in the mean of its runs, is not better; never quite 0.

    Args:
        ours: of each run, what the figure is made of, for each sentence.
        theirs: the same sentences of as many runs of the other system.
        figure: from such rows to a number; higher is better.
        samples: how many.
        seed: of their drawing.
    """
    assert len({len(run) for run in (*ours, *theirs)}) == 1
    rng = random.Random(seed)
    worse = 0
    for _ in range(samples):
        places = rng.choices(range(len(ours[0])), k=len(ours[0]))
        mine, other = (sum(figure([run[place] for place in places]) for run in some) / len(some) for some in (ours, theirs))
        worse += mine <= other
    return (worse + 1) / (samples + 1)

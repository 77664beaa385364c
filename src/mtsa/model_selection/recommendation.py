"""The recommendation of a comparison.

The rule: among the models that are not significantly worse than the best one and at most `MARGIN` points below it, choose the
cheapest. The cost of a model is the product of its training time, its prediction time and its size, so that no unit or weight
has to be chosen. The margin is needed because a difference that is not significant
can still be large if there are few examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mtsa.messages import counted
from mtsa.metrics.significance import LEVEL, Difference

MARGIN = 2.0  # points


@dataclass(frozen=True)
class Standing:
    """The results of one model over all folds; scores are in percent."""

    name: str
    mean: float
    low: float  # of the 95 % interval
    high: float
    train_seconds: float  # of a fold, on average
    texts_per_second: float
    bytes: int
    difference: Difference | None = None  # the best minus this one; None for the best
    p: float = 1.0  # of the difference, adjusted for the number of models

    @property
    def significant(self) -> bool:
        """Whether it is significantly worse than the best."""
        return self.difference is not None and self.p < LEVEL

    @property
    def cost(self) -> float:
        """Training time times prediction time times size."""
        return self.train_seconds / self.texts_per_second * self.bytes


@dataclass(frozen=True)
class Recommendation:
    """The recommended model, and why, in one sentence."""

    name: str
    sentence: str


def recommend(standings: Sequence[Standing], metric: str, examples: int, folds: int) -> Recommendation:
    """Apply the rule.

    Args:
        standings: best first.
        metric: name of the metric, for the sentence.
        examples: number of examples.
        folds: number of cross-validation folds.
    """
    best, others = standings[0], standings[1:]
    near = [one for one in standings if not one.significant and best.mean - one.mean <= MARGIN]
    chosen = min(near, key=lambda one: one.cost)
    data = f"{counted(examples, 'example')}, {folds} folds"
    if chosen is not best:
        count = f"cheapest of the {len(near)} models" if len(near) > 2 else "cheaper of the two models"
        sentence = (
            f"Use {chosen.name}: {metric} {chosen.mean:.1f}, not significantly lower than that of {best.name} "
            f"({best.mean:.1f}), the best model. It is the {count} within {MARGIN:g} points of the best ({data})."
        )
        return Recommendation(chosen.name, sentence)
    start = f"Use {best.name}: it has the highest {metric} ({best.mean:.1f})"
    similar = [one.name for one in others if not one.significant]
    if not similar:
        return Recommendation(best.name, f"{start}, and all other models score significantly lower ({data}).")
    costlier = [one.name for one in near if one is not best]
    cheaper = f", and it is cheaper than {_listed(costlier)}" if costlier else ""
    what = "the difference from" if len(similar) == 1 else "the differences from"
    verb = "is" if len(similar) == 1 else "are"
    return Recommendation(best.name, f"{start}{cheaper}, but {what} {_listed(similar)} {verb} not significant ({data}).")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

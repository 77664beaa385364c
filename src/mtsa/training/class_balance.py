"""Class imbalance: class weights, and a message about rare classes."""

from __future__ import annotations

from collections.abc import Sequence

from mtsa.messages import counted

_RARE = 0.2  # of the mean class size
_SHOWN = 3  # rare classes that the remark names


def balanced_weights(counts: Sequence[int]) -> list[float]:
    """Return the weight n / (classes * count) of each class, as with `class_weight="balanced"` of scikit-learn."""
    return [sum(counts) / (len(counts) * max(1, count)) for count in counts]


def rare_class_remarks(labels: Sequence[str], counts: Sequence[int], total: int | None = None) -> list[str]:
    """Return a message if a class has less than a fifth of the mean class size (10 % of all examples for two classes).

    Args:
        labels: the classes.
        counts: number of examples of each class.
        total: number of all examples; None: the sum of the counts.
    """
    total = sum(counts) if total is None else total
    limit = _RARE * sum(counts) / max(1, len(counts))
    rare = sorted((count, label) for label, count in zip(labels, counts, strict=False) if count < limit)
    if not rare:
        return []
    named = ", ".join(f'"{label}" ({counted(count, "example")})' for count, label in rare[:_SHOWN])
    more = f" and {len(rare) - _SHOWN:,} more" if len(rare) > _SHOWN else ""
    what = f"class {named} is" if len(rare) == 1 else f"classes {named}{more} are"
    choices = "consider --metric macro_f1 to weight classes equally in model selection, or --class-weights balanced"
    return [f"train: {what} rare among {total:,} examples; {choices}"]

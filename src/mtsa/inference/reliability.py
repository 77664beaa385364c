"""Plot of the reliability diagram."""

from __future__ import annotations

from pathlib import Path

from mtsa.files import replacing
from mtsa.metrics.calibration import BINS, Calibration


def draw_reliability(calibration: Calibration, path: Path) -> None:
    """Plot a reliability diagram as PNG: accuracy by confidence, and the number of predictions in each bin."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(4.5, 5.5), height_ratios=[3, 1], sharex=True, layout="constrained")
    left = [number / BINS for number in range(BINS)]
    filled = [one for one in calibration.bins if one.count]
    upper.bar(left, [one.accuracy for one in calibration.bins], width=1 / BINS, align="edge", color="C0", edgecolor="white")
    upper.plot([one.confidence for one in filled], [one.accuracy for one in filled], "o", color="black", markersize=3)
    upper.plot([0, 1], [0, 1], "--", color="gray", linewidth=1)
    upper.set_ylabel("accuracy")
    upper.set_ylim(0, 1)
    count = sum(one.count for one in calibration.bins)
    title = f"ECE {calibration.ece:.3f}, log loss {calibration.log_loss:.3f}, {count:,} examples"
    upper.set_title(title, fontsize=10)
    lower.bar(left, [one.count for one in calibration.bins], width=1 / BINS, align="edge", color="gray", edgecolor="white")
    lower.set_ylabel("examples")
    lower.set_xlabel("probability of the predicted class")
    lower.set_xlim(0, 1)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format="png")
    pyplot.close(figure)

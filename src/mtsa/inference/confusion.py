"""Plot of the confusion matrix."""

from __future__ import annotations

from pathlib import Path

from mtsa.files import replacing
from mtsa.metrics.classification import ClassificationScore


def draw_confusion(score: ClassificationScore, path: Path) -> None:
    """Plot a confusion matrix as PNG: rows are true classes, columns predicted ones, normalized by row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    count = len(score.labels)
    size = min(40.0, max(4.0, 0.55 * count + 2.0))
    figure, axes = pyplot.subplots(figsize=(size, size), layout="constrained")
    shares = [[cell / max(1, sum(row)) for cell in row] for row in score.confusion]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(count), score.labels, rotation=60, ha="right", parse_math=False)
    axes.set_yticks(range(count), score.labels, parse_math=False)
    axes.set_xlabel("predicted label")
    axes.set_ylabel("true label")
    axes.set_title(f"accuracy {score.accuracy:.3f}, macro-F1 {score.macro_f1:.3f}, {score.count:,} examples", fontsize=10)
    if count <= 25:
        for row in range(count):
            for column in range(count):
                shade = "white" if shares[row][column] > 0.5 else "black"
                axes.text(column, row, str(score.confusion[row][column]), ha="center", va="center", color=shade, fontsize=9)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format="png")
    pyplot.close(figure)

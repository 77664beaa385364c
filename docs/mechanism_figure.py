"""Draw docs/images/mechanism.png: how one head computes its output, with the shape of every tensor.

python docs/mechanism_figure.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

OUT = Path(__file__).parent / "images" / "mechanism.png"
WORDS = ["who", "painted", "the", "ceiling"]
BLUE, ORANGE, GREEN = "Blues", "Oranges", "Greens"


def grid(axes: Axes, values: np.ndarray, colours: str, *, left: float, top: float, cell: float = 0.34) -> tuple[float, float]:
    """A matrix of coloured cells; the coordinates of its right and lower edge."""
    colour = matplotlib.colormaps[colours]
    rows, columns = values.shape
    for row in range(rows):
        for column in range(columns):
            value = values[row, column]
            face = "white" if np.isnan(value) else colour(0.12 + 0.75 * value)
            corner = (left + column * cell, top - (row + 1) * cell)
            axes.add_patch(plt.Rectangle(corner, cell, cell, facecolor=face, edgecolor="#777777", linewidth=0.6))
    return left + columns * cell, top - rows * cell


def words(axes: Axes, *, left: float, top: float, cell: float = 0.34) -> None:
    """Labels of the rows of a matrix."""
    for row, word in enumerate(WORDS):
        axes.text(left - 0.08, top - (row + 0.5) * cell, word, ha="right", va="center", fontsize=8, color="#333333")


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An arrow between two points."""
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, linewidth=1.1, color="#444444"))


def main() -> None:
    """Draw and save the figure."""
    generator = np.random.default_rng(3)
    n, d, cell = len(WORDS), 5, 0.34
    allowed = np.triu(np.ones((n, n), bool), 1)
    scores, source = generator.random((n, n)), generator.random((n, d))
    pairs = np.where(allowed, scores, np.nan)
    figure, axes = plt.subplots(figsize=(10.4, 5.2))
    axes.set_xlim(0, 13.0)
    axes.set_ylim(-1.6, 4.8)
    axes.set_axis_off()
    axes.set_aspect("equal")

    axes.text(0.95, 4.55, "token2token scores", fontsize=10, weight="bold")
    axes.text(0.95, 4.2, r"$\sigma_t(\langle k_i, q_j\rangle \cdot \mathrm{scale})$ + mask of the head", fontsize=9)
    words(axes, left=0.95, top=3.9)
    right, bottom = grid(axes, pairs, BLUE, left=0.95, top=3.9)
    axes.text(
        0.95,
        bottom - 0.27,
        "[N, N]: a number for each pair\nrows: queries, columns: keys; white: masked",
        fontsize=8,
        va="top",
    )

    axes.text(0.95, 1.3, "source2token scores", fontsize=10, weight="bold")
    axes.text(0.95, 0.95, r"$s_i = \sigma_s(W_2\, \mathrm{act}(W_1 k_i))$", fontsize=9)
    words(axes, left=0.95, top=0.65)
    low_right, low = grid(axes, source, ORANGE, left=0.95, top=0.65)
    axes.text(0.95, low - 0.22, "[N, D]: a number for each feature\nof each token", fontsize=8, va="top")

    left, top = 6.0, 3.55
    weights = np.exp(2.2 * (np.nan_to_num(scores)[:, :, None] + source[None]))
    weights = np.where(allowed[:, :, None], weights, 0.0)
    weights = weights / np.maximum(weights.sum(1, keepdims=True), 1e-9)
    for feature in reversed(range(d)):
        shift = 0.3 * feature
        shown = np.where(allowed, weights[:, :, feature], np.nan)
        grid(axes, shown, GREEN, left=left + shift, top=top + 0.62 * shift, cell=cell)
    axes.text(left - 0.1, 4.55, "weights: softmax over the keys", fontsize=10, weight="bold")
    axes.text(
        left - 0.1, top - n * cell - 0.2, r"$w_{ijl} \propto \exp(\mathrm{token2token}_{ij} + s_{il})$", fontsize=9, va="top"
    )
    note = (
        "[N, N, D]: a weight for each feature of each pair.\n"
        "Never stored: the exponential of a sum is a product,\n"
        "so two matrix products give the result."
    )
    axes.text(left - 0.1, top - n * cell - 0.62, note, fontsize=8, va="top")
    arrow(axes, (right + 0.15, 3.2), (left - 0.25, 3.1))
    arrow(axes, (low_right + 0.15, 0.2), (left - 0.25, 2.15))

    out_left = 10.6
    mixed = np.einsum("jil,il->jl", weights, generator.random((n, d)))
    shown = np.where(allowed.any(1)[:, None], mixed, np.nan)
    axes.text(out_left - 0.1, 4.55, "output of the head", fontsize=10, weight="bold")
    axes.text(out_left - 0.1, 4.2, r"$o_{jl} = \sum_i w_{ijl}\, v_{il}$", fontsize=9)
    grid(axes, shown, "Purples", left=out_left, top=3.55)
    axes.text(
        out_left, 3.55 - n * cell - 0.2, "[N, D]\n(the last token has no\nlater one: its row is 0)", fontsize=8, va="top"
    )
    arrow(axes, (left + n * cell + 0.3 * (d - 1) + 0.2, 3.1), (out_left - 0.2, 3.1))
    note = (
        "Drawn for one backward head (N = 4 tokens, D = 5 features).\n"
        "Each head has a mask of its own; multi-head attention\n"
        "has the blue matrix only."
    )
    axes.text(5.9, -0.75, note, fontsize=8, color="#333333", va="center")
    figure.savefig(OUT, dpi=150, bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    main()

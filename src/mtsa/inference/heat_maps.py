"""Heat maps of attention weights, in the layout of the paper: heads and source2token of a sentence side by side.

Rows are queries (governors), columns are keys (dependents). Below them are the pooling weights and the contributions of
words as bars; a model without attention layers has the bars only.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtsa.errors import InputError
from mtsa.files import replacing
from mtsa.messages import counted

from .attention_maps import AttentionMaps, LayerMaps
from .attention_weights import relative_weights
from .fonts import find_fonts

ENDINGS = (".png", ".svg")
_WIDEST = 40  # words that a map shows with their names; more get numbers
_MASKED = "0.85"  # gray
_LINE = 15  # of these, words in a line of the list


def draw_heat_maps(
    maps: Sequence[AttentionMaps], path: Path, *, layer: int = -1, most: int = 4, feature: int | None = None
) -> str:
    """Draw one row per sentence: at most `most` heads of a layer, the source2token weights, and bars.

    The bars are the pooling weights, and the contributions of the words to the predicted logit or number. With `feature`, the
    weights of a head are those of that feature. Returns the characters that no installed font has.

    A cell shows a weight relative to a uniform distribution over the allowed keys, which is 1; a masked pair is gray.

    Raises:
        InputError: an unsupported file type, or a layer or feature that does not exist.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{path}: the file extension must be {' or '.join(ENDINGS)}, or .html")
    check_choice(maps[0], layer, feature)
    heads = shown_heads(maps[0].layers[layer].heads, most) if maps[0].layers else []
    sizes = [min(9.0, max(3.2, 0.3 * len(one.words) + 1.2)) if heads else 0.0 for one in maps]
    heights = [size + _below(one, bool(heads)) for one, size in zip(maps, sizes, strict=True)]
    width = max(sizes) * (len(heads) + 1) + 0.8 if heads else _bars_width(max(len(one.words) for one in maps))
    names, missing = find_fonts([*(word for one in maps for word in one.words), *(one.prediction for one in maps)])
    options: Any = {
        "font.family": names,
        "svg.fonttype": "none" if missing else "path",
    }  # as text, the reader's fonts may have them
    with matplotlib.rc_context(options), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the caller says so, once
        figure = pyplot.figure(figsize=(width, sum(heights)), layout="constrained")
        parts = figure.subfigures(len(maps), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, one, size in zip(parts, maps, sizes, strict=True):
            _sentence(part, one, layer, heads, size, feature)
        with replacing(path) as partial:
            figure.savefig(partial, dpi=120, format=path.suffix.lower()[1:])
        pyplot.close(figure)
    return missing


def check_choice(one: AttentionMaps, layer: int, feature: int | None) -> None:
    """Check that a layer and a feature exist; the last layer (-1) is always accepted.

    Raises:
        InputError: it does not exist.
    """
    count = len(one.layers)
    if layer != -1 and not -count <= layer < count:
        raise InputError(f"layer {layer + 1} does not exist; the model has {counted(count, 'attention layer')}")
    if count:
        check_feature(one.layers[layer], feature)
    elif feature is not None:
        raise InputError(f"feature {feature + 1} does not exist; the model has no attention layer")


def _below(one: AttentionMaps, headed: bool) -> float:
    """Inches for the bars of a sentence, below its maps if there are some."""
    if headed:
        return 2.6
    lines = 0.2 * -(-len(one.words) // _LINE) if len(one.words) > _WIDEST else 0.0
    return 0.6 + lines + 2.6 * ((one.pooling is not None) + (one.contributions is not None))


def _bars_width(count: int) -> float:
    return min(16.0, max(5.0, 0.5 * count + 1.5))


def shown_heads(masks: Sequence[str], most: int) -> list[int]:
    """Return the heads to show if there are more than `most`: the first of each mask in turn."""
    groups: dict[str, list[int]] = {}
    for number, mask in enumerate(masks):
        groups.setdefault(mask, []).append(number)
    taken: list[int] = []
    while len(taken) < min(most, len(masks)):
        for members in groups.values():
            if members and len(taken) < most:
                taken.append(members.pop(0))
    return sorted(taken)


def check_feature(layer: LayerMaps, feature: int | None) -> None:
    """Check that a feature exists.

    Raises:
        InputError: it does not exist.
    """
    count = layer.source2token.shape[-1]
    if feature is not None and not 0 <= feature < count:
        raise InputError(f"feature {feature + 1} does not exist; a head of this layer has {count} features")


def _sentence(figure: Any, one: AttentionMaps, layer: int, heads: list[int], size: float, feature: int | None) -> None:
    bars = [draw for draw, values in ((_bars, one.pooling), (_signed_bars, one.contributions)) if values is not None]
    letters = max(3.0, min(8.0, 26.0 * size / max(1, len(one.words)))) if heads and len(one.words) <= _WIDEST else 8.0
    upper = lower = figure
    if heads and bars:  # parts of their own, since bars over several columns would push the maps apart
        upper, lower = figure.subfigures(2, 1, height_ratios=[size + 0.6, 2.0 * len(bars)])
    if heads:
        _layer(upper, one, layer, heads, letters, feature)
    for row, draw in enumerate(bars, 1):
        draw(lower.add_subplot(len(bars), 1, row), one, letters)
    figure.suptitle(_title(one, layer), fontsize=10, parse_math=False)


def _layer(figure: Any, one: AttentionMaps, layer: int, heads: list[int], letters: float, feature: int | None) -> None:
    from matplotlib import colormaps

    found = one.layers[layer]
    grid = figure.add_gridspec(1, len(heads) + 1)
    relative = relative_weights(found.pairs(feature))  # [H, N, N]
    drawn, image = [], None
    top = max(2.0, float(relative[heads].max()))
    colors = colormaps["Blues"].with_extremes(bad=_MASKED)
    relative = relative.masked_fill(relative == 0, math.nan)
    for column, head in enumerate(heads):
        axes = figure.add_subplot(grid[0, column])
        image = axes.imshow(relative[head].tolist(), cmap=colors, vmin=0, vmax=top)
        _name_columns(axes, one.words, letters)
        names = _names(one.words) if column == 0 else []
        _name(axes.set_yticks, names, letters)
        told = "" if feature is None else f", feature {feature + 1}"
        axes.set_title(f"head {head + 1}: {found.heads[head]}{told}", fontsize=9)
        if column == 0:
            axes.set_ylabel("query", fontsize=8)
        axes.set_xlabel("key", fontsize=8)
        drawn.append(axes)
    figure.colorbar(image, ax=drawn, shrink=0.7).set_label("weight relative to uniform attention (gray: masked)", fontsize=8)
    own = found.words(feature) * len(one.words)  # [H, N]
    axes = figure.add_subplot(grid[0, len(heads)])
    image = axes.imshow(own[heads].T.tolist(), cmap="Oranges", vmin=0, vmax=max(2.0, float(own.max())), aspect="auto")
    axes.set_xticks(range(len(heads)), [str(head + 1) for head in heads], fontsize=8)
    _name(axes.set_yticks, _names(one.words), letters)
    axes.set_title("source2token", fontsize=9)
    axes.set_xlabel("head (mean over features)" if feature is None else f"head (feature {feature + 1})", fontsize=8)
    figure.colorbar(image, ax=axes, shrink=0.7)


def _title(one: AttentionMaps, layer: int) -> str:
    """The prediction, the layer, and the words if the axes have numbers."""
    count = len(one.layers)
    which = "" if count < 2 else f"layer {layer % count + 1} of {count}"
    prediction = one.prediction if len(one.prediction) <= 90 else f"{one.prediction[:87]}..."
    lines = [", ".join(part for part in (prediction, one.part, which) if part)]
    if len(one.words) > _WIDEST:
        numbered = [f"{place + 1} {word}" for place, word in enumerate(one.words)]
        lines += ["   ".join(numbered[start : start + _LINE]) for start in range(0, len(numbered), _LINE)]
    return "\n".join(filter(None, lines))


def _bars(axes: Any, one: AttentionMaps, letters: float) -> None:
    assert one.pooling is not None
    axes.bar(range(len(one.words)), one.pooling.mean(-1).tolist(), color="tab:blue")
    _name_columns(axes, one.words, letters)
    axes.set_ylabel("pooling weight (mean over features)", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _signed_bars(axes: Any, one: AttentionMaps, letters: float) -> None:
    assert one.contributions is not None
    values = one.contributions.tolist()
    bars = axes.bar(range(len(values)), values, color=["tab:blue" if value >= 0 else "tab:red" for value in values])
    if len(values) <= _WIDEST:
        axes.bar_label(bars, [f"{value:+z.2f}" for value in values], fontsize=min(7.0, letters), padding=2)
        axes.margins(y=0.18)
    axes.axhline(0, color="black", linewidth=0.8)
    _name_columns(axes, one.words, letters)
    axes.set_ylabel("contribution", fontsize=8)
    axes.set_title(
        f"contributions {sum(values):+z.2f}, bias {one.bias:+z.2f}, output {sum(values) + one.bias:+z.2f}", fontsize=8
    )
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _name_columns(axes: Any, words: list[str], letters: float) -> None:
    _name(axes.set_xticks, _names(words), letters, rotation=60, ha="right")


def _name(set_ticks: Any, names: list[str], letters: float, **how: Any) -> None:
    """Set the tick labels that are not empty."""
    places = [place for place, name in enumerate(names) if name]
    set_ticks(places, [names[place] for place in places], fontsize=letters, parse_math=False, **how)


def _names(words: list[str]) -> list[str]:
    """Tick labels: shortened words, or numbers if there are too many."""
    if len(words) > _WIDEST:
        return [str(place + 1) if place % 5 == 4 else "" for place in range(len(words))]
    return [word if len(word) <= 14 else f"{word[:13]}\N{HORIZONTAL ELLIPSIS}" for word in words]

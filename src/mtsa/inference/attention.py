"""What a model looked at: weights of each head and of the pooling, for a sentence or for both of a pair.

Letters: H heads, N tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtsa.attention.masks import Mask
from mtsa.attention.pooling import Source2Token
from mtsa.data.source import InputError
from mtsa.data.tokens import kept_places
from mtsa.encoders.tensorized import MtsaEncoder
from mtsa.files import replacing

from .predictor import Predictor, Text


@dataclass(frozen=True)
class AttentionMap:
    """One sentence: its words, what each head of the encoder saw, and what the pooling took."""

    words: list[str]
    heads: list[str]  # the mask of each head
    token2token: Tensor  # [H, N, N]: row: the word that looks
    pooling: Tensor | None  # [N]: mean weight over the features; None for other poolings
    label: str  # the answer, with its probability


def attention_maps(predictor: Predictor, text: Text) -> list[AttentionMap]:
    """Look inside the model while it reads a text, or a pair of them: a map of each.

    Raises:
        InputError: an encoder without tensorized attention, or a text without words.
    """
    (answer,) = predictor.predict([text])
    label = f"{answer.value:.3g}" if answer.label is None else f"{answer.label} ({answer.probabilities[answer.label]:.2f})"
    return [_map(predictor, side, label) for side in ([text] if isinstance(text, str) else text)]


@torch.no_grad()
def _map(predictor: Predictor, text: str, label: str) -> AttentionMap:
    model = predictor.model
    if not isinstance(model.encoder, MtsaEncoder):
        raise InputError(f'the encoder "{model.config.encoder}" has no attention to show; train one with --encoder mtsa')
    encoding = predictor.run.tokenizer.encode(text)
    if not encoding.ids:
        raise InputError("the text holds no words; give a sentence")
    read = kept_places(encoding, predictor.run.recipe.tokens.longest)
    ids = torch.tensor([[encoding.ids[place] for place in read]])
    keep = torch.ones_like(ids, dtype=torch.bool)
    vectors = model.words(ids, keep)
    explained = model.encoder.attention.explain(vectors, keep)
    pooled = model.pool.weights(explained.output, keep)[0].mean(-1) if isinstance(model.pool, Source2Token) else None
    spans = [encoding.offsets[place] for place in read]
    words = [text[start:stop] or encoding.tokens[place] for place, (start, stop) in zip(read, spans, strict=True)]
    return AttentionMap(
        words, [_short(mask) for mask in model.encoder.attention.masks], explained.token2token[0], pooled, label
    )


def _short(mask: Mask) -> str:
    return str(mask).replace("(include_self=False)", "").replace("()", "").lower()


def draw_attention(maps: Sequence[AttentionMap], path: Path, *, most: int = 4) -> None:
    """Draw the heads as heat maps, with the pooling as bars below; at most `most` heads, one sentence below the other.

    A cell shows a weight against the even share of its row: 1 where a word looks at all words it may look at alike.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    heads = min(most, len(maps[0].heads))
    sizes = [min(9.0, max(3.4, 0.32 * len(found.words) + 1.4)) for found in maps]
    figure = pyplot.figure(figsize=(max(sizes) * heads + 0.6, sum(sizes) + 2.0 * len(maps)), layout="constrained")
    parts = figure.subfigures(len(maps), 1, squeeze=False, height_ratios=[size + 2.0 for size in sizes])[:, 0]
    for part, found, size in zip(parts, maps, sizes, strict=True):
        _draw(part, found, size, heads)
    figure.suptitle(f"answer: {maps[0].label}", fontsize=10)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format="png")
    pyplot.close(figure)


def _draw(figure: Any, found: AttentionMap, size: float, heads: int) -> None:
    letters = max(3.0, min(8.0, 28.0 * size / len(found.words)))  # points that fit a cell
    rows = 1 if found.pooling is None else 2
    grid = figure.add_gridspec(rows, heads, height_ratios=[4, 1][:rows])
    places = range(len(found.words))
    relative = found.token2token * (found.token2token > 0).sum(-1, keepdim=True)  # [H, N, N]
    drawn = []
    for head in range(heads):
        axes = figure.add_subplot(grid[0, head])
        image = axes.imshow(relative[head].tolist(), cmap="Blues", vmin=0, vmax=max(2.0, float(relative.max())))
        axes.set_xticks(places, found.words, rotation=60, ha="right", fontsize=letters, parse_math=False)
        axes.set_yticks(places, found.words, fontsize=letters, parse_math=False)
        axes.set_title(f"head {head + 1}: {found.heads[head]}", fontsize=9)
        if head == 0:
            axes.set_ylabel("this word looks at ...", fontsize=8)
        drawn.append(axes)
    figure.colorbar(image, ax=drawn, shrink=0.7).set_label("times the even share", fontsize=8)
    if found.pooling is not None:
        axes = figure.add_subplot(grid[1, :])
        axes.bar(places, found.pooling.tolist(), color="tab:blue")
        axes.set_xticks(places, found.words, rotation=30, ha="right", fontsize=letters, parse_math=False)
        axes.set_ylabel("pooling", fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)

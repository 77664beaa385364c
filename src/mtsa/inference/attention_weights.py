"""Attention maps as JSON-serializable values, and the words and word pairs with the largest weights."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .attention_maps import AttentionMaps


def maps_to_json(one: AttentionMaps, *, features: bool = False, digits: int = 0) -> dict[str, Any]:
    """Return attention maps as JSON-serializable values.

    Args:
        one: the maps of one sentence.
        features: whether to return source2token and pooling weights of every feature instead of their mean, and the
            weights of word pieces if words have several.
        digits: significant digits of each weight; 0: all.
    """
    layers = []
    for layer in one.layers:
        source = layer.source2token if features else layer.source2token.mean(-1)
        weights: dict[str, Any] = {
            "heads": layer.heads,
            "token2token": _rounded(layer.token2token, digits),
            "source2token": _rounded(source, digits),
        }
        if features and layer.pieces is not None:
            weights["pieces"] = {
                "word": layer.pieces.word_of.tolist(),
                "token2token": _rounded(layer.pieces.token2token, digits),
                "source2token": _rounded(layer.pieces.source2token, digits),
            }
        layers.append(weights)
    pooling = None if one.pooling is None else _rounded(one.pooling if features else one.pooling.mean(-1), digits)
    predicates = {} if not one.predicates else {"predicate": one.predicate, "predicates": list(one.predicates)}
    found: dict[str, Any] = {
        "words": one.words,
        "prediction": one.prediction,
        **predicates,
        "layers": layers,
        "pooling": pooling,
    }
    if one.part:
        found["part"] = one.part
    if one.contributions is not None:
        found |= {"contributions": _rounded(one.contributions, digits), "bias": one.bias}
    return found


def _rounded(weights: Tensor, digits: int) -> list[Any]:
    if not digits:
        return weights.tolist()
    exact = weights.double()
    scale = 10.0 ** (digits - 1 - exact.abs().clamp(min=1e-300).log10().floor())
    return ((exact * scale).round() / scale).tolist()


def relative_weights(weights: Tensor) -> Tensor:
    """Return weights relative to a uniform distribution over the nonzero weights of their row."""
    return weights * (weights > 0).sum(-1, keepdim=True)


def strongest_pairs(
    one: AttentionMaps, count: int, *, layer: int = -1, feature: int | None = None
) -> list[tuple[float, str, str, str]]:
    """Return the pairs with the largest relative weights: (relative weight, head, query word, key word)."""
    found = one.layers[layer]
    relative = relative_weights(found.pairs(feature))
    alone = (found.token2token > 0).sum(-1) < 2  # rows with a single key are not informative
    relative = relative.masked_fill(alone[..., None], 0.0)
    values, places = relative.flatten().topk(min(count, relative.numel()))
    size = len(one.words)
    pairs = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        if value > 0:
            head, query, key = place // (size * size), place // size % size, place % size
            pairs.append((value, f"head {head + 1} ({found.heads[head]})", one.words[query], one.words[key]))
    return pairs


def strongest_words(one: AttentionMaps, count: int) -> list[tuple[float, str]]:
    """Return the words with the largest contributions of either sign, or the largest pooling weights: (value, word)."""
    values = one.contributions if one.contributions is not None else one.pooling
    if values is None:
        return []
    values = values if values.dim() == 1 else values.mean(-1)
    order = values.abs().argsort(descending=True, stable=True)[:count]
    return [(float(values[place]), one.words[place]) for place in order.tolist()]

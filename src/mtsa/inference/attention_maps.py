"""Attention maps: the weights of every attention layer and of the pooling of a model for one sentence.

Notation: H heads, N words (P tokens where words have several pieces), D width of a head, E width of the pooled vectors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtsa.errors import InputError
from mtsa.models.packed_batch import without_packing
from mtsa.models.sentence_pooling import MeanPool
from mtsa.models.tagger import Tagger
from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.masks import And, Mask
from mtsa.nn.pooling import Source2Token

from .contributions import is_additive, token_contributions


@dataclass(frozen=True)
class PieceWeights:
    """The weights of one attention layer for word pieces, where some words have several."""

    token2token: Tensor  # [H, P, P]
    source2token: Tensor  # [H, P, D]
    word_of: Tensor  # [P]: index of the word of each piece


@dataclass(frozen=True)
class LayerMaps:
    """The weights of one attention layer."""

    heads: list[str]  # the mask of each head
    token2token: Tensor  # [H, N, N]: row: query word; each row sums to 1 over the allowed key words, or is 0
    source2token: Tensor  # [H, N, D]: for each feature, sums to 1 over the words
    pieces: PieceWeights | None = None  # weights before merging word pieces, if a word has several

    def pairs(self, feature: int | None = None) -> Tensor:
        """Return token2token weights [H, N, N]; for one feature, multiplied by source2token weights and normalized."""
        if feature is None:
            return self.token2token
        exact = self.pieces or self
        product = exact.token2token.double() * exact.source2token[:, None, :, feature]  # small numbers times small numbers
        total = product.sum(-1, keepdim=True)
        weights = torch.where(total > 0, product / total, 0.0).to(self.token2token.dtype)
        return weights if self.pieces is None else merge_pairs(weights, self.pieces.word_of)

    def words(self, feature: int | None = None) -> Tensor:
        """Return source2token weights [H, N]: the mean over features, or those of one feature."""
        return self.source2token.mean(-1) if feature is None else self.source2token[..., feature]


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of a model for one sentence, with its prediction."""

    words: list[str]
    layers: list[LayerMaps]
    pooling: Tensor | None  # [N, E]: for each feature, sums to 1 over the words; None where nothing is pooled
    prediction: str
    predicate: int | None = None  # semantic roles: index of the predicate whose roles are shown
    predicates: tuple[int, ...] = ()  # semantic roles: indices of all predicates that were found, or of the one given
    contributions: Tensor | None = None  # [N]: what each word adds to the predicted logit or number, where that is a sum
    bias: float = 0.0  # the rest of that sum
    part: str = ""  # of a long text: which blocks these are
    of_blocks: bool = False  # of a long text: whether `words` are names of blocks


@torch.no_grad()
def record_attention(
    model: nn.Module,
    call: Callable[..., Any],
    inputs: dict[str, Tensor],
    words: list[str],
    prediction: str,
    *,
    output: int | None = None,
) -> AttentionMaps:
    """Return the weights of every attention layer and of the pooling of a model, recorded in one forward pass.

    With a linear head on mean pooling, also the contribution of each token to one output.

    Args:
        model: the model; its layers are recorded with hooks.
        call: the callable to run: the model, or a part of it.
        inputs: the arguments of the call, for one sentence.
        words: the tokens of the sentence.
        prediction: the prediction as text.
        output: index of the predicted class, 0 for a number; None for no contributions.

    Raises:
        InputError: the model has none of these.
    """
    model.eval()
    additive = output is not None and is_additive(model)
    with _recorded(model, additive) as calls, without_packing():
        call(**inputs)
    layers: list[LayerMaps] = []
    poolings: list[Tensor] = []  # of both texts, if they are one sequence
    means: list[tuple[Tensor, Tensor]] = []
    for module, arguments, given in calls:
        options = {name: value for name, value in given.items() if value is not None}  # such as cu_seqlens
        if isinstance(module, Source2Token):
            poolings.append(module.weights(*arguments, **options)[0])
        elif isinstance(module, MultiMaskAttention):
            weights = module.explain(*arguments, **options)
            names = [mask_name(mask) for mask in module.masks]
            layers.append(LayerMaps(names, weights.token2token[0], weights.source2token[0]))
        elif isinstance(module, MeanPool):
            means.append((arguments[0][0], arguments[1][0]))
        else:  # of replace_self_attention, whose module would import transformers
            swapped: Any = module
            names = [mask_name(mask) for mask in swapped.head_masks]
            tensors = [one for one in (*arguments, *options.values()) if isinstance(one, Tensor)]  # the input and its mask
            token2token, source2token = swapped.attention_weights(*tensors)
            layers.append(LayerMaps(names, token2token[0], source2token[0]))
    if not layers and not poolings and not means:
        hint = 'train a model with the encoder mtsa, or with model.pooling = "source2token"'
        if isinstance(model, Tagger):
            encoder = "stacked_mtsa" if model.config.pretrained is None else "residual_mtsa"
            hint = f"train a model with the encoder {encoder}"
        raise InputError(f"this model has no attention weights to explain; {hint}")
    pooling = torch.stack(poolings).mean(0) if poolings else None
    if not means:
        return AttentionMaps(words, layers, pooling, prediction)
    assert output is not None
    contributions, bias = token_contributions(model, means, output)
    return AttentionMaps(words, layers, pooling, prediction, contributions=contributions, bias=bias)


@contextmanager
def _recorded(model: nn.Module, additive: bool) -> Iterator[list[tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]]:
    """The calls of attention and pooling layers, in their order, with positional and keyword arguments."""
    calls: list[tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = []
    kinds = (MultiMaskAttention, Source2Token, MeanPool) if additive else (MultiMaskAttention, Source2Token)

    def note(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        calls.append((module, arguments, options))

    observed = [part for part in model.modules() if isinstance(part, kinds) or hasattr(part, "attention_weights")]
    hooks = [part.register_forward_pre_hook(note, with_kwargs=True) for part in observed]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def mask_name(mask: Mask) -> str:
    """Return the name of a mask for display."""
    if isinstance(mask, And):
        return f"{mask_name(mask.left)} & {mask_name(mask.right)}"
    return str(mask).replace("(include_self=False)", "").replace("()", "").lower()


def merge_words(maps: AttentionMaps, words: list[str], word_of: list[int]) -> AttentionMaps:
    """Merge maps of word pieces into maps of words; unchanged if every word is one piece.

    The weights of a word that is attended to are summed over its pieces, those of a word that attends are averaged, so that
    rows still sum to 1. Source2token weights, pooling weights and contributions are summed.

    Args:
        maps: the maps of the tokens.
        words: the words.
        word_of: the index of the word of each token.
    """
    if len(words) == len(word_of):
        return dataclasses.replace(maps, words=words)
    places = torch.tensor(word_of)
    layers = []
    for layer in maps.layers:
        pieces = PieceWeights(layer.token2token, layer.source2token, places)
        weights = (merge_pairs(layer.token2token, places), _summed(layer.source2token, places, 1))
        layers.append(LayerMaps(layer.heads, *weights, pieces=pieces))
    pooling, gains = (None if one is None else _summed(one, places, 0) for one in (maps.pooling, maps.contributions))
    return dataclasses.replace(maps, words=words, layers=layers, pooling=pooling, contributions=gains)


def merge_pairs(weights: Tensor, word_of: Tensor) -> Tensor:
    """Merge weights of pieces [H, P, P] into weights of words [H, N, N]: summed over keys, averaged over queries."""
    rows = _summed(weights, word_of, 2)  # [H, P, N]
    has_keys = (rows.sum(-1, keepdim=True) > 0).to(rows.dtype)
    return _summed(rows, word_of, 1) / _summed(has_keys, word_of, 1).clamp(min=1)


def _summed(weights: Tensor, word_of: Tensor, dim: int) -> Tensor:
    shape = list(weights.shape)
    shape[dim] = int(word_of.max()) + 1
    return weights.new_zeros(shape).index_add(dim, word_of, weights)


def empty_text_error() -> InputError:
    """Return the error for a text without words."""
    return InputError("the text contains no words; enter a sentence")

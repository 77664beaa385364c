"""Attention maps of a hierarchical model for a long text: the blocks first, then the tokens inside single blocks.

Notation: H heads, K blocks, R positions of a block, N tokens, D width of a head, C width of the pooled vectors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtsa.encoders.hierarchical import HierarchicalMtsaEncoder, Level
from mtsa.nn.attention import MultiMaskAttention

from .attention_maps import AttentionMaps, LayerMaps, mask_name, merge_words, record_attention

MOST_BLOCKS = 48  # in the map of blocks
_INSIDE = 3  # blocks whose tokens are shown
_NAMED = 4  # first words of a block in its name


@dataclass
class Recorder:
    """The inputs of the levels of a hierarchical encoder during one call, recorded with hooks."""

    encoder: HierarchicalMtsaEncoder
    inputs: dict[nn.Module, tuple[Any, ...]] = dataclasses.field(default_factory=dict)

    def __enter__(self) -> Recorder:
        parts = [self.encoder, self.encoder.top, *self.encoder.levels]
        self._hooks = [part.register_forward_pre_hook(self._note) for part in parts]
        return self

    def __exit__(self, *unused: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _note(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        self.inputs[module] = arguments

    def members(self) -> list[list[list[int]]]:
        """The tokens of each block of each level, lowest level first; the last entry has those of each block of the top."""
        _, keep, *ends = self.inputs[self.encoder]
        blocks = self.encoder.blocks(keep, ends[0] if ends else None)
        numbers = torch.arange(1, keep.shape[1] + 1)[None, :, None]
        found = [[[place - 1 for place in row if place] for row in blocks.split(numbers)[..., 0].tolist()]]
        for level in list(self.encoder.levels)[1:]:
            size = self.inputs[level][0].shape[1]
            below = found[-1]
            groups = (below[first : first + size] for first in range(0, len(below), size))
            found.append([[token for tokens in group for token in tokens] for group in groups])
        return found


@torch.no_grad()
def explain_text(
    model: Any,
    call: Callable[..., Any],
    inputs: dict[str, Tensor],
    tokens: list[str],
    prediction: str,
    *,
    words: list[str] | None = None,
    word_of: list[int] | None = None,
    output: int | None = None,
    words_only: bool = False,
) -> list[AttentionMaps]:
    """Return the attention maps of a text by words: one, or several for a model with a hierarchical encoder.

    Args:
        model, call, inputs, tokens, prediction, output: as in `record_attention`; `tokens` are its words.
        words: the words of the text; None: the tokens.
        word_of: the index of the word of each token.
        words_only: whether to return the words only: of the whole text without layers where they have pooling weights or
            contributions, and otherwise of the blocks whose inside is shown.

    Raises:
        InputError: the model has no attention weights.
    """
    words, word_of = words or tokens, word_of or list(range(len(tokens)))
    if not isinstance(model.encoder, HierarchicalMtsaEncoder):
        return [merge_words(record_attention(model, call, inputs, tokens, prediction, output=output), words, word_of)]
    with Recorder(model.encoder) as recorder:
        found = record_attention(model, call, inputs, tokens, prediction, output=output)
    if words_only and (found.pooling is not None or found.contributions is not None):
        return [merge_words(dataclasses.replace(found, layers=[]), words, word_of)]
    maps = document_maps(recorder, found, words, word_of)
    return [one for one in maps if not one.of_blocks] if words_only else maps


def document_maps(recorder: Recorder, whole: AttentionMaps, words: list[str], word_of: list[int]) -> list[AttentionMaps]:
    """Return the maps of the blocks of the top level, and those inside the blocks with the largest weights, level by level.

    Args:
        recorder: the recorded call, for one text.
        whole: prediction, pooling weights and contributions of the tokens; its layers are not used.
        words: the words of the text.
        word_of: the index of the word of each token.
    """
    encoder, members = recorder.encoder, recorder.members()
    weight = _importance(whole, len(word_of))
    shares = [torch.tensor([float(weight[tokens].sum()) for tokens in level]) for level in members]
    names = [[_name(number, tokens, words, word_of) for number, tokens in enumerate(level, 1)] for level in members]
    found = [] if len(members[-1]) == 1 else [_top(recorder, whole, members[-1], names[-1], shares[-1])]
    inside = range(len(members[-1]))  # the blocks of the present level whose inside may be shown
    for number in range(len(members) - 1, -1, -1):
        level = encoder.levels[number]
        assert isinstance(level, Level)
        x, real = recorder.inputs[level][:2]
        order = shares[number][list(inside)].argsort(descending=True, stable=True).tolist()
        for k in sorted(inside[place] for place in order[: _INSIDE if number == 0 else 1]):
            count = int(real[k].sum())
            layer = _layer(level.attention, x[k, :count])
            title = f"inside block {names[number][k]}" if len(members[0]) > 1 else ""
            tokens = members[0][k]
            if number == 0:
                one = _part(whole, title, [""] * count, layer, [[token] for token in tokens])
                local = [word_of[token] - word_of[tokens[0]] for token in tokens]
                found.append(merge_words(one, words[word_of[tokens[0]] : word_of[tokens[-1]] + 1], local))
            else:
                inside = range(k * x.shape[1], k * x.shape[1] + count)
                below = slice(inside.start, inside.stop)
                found.append(_part(whole, title, names[number - 1][below], layer, members[number - 1][below], of_blocks=True))
    return found


def _top(
    recorder: Recorder, whole: AttentionMaps, members: Sequence[Sequence[int]], names: Sequence[str], shares: Tensor
) -> AttentionMaps:
    """The map of the blocks of the top level, at most `MOST_BLOCKS` of them, in their order."""
    top = recorder.encoder.top
    shown = sorted(shares.argsort(descending=True, stable=True)[:MOST_BLOCKS].tolist())
    title = f"{len(shown)} blocks of the text"
    if len(shown) < len(members):
        title = f"the {len(shown)} of {len(members)} blocks with the largest weights"
    layer = _subset(_layer(top, recorder.inputs[top][0][0]), shown)
    return _part(whole, title, [names[k] for k in shown], layer, [members[k] for k in shown], of_blocks=True)


def _importance(whole: AttentionMaps, count: int) -> Tensor:
    """How much each token matters for the prediction: its contribution, its pooling weight, or the same for all."""
    if whole.contributions is not None:
        return whole.contributions.abs()
    return torch.full((count,), 1.0 / count) if whole.pooling is None else whole.pooling.mean(-1)


def _name(number: int, tokens: Sequence[int], words: list[str], word_of: list[int]) -> str:
    """A block by its number and its first words."""
    first, last = word_of[tokens[0]], word_of[tokens[-1]]
    end = "\N{HORIZONTAL ELLIPSIS}" if last - first >= _NAMED else ""
    return f"{number}: {' '.join(words[first : min(last + 1, first + _NAMED)])}{end}"


def _layer(attention: MultiMaskAttention, x: Tensor) -> LayerMaps:
    """The weights of a layer for one sequence [N, E] without padding."""
    found = attention.explain(x[None])
    return LayerMaps([mask_name(mask) for mask in attention.masks], found.token2token[0], found.source2token[0])


def _subset(layer: LayerMaps, shown: Sequence[int]) -> LayerMaps:
    """The weights of some positions, normalized again."""
    pairs, source = layer.token2token[:, shown][:, :, shown], layer.source2token[:, shown]
    total = pairs.sum(-1, keepdim=True)
    pairs = torch.where(total > 0, pairs / total, 0.0)
    return LayerMaps(layer.heads, pairs, source / source.sum(1, keepdim=True).clamp(min=1e-30))


def _part(
    whole: AttentionMaps,
    title: str,
    names: list[str],
    layer: LayerMaps,
    members: Sequence[Sequence[int]],
    *,
    of_blocks: bool = False,
) -> AttentionMaps:
    """The maps of some blocks or tokens, with the sums of the weights and contributions of their tokens."""

    def summed(values: Tensor | None) -> Tensor | None:
        return None if values is None else torch.stack([values[list(tokens)].sum(0) for tokens in members])

    pooling, contributions = summed(whole.pooling), summed(whole.contributions)
    rest = whole.bias
    if contributions is not None and whole.contributions is not None:
        rest += float(whole.contributions.sum() - contributions.sum())
    return dataclasses.replace(
        whole,
        words=names,
        layers=[layer],
        pooling=pooling,
        contributions=contributions,
        bias=rest,
        part=title,
        of_blocks=of_blocks,
    )

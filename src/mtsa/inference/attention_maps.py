"""Attention maps: the weights of every attention layer of a model, and of its pooling, while it reads a sentence.

Letters: H heads, N tokens, D width of a head, E width of the pooled vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtsa.errors import InputError
from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.masks import Mask
from mtsa.nn.pooling import Source2Token


@dataclass(frozen=True)
class LayerMaps:
    """The weights of one attention layer."""

    heads: list[str]  # the mask of each head
    token2token: Tensor  # [H, N, N]: row: the word that looks; each row sums to 1 over the words it may look at, or is 0
    source2token: Tensor  # [H, N, D]: for each feature, sums to 1 over the words

    def pairs(self, feature: int | None = None) -> Tensor:
        """Where each word looks, [H, N, N]: in all, or for one feature: both kinds of weights multiplied, and shared out."""
        if feature is None:
            return self.token2token
        product = self.token2token.double() * self.source2token[:, None, :, feature]  # small numbers times small numbers
        total = product.sum(-1, keepdim=True)
        return torch.where(total > 0, product / total, 0.0).to(self.token2token.dtype)

    def words(self, feature: int | None = None) -> Tensor:
        """What a head takes from each word by itself, [H, N]: in the mean of the features, or for one."""
        return self.source2token.mean(-1) if feature is None else self.source2token[..., feature]


@dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of a model for one sentence, with its prediction."""

    words: list[str]
    layers: list[LayerMaps]
    pooling: Tensor | None  # [N, E]: for each feature, sums to 1 over the words; None where nothing is pooled
    answer: str  # the prediction
    predicate: int | None = None  # semantic roles: index of the predicate whose roles are shown
    predicates: tuple[int, ...] = ()  # semantic roles: indices of all predicates that were found, or of the one given


@torch.no_grad()
def record_attention(
    model: nn.Module, call: Callable[..., Any], inputs: dict[str, Tensor], words: list[str], prediction: str
) -> AttentionMaps:
    """The weights of every attention layer of a model, and of its pooling, during one call.

    Args:
        model: the model; its layers are observed.
        call: what is called: the model, or a part of it.
        inputs: the arguments of the call, for one sentence.
        words: the tokens of the sentence.
        prediction: what the model predicts, as text.

    Raises:
        InputError: a model without tensorized attention.
    """
    model.eval()
    with _recorded(model) as calls:
        call(**inputs)
    layers: list[LayerMaps] = []
    pooling = None
    for module, arguments, options in calls:
        if isinstance(module, Source2Token):
            pooling = module.weights(*arguments, **options)[0]
        elif isinstance(module, MultiMaskAttention):
            found = module.explain(*arguments, **options)
            names = [_mask_name(mask) for mask in module.masks]
            layers.append(LayerMaps(names, found.token2token[0], found.source2token[0]))
        else:  # of replace_self_attention, whose module would import transformers
            swapped: Any = module
            names = [_mask_name(mask) for mask in swapped.head_masks]
            tensors = [one for one in (*arguments, *options.values()) if isinstance(one, Tensor)]  # the input and its mask
            token2token, source2token = swapped.attention_weights(*tensors)
            layers.append(LayerMaps(names, token2token[0], source2token[0]))
    if not layers:
        raise InputError("the encoder of this model has no tensorized attention to show; train one with mtsa in its name")
    return AttentionMaps(words, layers, pooling, prediction)


@contextmanager
def _recorded(model: nn.Module) -> Iterator[list[tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]]:
    """The calls of attention and pooling layers, in their order, with positional and keyword arguments."""
    calls: list[tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = []
    kinds = (MultiMaskAttention, Source2Token)

    def note(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        calls.append((module, arguments, options))

    observed = [part for part in model.modules() if isinstance(part, kinds) or hasattr(part, "attention_weights")]
    hooks = [part.register_forward_pre_hook(note, with_kwargs=True) for part in observed]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _mask_name(mask: Mask) -> str:
    return str(mask).replace("(include_self=False)", "").replace("()", "").lower()


def empty_text_error() -> InputError:
    """The error for a text without words."""
    return InputError("the text has no words; give a sentence")

"""Multi-mask tensorized self-attention as a layer, which maps sequences to sequences of the same length.

Notation: B batch, N tokens, E embed_dim, H heads, I score width (the paper's d_i), D head width (d_h), T = B * N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import fallback, reference, score_functions
from .activations import Activation, activation_function
from .backends import choose
from .cache import AttentionCache
from .deprecation import warn_deprecated
from .dropout import dropout as drop
from .explanation import Explanation
from .functional import describe, run
from .linear import HeadLinear, glorot_linear, reset_glorot
from .mask_specs import HeadMasks, half_and_half, rules_for
from .masks import Mask
from .padding import check_attention_mask, from_key_padding_mask
from .positions import FROM_ZERO, Positions, check_cu_seqlens
from .score_functions import ScoreActivation
from .spec import AttentionSpec, check_probability, check_sequence, check_size

FORMS = ("paper", "released")
_ADAPTER_HINT = "to use the layer as nn.MultiheadAttention, wrap it with mtsa.interop.as_multihead_attention(layer)"


class MultiMaskAttention(nn.Module):
    """Multi-mask tensorized self-attention: `layer(x, attention_mask)` maps [B, N, embed_dim] to [B, N, num_heads * head_dim].

    The layer has two forms. `paper` is Algorithm 1: q, k and v are linear in x, the source2token scores come from k, and an
    output projection combines the heads. `released` is the authors' code: v = act(W x + b); q, k and the scores come from v
    within each head; a gate interpolates between v and the attended values. Without an output projection, this form needs
    fewer operations.

    Args:
        embed_dim: width of x.
        num_heads: number of heads.
        form: "paper" or "released".
        head_dim: width of each head; default: embed_dim / num_heads.
        score_dim: width of q and k, and of the hidden source2token layer; default: head_dim.
        masks: None for half of the heads forward and half backward; or one mask, a list of them, or a string such as
            "forward*4, backward*4" or "causal".
        bias: whether q, k, v and the output projection of the `paper` form have biases.
        activation: activation of the dense layers: "relu", "elu", "tanh", "gelu", "silu" or a callable.
        score_activation: sigma_t, activation of the token2token scores: "logsigmoid", "identity" or a callable.
        source_activation: sigma_s, activation of the source2token scores: "identity", "logsigmoid" or a callable.
        source_layers: number of layers that compute the source2token scores: 2 (with `activation` in between) or 1.
        dropout: dropout probability on the input of every dense layer, or a pair (dense, attention) that adds dropout on the
            attention factors (appendix A.3).
        device: device of the parameters.
        dtype: dtype of the parameters.

    Set the attribute `backend` (default "auto") to select a backend by name.

    Raises:
        ValueError: invalid value, unknown name, or unsupported combination.
        TypeError: a value of the wrong type.
    """

    batch_first = None  # nn.TransformerEncoderLayer then calls `forward`, which names the adapter

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        form: str = "paper",
        head_dim: int | None = None,
        score_dim: int | None = None,
        masks: Mask | Sequence[Mask] | str | None = None,
        bias: bool = False,
        activation: Activation = "relu",
        score_activation: ScoreActivation = "logsigmoid",
        source_activation: ScoreActivation = "identity",
        source_layers: int = 2,
        dropout: float | tuple[float, float] = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        scales: tuple[ScoreActivation, ScoreActivation] | None = None,
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads = check_size(embed_dim, "embed_dim"), check_size(num_heads, "num_heads")
        if form not in FORMS:
            raise ValueError(f'unknown form "{form}"; it must be "paper" or "released"')
        if form == "released" and bias:
            raise ValueError('bias=True requires form="paper"; the released form has a fixed set of biases')
        if scales is not None:
            warn_deprecated(
                "scales= is deprecated and will be removed in version 0.4; use score_activation= and source_activation="
            )
            score_activation, source_activation = _pair(scales, "scales", '("logsigmoid", "identity")')
        if source_layers not in (1, 2):
            raise ValueError(f"source_layers ({source_layers}) must be 1 or 2")
        self.form = form
        if head_dim is None and embed_dim % num_heads:
            raise ValueError(f"num_heads ({num_heads}) must divide embed_dim ({embed_dim}); or pass head_dim")
        self.head_dim = embed_dim // num_heads if head_dim is None else check_size(head_dim, "head_dim")
        self.score_dim = check_size(score_dim, "score_dim") if score_dim is not None else self.head_dim
        self.masks = half_and_half(num_heads) if masks is None else masks
        self.activation = activation
        activation_function(activation)
        score_functions.score_function(score_activation, "score_activation")
        score_functions.score_function(source_activation, "source_activation")
        self.score_activation, self.source_activation = score_activation, source_activation
        rates = (dropout, 0.0) if isinstance(dropout, int | float) else dropout
        dense, attention = _pair(rates, "dropout", "(dense, attention), such as (0.1, 0.0), or one number")
        self.dense_dropout = check_probability(dense, "dropout")
        self.attention_dropout = check_probability(attention, "dropout[1]")
        self.backend = "auto"
        self._make_layers(bias, source_layers, device=device, dtype=dtype)

    def _make_layers(self, bias: bool, source_layers: int, **factory: Any) -> None:
        H, D, I = self.num_heads, self.head_dim, self.score_dim
        self.query: nn.Linear | HeadLinear
        self.key: nn.Linear | HeadLinear
        if self.form == "paper":
            self.query = glorot_linear(self.embed_dim, H * I, bias=bias, **factory)
            self.key = glorot_linear(self.embed_dim, H * I, bias=bias, **factory)
            self.value = glorot_linear(self.embed_dim, H * D, bias=bias, **factory)
            self.output = glorot_linear(H * D, H * D, bias=bias, **factory)
            source = I
        else:
            self.value = glorot_linear(self.embed_dim, H * D, bias=True, **factory)
            self.query = HeadLinear(H, D, I, bias=False, **factory)
            self.key = HeadLinear(H, D, I, bias=False, **factory)
            self.gate = HeadLinear(H, 2 * D, D, bias=True, **factory)
            source = D
        two = source_layers == 2
        self.source_hidden = HeadLinear(H, source, I, bias=True, **factory) if two else None
        self.source_score = HeadLinear(H, I if two else source, D, bias=True, **factory)

    def reset_parameters(self) -> None:
        """Initialize all parameters: Glorot weights, zero biases."""
        for layer in self.children():
            if isinstance(layer, nn.Linear):
                reset_glorot(layer)
            elif isinstance(layer, HeadLinear):
                layer.reset_parameters()

    @property
    def masks(self) -> tuple[Mask, ...]:
        """The mask of each head. Assign one mask, a list with one per head, or a string such as "forward*4, backward*4"."""
        return self._head_masks.rules

    @masks.setter
    def masks(self, masks: Mask | Sequence[Mask] | str) -> None:
        self._head_masks = HeadMasks(rules_for(masks, self.num_heads), None)
        modules = dict.fromkeys(rule for rule in self._head_masks.rules if isinstance(rule, nn.Module))
        self.mask_modules = nn.ModuleList(modules) if modules else None  # so that their parameters are trained and saved

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "masks":  # nn.Module would register a mask that is a module instead of calling the setter
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def out_dim(self) -> int:
        """Width of the output."""
        return self.num_heads * self.head_dim

    def forward(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        *more: Any,
        context: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        cache: AttentionCache | None = None,
        keep: Tensor | None = None,
        **others: Any,
    ) -> Tensor:
        """Attend within each sequence, or from x to a context, or from x to x and the tokens in a cache.

        Args:
            x: [B, N, embed_dim]; with cu_seqlens [T, embed_dim], the tokens of all sequences.
            attention_mask: bool or integer [B, N], 1 = token, 0 = padding; None for no padding. The output at padded positions
                is 0. With a context it is the mask of the context, [B, M]. Note that the mask of `nn.MultiheadAttention`
                has the opposite meaning: pass it as key_padding_mask.
            context: sequences [B, M, embed_dim] to attend to instead of x.
            key_padding_mask: padding mask as in `nn.MultiheadAttention`: True = padding.
            cu_seqlens: int32 or int64 [S + 1] for packed input, which has no padding: the cumulative lengths of S sequences,
                from 0 to the total T. The output is [T, num_heads * head_dim].
            cache: a cache from `new_cache()`. x continues the sequences in the cache and is appended to it; the output is that
                of the new tokens. Requires `torch.no_grad()` or `torch.inference_mode()`.
            keep: deprecated name of attention_mask.
            more, others: raise an error that refers to `mtsa.interop.as_multihead_attention`.

        Raises:
            TypeError, ValueError: if x or a mask is of the wrong type, dtype or shape.
            RuntimeError: a cache where gradients are computed.
        """
        if more or others:
            what = (
                f"unexpected arguments {', '.join(others)}"
                if others
                else f"{len(more) + 2} positional arguments, expected at most 2 (x, attention_mask)"
            )
            raise TypeError(f"MultiMaskAttention got {what}; {_ADAPTER_HINT}")
        if cu_seqlens is not None:
            return self._attend_packed(x, cu_seqlens, attention_mask, key_padding_mask, keep, context, cache)
        mask = self._check(x, attention_mask, context, key_padding_mask, keep)
        if cache is not None:
            return self._attend_cached(x, mask, context, cache)
        if mask is not None and torch.is_grad_enabled():  # so that no value stored there, NaN included, reaches a gradient
            x, context = (_zero_padding(x, mask), None) if context is None else (x, _zero_padding(context, mask))
        q, k, v, s, x_values = self._project(x, context)
        out = self._combine(self._attend(q, k, v, s, mask, skip=mask is not None and context is None), x_values)
        if mask is None or context is not None or self._zero_stays_zero():
            return out
        return _zero_padding(out, mask)

    def new_cache(self, capacity: int = 0) -> AttentionCache:
        """Return an empty cache for incremental decoding, `layer(x, cache=cache)`.

        Args:
            capacity: initial capacity in tokens; it grows as needed.

        Raises:
            ValueError: a mask attends to later tokens.
        """
        return AttentionCache(self._head_masks, capacity)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return (q, k, v, s), each [B, H, N, .]: the inputs of `tensorized_attention`, with s after its activation."""
        return self._project(x, None)[:4]

    def combine(self, heads: Tensor, v: Tensor) -> Tensor:
        """Return the output [B, N, H * D] from the attended heads [B, H, N, D] and the values v of `project`."""
        return self._combine(heads, v)

    def explain(
        self,
        x: Tensor,
        attention_mask: Tensor | None = None,
        *,
        full_weights: bool = False,
        key_padding_mask: Tensor | None = None,
        keep: Tensor | None = None,
        tensor: bool | None = None,
    ) -> Explanation:
        """Return the output, bit-identical to `layer(x, attention_mask)` without dropout, and the attention weights.

        Args:
            x: [B, N, embed_dim].
            attention_mask: as in `forward`.
            full_weights: whether to return the weight of every feature of every pair, [B, H, N, N, D].
            key_padding_mask: as in `forward`.
            keep: deprecated name of attention_mask.
            tensor: deprecated name of full_weights.

        Raises:
            RuntimeError: in training mode with dropout, because weights and output would differ.
            TypeError, ValueError: as `forward`.
        """
        if tensor is not None:
            warn_deprecated("tensor= is deprecated and will be removed in version 0.4; use full_weights=")
            full_weights = tensor
        if self.training and (self.dense_dropout > 0 or self.attention_dropout > 0):
            raise RuntimeError("explain() requires a layer without dropout; call layer.eval() first")
        mask = self._check(x, attention_mask, None, key_padding_mask, keep)
        with fallback.count_fallbacks() as count:
            output = self(x, mask)
        q, k, v, s = self.project(_zero_padding(x, mask))
        spec = self._spec(q, mask, skip=mask is not None)
        q, k, v, s = spec.prepare_inputs(q, k, v, s)
        return Explanation(
            output=output,
            token2token=reference.token_weights(spec, q, k),
            source2token=reference.source_weights(spec, s),
            full_weights=reference.weight_tensor(spec, q, k, s) if full_weights else None,
            backend=describe(choose(spec, self.backend, device=q.device.type, keys=k.shape[2], tensors=(q, v))),
            fallback_entries=count.entries,
        )

    def extra_repr(self) -> str:
        masks = ", ".join(f"{last - first} x {rule}" for rule, first, last in self._head_masks.runs())
        options = f"activation={self.activation}, dropout=({self.dense_dropout}, {self.attention_dropout})"
        return f"{self.embed_dim} -> {self.out_dim}, {self.num_heads} heads, form={self.form}, masks=[{masks}], {options}"

    # Steps

    def _project(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """(q, k, v, s) and the values of x itself, which the gate of the released form mixes in."""
        source = x if context is None else context
        if self.form == "paper":
            q = self._split(self.query(self._drop(x)), self.score_dim)
            keys = self.key(self._drop(source))
            k, rows = self._split(keys, self.score_dim), keys.reshape(-1, self.num_heads, self.score_dim).transpose(0, 1)
            x_values = v = self._split(self.value(self._drop(source)), self.head_dim)
        else:
            x_values = self._split(self._act(self.value(self._drop(x))), self.head_dim)
            v = x_values if context is None else self._split(self._act(self.value(self._drop(context))), self.head_dim)
            rows = _heads_first(v)  # [H, T, D]
            q = _heads_second(self.query(self._drop(rows if context is None else _heads_first(x_values))), x_values)
            k = _heads_second(self.key(self._drop(rows)), v)
        if self.source_hidden is not None:  # f^s of the paper: two layers in each head
            rows = self._act(self.source_hidden(self._drop(rows)))
        scores = _heads_second(self.source_score(self._drop(rows)), k)
        if self.source_activation != "identity":
            function = score_functions.score_function(self.source_activation, "source_activation")
            scores = score_functions.apply(function, scores)
        return q, k, v, scores, x_values

    def _attend_packed(self, x: Tensor, cu_seqlens: Tensor, *others: Any) -> Tensor:
        """Packed sequences: x is [T, embed_dim]."""
        if any(other is not None for other in others):
            raise TypeError("cu_seqlens cannot be combined with attention_mask, key_padding_mask, context or cache")
        if isinstance(x, Tensor) and x.dim() != 2:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; with cu_seqlens it must be [T, embed_dim={self.embed_dim}], the "
                "concatenated tokens of all sequences"
            )
        x = x[None] if isinstance(x, Tensor) else x
        self._check(x, None, None, None, None)
        q, k, v, s, values = self._project(x, None)
        positions = Positions(check_cu_seqlens(cu_seqlens, x.shape[1], x.device))
        return self._combine(self._attend(q, k, v, s, None, positions=positions), values)[0]

    def _attend_cached(self, x: Tensor, mask: Tensor | None, context: Tensor | None, cache: AttentionCache) -> Tensor:
        """New tokens, which attend to those in the cache too."""
        if context is not None:
            raise TypeError("a cache is for self-attention and cannot be combined with a context")
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a cache does not support gradients; call the layer within torch.no_grad() or torch.inference_mode()"
            )
        if cache.masks is not self._head_masks:
            raise ValueError("the cache belongs to another layer, or the masks were changed; use layer.new_cache()")
        q, k, v, s, values = self._project(x, None)
        keys = cache.append(k, v, s, mask)
        positions = Positions(None, keys.query_offset)
        attended = self._attend(q, keys.k, keys.v, keys.s, keys.attention_mask, positions=positions)
        return _zero_padding(self._combine(attended, values), mask)

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        s: Tensor,
        mask: Tensor | None,
        *,
        skip: bool = False,
        positions: Positions = FROM_ZERO,
    ) -> Tensor:
        if not q.dtype == k.dtype == v.dtype == s.dtype:  # autocast rounds some layers and not others
            widest = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.promote_types(v.dtype, s.dtype))
            q, k, v, s = (tensor.to(widest) for tensor in (q, k, v, s))
        spec = self._spec(q, mask, skip=skip, positions=positions)
        choice = choose(spec, self.backend, device=q.device.type, keys=k.shape[2], tensors=(q, v))
        return run(choice, spec, q, k, v, s)

    def _spec(self, q: Tensor, mask: Tensor | None, *, skip: bool, positions: Positions = FROM_ZERO) -> AttentionSpec:
        rate = self.attention_dropout if self.training else 0.0
        scale = 1.0 / math.sqrt(self.score_dim)
        return AttentionSpec(self._head_masks, mask, self.score_activation, scale, rate, q.dtype, skip, positions)

    def _combine(self, heads: Tensor, v: Tensor) -> Tensor:
        B, _, N, _ = heads.shape
        if self.form == "paper":
            joined: Tensor = self.output(self._drop(heads.transpose(1, 2).reshape(B, N, self.out_dim)))
            return joined
        rows, values = _heads_first(heads), _heads_first(v)  # [H, T, D]
        parts = self._drop(values), self._drop(rows)
        gate = torch.sigmoid(self.gate(*parts) if _untouched(self.gate, HeadLinear) else self.gate(torch.cat(parts, -1)))
        mixed = torch.lerp(rows, values, gate)
        return mixed.transpose(0, 1).reshape(B, N, self.out_dim)

    def _act(self, x: Tensor) -> Tensor:
        return activation_function(self.activation)(x)

    def _zero_stays_zero(self) -> bool:
        """Whether padded positions are 0 already: the attention gives 0 there, and the output projection has no bias."""
        return self.form == "paper" and _untouched(self.output, nn.Linear) and self.output.bias is None

    def _drop(self, x: Tensor) -> Tensor:
        """Dropout of a dense layer's input, with new factors in each call."""
        return drop(x, self.dense_dropout, self.training)

    def _split(self, x: Tensor, width: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.num_heads, width).transpose(1, 2)  # [B, H, N, width]

    def _check(self, x: Tensor, attention_mask: Any, context: Any, key_padding_mask: Any, keep: Any) -> Tensor | None:
        """Check the arguments of `forward`; the padding mask as bool."""
        weight = getattr(self.value, "weight", None)
        check_sequence(x, "x", self.embed_dim, weight)
        if context is not None:
            check_sequence(context, "context", self.embed_dim, weight)
            if context.shape[0] != x.shape[0]:
                raise ValueError(f"context has batch size {context.shape[0]}, but x has {x.shape[0]}")
        if keep is not None:
            warn_deprecated("keep= is deprecated and will be removed in version 0.4; use attention_mask=")
        if sum(given is not None for given in (attention_mask, key_padding_mask, keep)) > 1:
            raise TypeError("pass either attention_mask (1 = token) or key_padding_mask (True = padding), not both")
        if key_padding_mask is not None:
            attention_mask = from_key_padding_mask(key_padding_mask)
        mask = keep if attention_mask is None else attention_mask
        if mask is None:
            return None
        return check_attention_mask(mask, x.shape[0], (x if context is None else context).shape[1], x.device)


def _untouched(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a sub-module is the one that was made here, without hooks and without a `forward` of the instance."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return type(module) is kind and "forward" not in vars(module) and not any(hooks)


def _zero_padding(out: Tensor, mask: Tensor | None) -> Tensor:
    return out if mask is None else out.masked_fill(~mask[:, :, None], 0.0)


def _heads_first(x: Tensor) -> Tensor:
    """[B, H, N, D] -> [H, T, D], without a copy when x came from [B, N, H, D]."""
    B, H, N, D = x.shape
    return x.transpose(1, 2).reshape(B * N, H, D).transpose(0, 1)


def _heads_second(x: Tensor, like: Tensor) -> Tensor:
    """[H, T, D] -> [B, H, N, D], with B and N as in `like`."""
    return x.reshape(x.shape[0], like.shape[0], like.shape[2], x.shape[2]).transpose(0, 1)


def _pair(value: Any, name: str, example: str) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} is {value!r}; it must be a pair {example}")
    return value[0], value[1]

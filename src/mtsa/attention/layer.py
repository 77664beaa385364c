"""Multi-mask tensorized self-attention as a layer: sequences in, sequences of the same length out.

Letters: B batch, N tokens, E embed_dim, H heads, I score width (the paper's d_i), D head width (d_h), T = B * N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from . import problem as problems
from . import reference, rescue
from .activations import activation_function
from .dropout import drop
from .function import explain_backend, tensorized_attention
from .head_linear import HeadLinear, glorot_linear
from .mask_choice import HeadMasks, rules_for
from .masks import Backward, Forward, Mask
from .paper_step import paper_step
from .problem import Problem, check_keep, check_probability, check_size
from .released_step import released_step
from .scales import Scale, apply, scale_function
from .step import Plan

FORMS = ("paper", "released")


@dataclass(frozen=True)
class Explanation:
    """What a layer did with its input: the output of the plain call, and the weights behind it."""

    output: Tensor  # [B, N, H * D]
    token2token: Tensor  # [B, H, N, N]: for each query, softmax of the pair scores over its allowed keys
    source2token: Tensor  # [B, H, N, D]: for each feature, softmax of the source2token scores over the real keys
    tensor: Tensor | None  # [B, H, N, N, D]: the weights of the definition, if asked for
    backend: str  # the one that ran, and why
    rescued: int  # (query, feature) entries that were computed again by the definition


class MultiMaskAttention(nn.Module):
    """Multi-mask tensorized self-attention: `layer(x, keep)` with x [B, N, embed_dim] gives [B, N, num_heads * head_dim].

    Two forms. `paper` is Algorithm 1: q, k, v are linear in x, the source2token scores come from k, an output map joins the
    heads. `released` is what the authors ran: v = act(W x + b); q, k and the scores come from v within each head; a gate
    mixes v and the attended values; no output map, so fewer operations.

    Args:
        embed_dim: width of x.
        num_heads: number of heads.
        form: "paper" or "released".
        head_dim: width of each head; embed_dim / num_heads when None.
        score_dim: width of q and k, and of the hidden source2token layer; head_dim when None.
        masks: None for half of the heads forward and half backward; or one mask, a list of them, or a string such as
            "forward*4, backward*4".
        bias: whether q, k, v and the output map of the `paper` form have biases.
        activation: of the dense layers: "relu", "elu" or "tanh".
        scales: sigma_t and sigma_s: "logsigmoid", "identity" or a callable, for the token2token and source2token scores.
        dropout: two rates, (dense, attention): of the input of every dense layer, and of the attention (appendix A.3).

    `layer.backend` is "auto"; set it to the name of a backend to fix one.

    Raises:
        ValueError: a number, name or combination that does not work.
        TypeError: a value of the wrong kind.
    """

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
        activation: str = "relu",
        scales: tuple[Scale, Scale] = ("logsigmoid", "identity"),
        dropout: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_heads = check_size(embed_dim, "embed_dim"), check_size(num_heads, "num_heads")
        if form not in FORMS:
            raise ValueError(f'form "{form}" is unknown; it must be "paper" or "released"')
        if form == "released" and bias:
            raise ValueError('bias=True is for form="paper"; the released form has its biases where the authors have them')
        self.form = form
        self.head_dim = check_size(head_dim, "head_dim") if head_dim is not None else _share(embed_dim, num_heads)
        self.score_dim = check_size(score_dim, "score_dim") if score_dim is not None else self.head_dim
        self.masks = _half_and_half(num_heads) if masks is None else rules_for(masks, num_heads)
        self.activation = activation
        self._act = activation_function(activation)
        token_scale, source_scale = _pair(scales, "scales", '("logsigmoid", "identity")')
        scale_function(token_scale, "scales[0]")
        scale_function(source_scale, "scales[1]")
        self.token_scale, self.source_scale = token_scale, source_scale
        dense, attention = _pair(dropout, "dropout", "(dense, attention), such as (0.1, 0.0)")
        self.dense_dropout = check_probability(dense, "dropout[0]")
        self.attention_dropout = check_probability(attention, "dropout[1]")
        self.backend = "auto"
        self._make_maps(bias)

    def _make_maps(self, bias: bool) -> None:
        H, D, I = self.num_heads, self.head_dim, self.score_dim
        self.query: nn.Linear | HeadLinear
        self.key: nn.Linear | HeadLinear
        if self.form == "paper":
            self.query = glorot_linear(self.embed_dim, H * I, bias=bias)
            self.key = glorot_linear(self.embed_dim, H * I, bias=bias)
            self.value = glorot_linear(self.embed_dim, H * D, bias=bias)
            self.output = glorot_linear(H * D, H * D, bias=bias)
            source = I
        else:
            self.value = glorot_linear(self.embed_dim, H * D, bias=True)
            self.query = HeadLinear(H, D, I, bias=False)
            self.key = HeadLinear(H, D, I, bias=False)
            self.gate = HeadLinear(H, 2 * D, D, bias=True)
            source = D
        self.source_hidden = HeadLinear(H, source, I, bias=True)
        self.source_score = HeadLinear(H, I, D, bias=True)

    @property
    def out_dim(self) -> int:
        """Width of the output."""
        return self.num_heads * self.head_dim

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """Attend within each sequence.

        Args:
            x: [B, N, embed_dim].
            keep: bool [B, N], True for real tokens; None when there is no padding. Padded positions give 0.

        Raises:
            TypeError, ValueError: if x or keep is of the wrong kind, dtype or shape.
        """
        self._check(x, keep)
        x = _zero_padding(x, keep)  # so that nothing stored there, NaN included, can reach a gradient
        if self._in_one_step(x):
            return _zero_padding(self._one_step(x, keep), keep)
        q, k, v, s = self.project(x)
        return _zero_padding(self.combine(self._attend(q, k, v, s, keep), v), keep)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(q, k, v, s), each [B, H, N, .]: what goes into `tensorized_attention`; s has passed sigma_s."""
        B, N, _ = x.shape
        if self.form == "paper":
            q = self._split(self.query(self._drop(x)), self.score_dim)
            k = self._split(self.key(self._drop(x)), self.score_dim)
            v = self._split(self.value(self._drop(x)), self.head_dim)
            s = self._source(_heads_first(k))
        else:
            v = self._split(self._act(self.value(self._drop(x))), self.head_dim)
            rows = _heads_first(v)  # [H, T, D]
            q, k = (_heads_second(part(self._drop(rows)), B, N) for part in (self.query, self.key))
            s = self._source(rows)
        return q, k, v, apply(scale_function(self.source_scale, "scales[1]"), _heads_second(s, B, N))

    def combine(self, heads: Tensor, v: Tensor) -> Tensor:
        """The output [B, N, H * D] from the attended heads [B, H, N, D] and the values v of `project`."""
        B, _, N, _ = heads.shape
        if self.form == "paper":
            joined: Tensor = self.output(self._drop(heads.transpose(1, 2).reshape(B, N, self.out_dim)))
            return joined
        rows, values = _heads_first(heads), _heads_first(v)  # [H, T, D]
        gate = torch.sigmoid(self._gate(self._drop(values), self._drop(rows)))
        mixed = torch.lerp(rows, values, gate)
        return mixed.transpose(0, 1).reshape(B, N, self.out_dim)

    def explain(self, x: Tensor, keep: Tensor | None = None, *, tensor: bool = False) -> Explanation:
        """The output, bit-equal to `layer(x, keep)` without dropout, and the weights behind it.

        Args:
            x: [B, N, embed_dim].
            keep: bool [B, N], True for real tokens.
            tensor: also give the weight of every feature of every pair, [B, H, N, N, D].

        Raises:
            RuntimeError: in training mode with dropout, where weights and output of one call would differ.
            TypeError, ValueError: as `forward`.
        """
        if self.training and (self.dense_dropout > 0 or self.attention_dropout > 0):
            raise RuntimeError("explain() needs the layer without dropout; call layer.eval() first")
        self._check(x, keep)
        with rescue.count_rescued() as count:
            output = self(x, keep)
        q, k, v, s = self.project(x)
        options: dict[str, Any] = {"masks": list(self.masks), "keep": keep, "pairwise": self.token_scale}
        problem = problems.state(q, k, v, s, scale=None, dropout_p=0.0, **options)
        ready = problem.ready(q, k, v, s)
        return Explanation(
            output=output,
            token2token=reference.safe_softmax(reference.token_exponent(problem, *ready[:2]), 3),
            source2token=reference.source_weights(problem, ready[3]),
            tensor=reference.weight_tensor(problem, *ready[:2], ready[3]) if tensor else None,
            backend=explain_backend(q, k, v, s, backend=self.backend, **options),
            rescued=count.entries,
        )

    def extra_repr(self) -> str:
        rules = HeadMasks(self.masks, None).runs()
        masks = ", ".join(f"{last - first} x {rule}" for rule, first, last in rules)
        options = f"activation={self.activation}, dropout=({self.dense_dropout}, {self.attention_dropout})"
        return f"{self.embed_dim} -> {self.out_dim}, {self.num_heads} heads, form={self.form}, masks=[{masks}], {options}"

    # Steps

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor, keep: Tensor | None) -> Tensor:
        return tensorized_attention(
            q,
            k,
            v,
            s,
            masks=self.masks,
            keep=keep,
            pairwise=self.token_scale,
            dropout_p=self.attention_dropout if self.training else 0.0,
            backend=self.backend,
        )

    def _in_one_step(self, x: Tensor) -> bool:
        """Whether the layer runs as one step: on a CPU, tiled, with nothing in it that the step does not know."""
        if not all(_untouched(module) for module in self.children()):
            return False
        dropping = self.training and (self.dense_dropout > 0 or self.attention_dropout > 0)
        plain = self.token_scale in ("logsigmoid", "identity") and self.source_scale == "identity"
        known = self.form == "released" or self.query.bias is None
        outside = torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type)
        exact = x.dtype in (torch.float32, torch.float64) and x.dtype == self.value.weight.dtype
        on_cpu = x.device.type == "cpu" and self.backend in ("auto", "tiled")
        return x.numel() > 0 and on_cpu and plain and known and exact and not dropping and not outside

    def _one_step(self, x: Tensor, keep: Tensor | None) -> Tensor:
        rules = HeadMasks(self.masks, None)
        scale = 1.0 / math.sqrt(self.score_dim)
        plan = Plan(Problem(rules, keep, self.token_scale, scale, 0.0, x.dtype), self.num_heads, self.activation)
        hidden, score = self.source_hidden, self.source_score
        assert hidden.bias is not None
        assert score.bias is not None
        source = (hidden.weight, hidden.bias, score.weight, score.bias)
        if self.form == "paper":
            maps = (self.query.weight, self.key.weight, self.value.weight, self.output.weight)
            return paper_step(plan, x, (*maps, *source))
        assert self.gate.bias is not None
        maps = (self.value.weight, self.value.bias, self.query.weight, self.key.weight)
        return released_step(plan, x, (*maps, *source, self.gate.weight, self.gate.bias))

    def _gate(self, values: Tensor, seen: Tensor) -> Tensor:
        """The gate's map of [values; seen], each [H, T, D]; without joining them first where the map is our own."""
        if not _untouched(self.gate) or self.gate.bias is None:
            joined: Tensor = self.gate(torch.cat([values, seen], -1))
            return joined
        weight = self.gate.weight  # [H, 2 D, D]
        own = torch.baddbmm(self.gate.bias, values, weight[:, : self.head_dim])
        return torch.baddbmm(own, seen, weight[:, self.head_dim :])

    def _source(self, rows: Tensor) -> Tensor:
        """The two source2token layers on [H, T, .]: f^s of the paper."""
        hidden = self._act(self.source_hidden(self._drop(rows)))
        scores: Tensor = self.source_score(self._drop(hidden))
        return scores

    def _drop(self, x: Tensor) -> Tensor:
        """Dropout of a dense layer's input, a fresh mask at each call."""
        return drop(x, self.dense_dropout, self.training)

    def _split(self, x: Tensor, width: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.num_heads, width).transpose(1, 2)  # [B, H, N, width]

    def _check(self, x: Tensor, keep: Tensor | None) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"x is a {type(x).__name__}; it must be a tensor [B, N, {self.embed_dim}]")
        if not x.is_floating_point():
            raise TypeError(f"x has dtype {x.dtype}; it must be vectors [B, N, {self.embed_dim}]: embed token numbers first")
        if x.dim() != 3 or x.shape[2] != self.embed_dim:
            hint = ": use x.unsqueeze(0) for one sequence" if x.dim() == 2 and x.shape[1] == self.embed_dim else ""
            raise ValueError(f"x has shape {tuple(x.shape)}; it must be [B, N, embed_dim={self.embed_dim}], batch first{hint}")
        weight = getattr(self.value, "weight", None)
        expected = weight.dtype if isinstance(weight, Tensor) else x.dtype
        if x.dtype != expected and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"x has dtype {x.dtype}, but the layer has {expected}; use x.to({expected}) or layer.to(x.dtype)")
        if keep is not None:
            check_keep(keep, x.shape[0], x.shape[1], x.device)


def _untouched(module: nn.Module) -> bool:
    """Whether a map is what this layer made: nothing put in its place, nothing hooked on, nothing reparametrised."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return type(module) in (nn.Linear, HeadLinear) and not any(hooks)


def _zero_padding(out: Tensor, keep: Tensor | None) -> Tensor:
    return out if keep is None else out.masked_fill(~keep[:, :, None], 0.0)


def _heads_first(x: Tensor) -> Tensor:
    """[B, H, N, D] -> [H, T, D], without a copy when x came from [B, N, H, D]."""
    B, H, N, D = x.shape
    return x.transpose(1, 2).reshape(B * N, H, D).transpose(0, 1)


def _heads_second(x: Tensor, batch: int, length: int) -> Tensor:
    """[H, T, D] -> [B, H, N, D]."""
    return x.reshape(x.shape[0], batch, length, x.shape[2]).transpose(0, 1)


def _half_and_half(heads: int) -> tuple[Mask, ...]:
    if heads % 2:
        raise ValueError(
            f"num_heads ({heads}) is odd, so half forward and half backward is not possible; "
            f'pass masks, such as masks="noself", or one mask for each head'
        )
    return (Forward(),) * (heads // 2) + (Backward(),) * (heads // 2)


def _share(embed_dim: int, heads: int) -> int:
    if embed_dim % heads:
        raise ValueError(f"num_heads ({heads}) must divide embed_dim ({embed_dim}); or pass head_dim")
    return embed_dim // heads


def _pair(value: Any, name: str, example: str) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} is {value!r}; it must be a pair {example}")
    return value[0], value[1]

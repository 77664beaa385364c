"""Hierarchical multi-mask tensorized self-attention, for long texts, which the paper suggests as future work.

Tokens attend within blocks, source2token pooling compresses each block to a vector, tensorized attention combines the
blocks, and a gate adds the context of its block to each token. The blocks form a sequence, so levels can be stacked. All
blocks of a batch are computed in one call, and the cost is linear in the length of the text.

Notation: B batch, N tokens, E in_dim, C width, K blocks of a sequence, R positions of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.dropout import dropout as drop
from mtsa.nn.functional import tensorized_attention
from mtsa.nn.masks import Backward, Forward, Window
from mtsa.nn.spec import check_size

from .blocks import Blocks, fixed_blocks, sentence_blocks
from .contract import Dense, Encoder, zero_padding
from .registry import register

Above = Callable[[Tensor], Tensor]


class Level(nn.Module):
    """One level: tensorized attention within blocks, source2token pooling of each block, and a gate with the block's context.

    The layer is that of the released form, with the scores of its source2token layers also as weights of the pooling. Its gate
    interpolates between the values of a position and its context, which is the sum of the attended values and of the context
    of its block.

    Args:
        attention: the attention within blocks, in the released form.
    """

    def __init__(self, attention: MultiMaskAttention) -> None:
        super().__init__()
        self.attention = attention
        self.block_gate = Dense(attention.out_dim, attention.out_dim, bias=False, dropout=attention.dense_dropout)

    def forward(self, x: Tensor, real: Tensor, above: Above) -> Tensor:
        """Encode blocks x [M, R, E], where `above` maps block vectors [M, C] to their contexts; returns [M, R, C]."""
        layer = self.attention
        q, k, v, s = layer.project(x)  # [M, H, R, D] each
        rate = layer.attention_dropout if self.training else 0.0
        options: dict[str, Any] = {"attention_mask": real, "score_activation": layer.score_activation, "backend": _backend()}
        attended = tensorized_attention(q, k, v, s, masks=layer.masks, dropout_p=rate, **options)
        context = above(self._pool(v + attended, s, real))  # [M, C]
        M, H, R, D = v.shape
        shift = self.block_gate(context).view(M, 1, H, D)
        attended = attended + context.view(M, H, 1, D)
        parts = (_heads_first(drop(part, layer.dense_dropout, self.training)) for part in (v, attended))
        gate = layer.gate(*parts).view(H, M, R, D).permute(1, 2, 0, 3) + shift  # [M, R, H, D]
        mixed = torch.lerp(attended.transpose(1, 2), v.transpose(1, 2), torch.sigmoid(gate))
        return mixed.reshape(M, R, H * D)

    def _pool(self, values: Tensor, s: Tensor, real: Tensor) -> Tensor:
        """Compress values [M, H, R, D] to one vector of each block [M, C], with the softmax of the source2token scores."""
        M, H, R, D = values.shape
        query, keys = s.new_zeros(M, H, 1, 1), s.new_zeros(M, H, R, 1)  # all scores 0: the weights are those of s
        pooled = tensorized_attention(query, keys, values, s, attention_mask=real, backend=_backend())
        return pooled.reshape(M, H * D)


def _backend() -> str:
    """The backend within blocks; in an exported graph the definition, which blocks are short enough for."""
    return "reference" if torch.compiler.is_exporting() else "auto"


def _heads_first(x: Tensor) -> Tensor:
    """[M, H, R, D] -> [H, M * R, D]."""
    M, H, R, D = x.shape
    return x.permute(1, 0, 2, 3).reshape(H, M * R, D)


@register("hierarchical_mtsa")
class HierarchicalMtsaEncoder(Encoder):
    """Tensorized attention within blocks of tokens, then over the blocks, for long texts; time and memory are linear.

    Args:
        in_dim: width of x.
        heads: number of heads of every level, half forward and half backward.
        head_dim: width of each head.
        score_dim: width of queries, keys and hidden source2token layers; 0: half of head_dim.
        block: maximum number of positions of a block.
        levels: number of levels of blocks below the top level, which attends over all blocks.
        reach: number of blocks on each side that a block attends to at the top level.
        sentences: whether a block consists of whole sentences, as many as fit, where the ends of sentences are known.
        activation: activation of the dense layers.
        score_activation: sigma_t, activation of the token2token scores: "logsigmoid" or "identity".
        dropout: dropout probability on the input of every dense layer.
        attention_dropout: dropout probability on the two factors of the attention, in the numerator only (appendix A.3).

    Raises:
        ValueError: an odd number of heads, or a value out of range.
    """

    reads_sentence_ends: ClassVar[bool] = True
    long_texts: ClassVar[bool] = True

    def __init__(
        self,
        in_dim: int,
        *,
        heads: int = 4,
        head_dim: int = 150,
        score_dim: int = 0,
        block: int = 32,
        levels: int = 1,
        reach: int = 256,
        sentences: bool = True,
        activation: str = "elu",
        score_activation: str = "logsigmoid",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(in_dim, heads * head_dim)
        self.block, self.sentences = check_size(block, "block"), sentences
        if block < 2:
            raise ValueError(f"block ({block}) must be at least 2")
        check_size(levels, "levels")
        check_size(reach, "reach")

        def attention(width: int) -> MultiMaskAttention:
            return MultiMaskAttention(
                width,
                heads,
                form="released",
                head_dim=head_dim,
                score_dim=score_dim or max(1, head_dim // 2),
                activation=activation,
                score_activation=score_activation,
                dropout=(dropout, attention_dropout),
            )

        self.levels = nn.ModuleList(Level(attention(self.out_dim if number else in_dim)) for number in range(levels))
        self.top = attention(self.out_dim)
        near = Window(reach)
        self.top.masks = [Forward() & near] * (heads // 2) + [Backward() & near] * (heads // 2)

    def forward(self, x: Tensor, keep: Tensor, ends: Tensor | None = None) -> Tensor:
        """Encode a batch; `ends` is True for tokens that end a sentence [B, N]."""
        blocks = self.blocks(keep, ends)
        return self._encode(zero_padding(x, keep), keep, blocks, 0)

    def blocks(self, keep: Tensor, ends: Tensor | None) -> Blocks:
        """Return the blocks of tokens."""
        size = self._size(keep.shape[1])
        return fixed_blocks(keep.shape[1], size) if ends is None or not self.sentences else sentence_blocks(keep, ends, size)

    def _size(self, length: int) -> int:
        return self.block if torch.compiler.is_compiling() else max(1, min(self.block, length))

    def _encode(self, x: Tensor, keep: Tensor, blocks: Blocks, number: int) -> Tensor:
        """Encode one level: x [B, N, .] with 0 at padded positions -> [B, N, C]."""
        level = self.levels[number]
        assert isinstance(level, Level)
        real = blocks.split_mask(keep)  # [B * K, R]

        def above(pooled: Tensor) -> Tensor:
            pooled = pooled.view(x.shape[0], blocks.count, self.out_dim)  # [B, K, C]
            filled = real.any(1).view(x.shape[0], blocks.count)  # [B, K]
            if number + 1 == len(self.levels):
                context = self.top(pooled, filled)
            else:
                context = self._encode(pooled, filled, fixed_blocks(blocks.count, self._size(blocks.count)), number + 1)
            flat: Tensor = context.reshape(-1, self.out_dim)
            return flat

        return zero_padding(blocks.join(level(blocks.split(x), real, above)), keep)

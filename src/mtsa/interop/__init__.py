"""Adapters for other libraries: torch, transformers and sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from mtsa.nn.attention import MultiMaskAttention

    from .multihead_adapter import AsMultiheadAttention

__all__ = ["as_multihead_attention", "replace_self_attention", "sentence_transformer"]

M = TypeVar("M")


def as_multihead_attention(layer: MultiMaskAttention, *, batch_first: bool = True) -> AsMultiheadAttention:
    """Wrap a `MultiMaskAttention` in a module with the interface of `nn.MultiheadAttention`.

    `batch_first` must match the surrounding module, whose default is False:

        block = nn.TransformerEncoderLayer(48, 4, batch_first=True)
        block.self_attn = as_multihead_attention(mtsa.MultiMaskAttention(48, 4), batch_first=True)

    Raises:
        ValueError: the layer changes the width of its input.
        TypeError: the layer is not a MultiMaskAttention.
    """
    from .multihead_adapter import AsMultiheadAttention

    return AsMultiheadAttention(layer, batch_first=batch_first)


def replace_self_attention(model: M, **options: Any) -> M:
    """Replace the encoder self-attention of a `transformers` model with tensorized attention, in place, and return the model.

    The weights and biases of q, k, v and output are kept; source2token scores are added. With default options, the output of
    the model does not change: masks are full, `score_activation` is the identity, and the source2token scores are 0.

    Args:
        model: BERT, RoBERTa, DistilBERT, BART, Marian or M2M100, with any head.
        options: `masks` ("full", "halves" for half of the heads forward and half backward, or such as "forward*4, noself*4"),
            `score_activation` ("identity" or "logsigmoid"), `source_input` ("value": one linear layer of each head's values;
            "key": two layers of its keys), `source_activation` ("identity" or "logsigmoid"), `source_bias` (initial bias),
            `init` ("neutral": the output of the model does not change; or "glorot").

    Raises:
        InputError (a ValueError): the model is not supported, or its attention is already replaced.
        ValueError, TypeError: invalid options.
    """
    from mtsa.models.attention_patching import patch_attention

    return patch_attention(model, **options)


def sentence_transformer(run: str | Path) -> SentenceTransformer:
    """Load a run directory as a `SentenceTransformer`: `.encode(texts)` returns the vectors of `mtsa embed`.

    Equivalent to `SentenceTransformer(run, trust_remote_code=True)`, without the need to trust remote code.

    Raises:
        InputError: not a valid run directory.
        ModuleNotFoundError: sentence-transformers is not installed; pip install 'mtsa[sentences]'.
    """
    from sentence_transformers import SentenceTransformer

    from .sentences import SentenceModule

    return SentenceTransformer(modules=[SentenceModule(Path(run))])

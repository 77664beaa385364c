"""Our models inside other people's libraries."""

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
    """A module with the interface of `nn.MultiheadAttention` that calls a `MultiMaskAttention`.

    `batch_first` must be that of the module it is used in, whose own default is False:

        block = nn.TransformerEncoderLayer(48, 4, batch_first=True)
        block.self_attn = as_multihead_attention(mtsa.MultiMaskAttention(48, 4), batch_first=True)

    Raises:
        ValueError: the layer changes the width of its input.
        TypeError: it is not a MultiMaskAttention.
    """
    from .multihead_adapter import AsMultiheadAttention

    return AsMultiheadAttention(layer, batch_first=batch_first)


def replace_self_attention(model: M, **options: Any) -> M:
    """Swap the encoder self-attention of a `transformers` model for tensorized attention, in place; it is given back.

    The weights and biases of q, k, v and output stay; source2token scores come beside them. As it stands, nothing changes in
    what the model computes: masks are full, the pairwise function is the identity, and the scores start neutral.

    Args:
        model: BERT, RoBERTa, DistilBERT, BART, Marian or M2M100, with any head.
        options: `masks` ("full", "halves" for half of the heads forward and half backward, or such as "forward*4, noself*4"),
            `pairwise` ("identity" or "logsigmoid"), `source` ("value": scores by one map of each head's values; "key": by two
            layers of its keys), `source_scale` ("identity" or "logsigmoid"), `source_bias` (where its bias starts), `start`
            ("neutral" or "glorot").

    Raises:
        InputError (a ValueError): a model that is not supported, or is swapped already.
        ValueError, TypeError: an option that does not work.
    """
    from mtsa.models.attention_patching import patch_attention

    return patch_attention(model, **options)


def sentence_transformer(run: str | Path) -> SentenceTransformer:
    """A `SentenceTransformer` of a run folder: `.encode(texts)` gives the vectors that `mtsa embed` gives.

    `SentenceTransformer(run, trust_remote_code=True)` does the same; this way needs no such trust.

    Raises:
        InputError: it is no run folder, or a file of it is missing or was changed.
        ModuleNotFoundError: sentence-transformers is not installed; pip install 'mtsa[sentences]'.
    """
    from sentence_transformers import SentenceTransformer

    from .sentences import SentenceModule

    return SentenceTransformer(modules=[SentenceModule(Path(run))])

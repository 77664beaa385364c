"""Context encoders, registered by name. A new encoder is a module with a registered class, imported here."""

from . import biblosa, convolutional, disa, multihead, no_context, recurrent, tensorized, stacked, transformer_block, ablations  # noqa: I001  # the order in which they are listed
from .contract import Encoder
from .registry import build_encoder, encoder_names, find_encoder

__all__ = [
    "Encoder",
    "ablations",
    "biblosa",
    "build_encoder",
    "convolutional",
    "disa",
    "encoder_names",
    "find_encoder",
    "multihead",
    "no_context",
    "recurrent",
    "stacked",
    "tensorized",
    "transformer_block",
]

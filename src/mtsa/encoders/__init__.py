"""Context encoders, registered by name. A new encoder is a module with a registered class, imported here."""

from . import (  # noqa: I001  # the order in which they are listed
    biblosa,
    convolutional,
    disa,
    multihead,
    no_context,
    recurrent,
    tensorized,
    hierarchical,
    stacked,
    transformer_block,
    residual,
    ablations,
)
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
    "hierarchical",
    "multihead",
    "no_context",
    "recurrent",
    "residual",
    "stacked",
    "tensorized",
    "transformer_block",
]

"""Multi-mask tensorized self-attention: a score for every feature of every token pair, at the price of dot products."""

from mtsa import masks
from mtsa.attention.backends import table as backend_table
from mtsa.attention.function import explain_backend, tensorized_attention
from mtsa.attention.layer import Explanation, MultiMaskAttention
from mtsa.attention.pooling import Source2Token
from mtsa.attention.rescue import count_rescued
from mtsa.attention.scratch import release_buffers

__version__ = "0.1.0"

__all__ = [
    "Explanation",
    "MultiMaskAttention",
    "Source2Token",
    "__version__",
    "backend_table",
    "count_rescued",
    "explain_backend",
    "masks",
    "release_buffers",
    "tensorized_attention",
]

"""Multi-mask tensorized self-attention: a score for every feature of every token pair, at the price of dot products.

Names are loaded when they are first used, so that the command line answers at once and `import mtsa` needs torch alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtsa import masks
    from mtsa.attention.backends import table as backend_table
    from mtsa.attention.function import explain_backend, tensorized_attention
    from mtsa.attention.layer import Explanation, MultiMaskAttention
    from mtsa.attention.pooling import Source2Token
    from mtsa.attention.rescue import count_rescued
    from mtsa.attention.scratch import release_buffers
    from mtsa.workbench import load, train

__version__ = "0.2.0"

__all__ = [
    "Explanation",
    "MultiMaskAttention",
    "Source2Token",
    "__version__",
    "backend_table",
    "count_rescued",
    "explain_backend",
    "load",
    "masks",
    "release_buffers",
    "tensorized_attention",
    "train",
]

_HOMES = {
    "Explanation": "attention.layer",
    "MultiMaskAttention": "attention.layer",
    "Source2Token": "attention.pooling",
    "backend_table": "attention.backends:table",
    "count_rescued": "attention.rescue",
    "explain_backend": "attention.function",
    "load": "workbench",
    "release_buffers": "attention.scratch",
    "tensorized_attention": "attention.function",
    "train": "workbench",
}


def __getattr__(name: str) -> Any:
    if name == "masks":
        return importlib.import_module("mtsa.masks")
    if name not in _HOMES:
        raise AttributeError(f'module "mtsa" has no attribute "{name}"')
    home, _, known = _HOMES[name].partition(":")
    try:
        value = getattr(importlib.import_module(f"mtsa.{home}"), known or name)
    except ModuleNotFoundError as error:
        if home != "workbench" or (error.name or "").startswith("mtsa"):
            raise
        raise ModuleNotFoundError(f"mtsa.{name} needs {error.name}: pip install 'mtsa[train]'", name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Multi-mask tensorized self-attention: a score for every feature of every token pair, at the cost of dot-product attention.

Names are imported lazily, so that the command line starts quickly and `import mtsa` requires torch only.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtsa import masks
    from mtsa.nn.attention import MultiMaskAttention
    from mtsa.nn.backends import table as backend_table
    from mtsa.nn.explanation import Explanation
    from mtsa.nn.fallback import count_fallbacks
    from mtsa.nn.functional import explain_backend, tensorized_attention
    from mtsa.nn.pooling import Source2Token
    from mtsa.workbench import compare, load, train

__version__ = "0.3.0.dev0"

__all__ = [
    "Explanation",
    "MultiMaskAttention",
    "Source2Token",
    "__version__",
    "backend_table",
    "compare",
    "count_fallbacks",
    "explain_backend",
    "load",
    "masks",
    "tensorized_attention",
    "train",
]

_HOMES = {
    "Explanation": "nn.explanation",
    "MultiMaskAttention": "nn.attention",
    "Source2Token": "nn.pooling",
    "backend_table": "nn.backends:table",
    "compare": "workbench",
    "count_fallbacks": "nn.fallback",
    "explain_backend": "nn.functional",
    "load": "workbench",
    "tensorized_attention": "nn.functional",
    "train": "workbench",
}


def __getattr__(name: str) -> Any:
    if name in ("interop", "masks"):
        return importlib.import_module(f"mtsa.{name}")
    if name == "count_rescued":
        warnings.warn(
            "mtsa.count_rescued is deprecated and will be removed in version 0.4; use mtsa.count_fallbacks",
            DeprecationWarning,
            stacklevel=2,
        )
        name = "count_fallbacks"
    if name not in _HOMES:
        raise AttributeError(f'module "mtsa" has no attribute "{name}"')
    home, _, known = _HOMES[name].partition(":")
    try:
        value = getattr(importlib.import_module(f"mtsa.{home}"), known or name)
    except ModuleNotFoundError as error:
        if home != "workbench" or (error.name or "").startswith("mtsa"):
            raise
        raise ModuleNotFoundError(f"mtsa.{name} requires {error.name}: pip install 'mtsa[train]'", name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Deprecation warnings that refer to the caller's code."""

from __future__ import annotations

import sys
import warnings

import torch


def warn_deprecated(message: str) -> None:
    """Issue a deprecation warning that refers to the first caller outside mtsa and torch."""
    level = 2
    if not torch.compiler.is_compiling():
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("mtsa", "torch"):
            frame, level = frame.f_back, level + 1
    warnings.warn(message, DeprecationWarning, stacklevel=level)

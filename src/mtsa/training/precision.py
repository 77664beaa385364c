"""The precision of the forward pass: `training.precision`, and what "auto" means on a device."""

from __future__ import annotations

import torch

from .recipe import Recipe


def forward_dtype(recipe: Recipe, device: torch.device) -> torch.dtype:
    """Return the dtype of autocast in training: torch.float32 or torch.bfloat16.

    "auto" is bfloat16 on GPUs that support it and, over a pretrained model, on CPUs that multiply it faster than float32.
    """
    precision = recipe.training.precision
    if precision == "auto":
        if device.type == "cuda":
            fast = torch.cuda.is_bf16_supported(including_emulation=False)
        else:
            fast = bool(recipe.pretrained.model) and _fast_on_this_cpu()
        precision = "bfloat16" if fast else "float32"
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def _fast_on_this_cpu() -> bool:
    found = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))

"""Masks given as tensors: the padding mask of a batch, and the masks of `nn.MultiheadAttention`, where True means masked."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def check_attention_mask(mask: Any, batch: int, length: int, device: torch.device) -> Tensor:
    """Return the padding mask of a batch as a bool tensor; integer masks, as returned by tokenizers, are converted.

    Raises:
        TypeError: not a tensor of bools or integers.
        ValueError: not of shape [batch, length], or on another device.
    """
    if not isinstance(mask, Tensor):
        raise TypeError(f"attention_mask is a {type(mask).__name__}; it must be a tensor [B, M], 1 = token, 0 = padding")
    if mask.is_floating_point() or mask.is_complex():
        raise TypeError(
            f"attention_mask has dtype {mask.dtype}; it must be bool or integer, 1 = token, 0 = padding: pass "
            "attention_mask.bool() if non-zero marks tokens, or mtsa.masks.from_key_padding_mask(mask) if -inf marks padding"
        )
    if tuple(mask.shape) != (batch, length):
        hint = ""
        if tuple(mask.shape) == (length, batch):
            hint = "; the input looks like [N, B, E], so use x.transpose(0, 1)"
        elif tuple(mask.shape) == (batch,):
            hint = f"; create it from lengths with torch.arange({length}) < lengths[:, None]"
        raise ValueError(f"attention_mask has shape {tuple(mask.shape)}; it must be [B={batch}, {length}]{hint}")
    if mask.device != device:
        raise ValueError(
            f"attention_mask is on {mask.device}, but the input is on {device}; use attention_mask.to({str(device)!r})"
        )
    if mask.dtype != torch.bool:
        return mask != 0
    if not torch.compiler.is_compiling() and mask.is_inference() and not torch.is_inference_mode_enabled():
        return mask.clone()  # a tensor made in inference mode cannot be saved for backward
    return mask


def from_key_padding_mask(key_padding_mask: Tensor) -> Tensor:
    """Convert the `key_padding_mask` of `nn.MultiheadAttention`, where True (or -inf) marks padding, to `attention_mask`."""
    return _flip(key_padding_mask, "key_padding_mask")


def from_attn_mask(attn_mask: Tensor) -> Tensor:
    """Convert the `attn_mask` of `nn.MultiheadAttention`, where True (or -inf) means masked, to a mask tensor."""
    return _flip(attn_mask, "attn_mask")


def _flip(mask: Tensor, name: str) -> Tensor:
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} is a {type(mask).__name__}; it must be a tensor")
    if mask.dtype == torch.bool:
        return ~mask
    if mask.is_floating_point():
        forbidden = mask == -math.inf
        if torch.compiler.is_compiling() or bool((forbidden | (mask == 0)).all()):
            return ~forbidden
        raise ValueError(
            f"{name} is a float mask with values other than 0 and -inf, which is not supported; "
            f"pass {name}.bool() if non-zero means masked"
        )
    raise TypeError(
        f"{name} has dtype {mask.dtype}; it must be bool, or float with 0 and -inf: "
        f"pass {name}.bool() if non-zero means masked"
    )

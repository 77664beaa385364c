"""Sizes of tiles for each Triton kernel, chosen by ahead-of-time compilation: see docs/gpu.md.

All fit into the shared memory of sm_86, the smallest of the supported devices, so that one choice serves every device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Tiles:
    """Sizes of the tiles of one kernel: queries, keys, columns of scores and of values; warps and pipeline stages."""

    BM: int
    BN: int
    BI: int
    BD: int
    warps: int = 4
    stages: int = 2
    together: bool = True  # `keys` only: the gradients of k, v and s by one launch
    registers: int = 0  # of a thread at most; 0: as the assembler chooses, which can be too few, so that some are spilled


def tiles(kernel: str, operand: torch.dtype, precision: str, scores: int, values: int) -> Tiles:
    """Return the sizes for a kernel.

    Args:
        kernel: "prepare", "forward", "repair", "scale", "queries" or "keys".
        operand: dtype of exp(s - c).
        precision: how float32 operands are multiplied, "ieee" or "tf32".
        scores, values: columns of q and v, multiples of 8.
    """
    widest = 32 if precision == "ieee" else 128  # products without tensor cores keep whole slices in registers
    BI, BD = (min(widest, _power(width)) for width in (scores, values))
    most = 255 if precision == "ieee" else 0
    if kernel == "prepare":  # with the slices of "forward" where it checks for saturation ("ieee")
        return Tiles(0, 64, 0, min(BD, 64), 4, 1, registers=most)
    if kernel == "scale":
        return Tiles(32, 0, 0, BD, 4, 1, registers=most)
    if kernel == "repair":
        return Tiles(0, 16, _power(scores), min(BD, 64), 4, 1, registers=255)
    kind = "bf16" if operand == torch.bfloat16 else precision
    BM, BN, warps, stages, together = _PRODUCTS[kernel, kind][128 if max(BI, BD) > 64 else 64]
    return Tiles(BM, BN, BI, BD, warps, stages, together, registers=most)


_PRODUCTS: dict[tuple[str, str], dict[int, tuple[int, int, int, int, bool]]] = {
    ("forward", "bf16"): {64: (64, 32, 4, 2, True), 128: (32, 32, 4, 2, True)},
    ("forward", "tf32"): {64: (64, 32, 8, 2, True), 128: (32, 32, 8, 2, True)},
    ("forward", "ieee"): {64: (32, 32, 4, 1, True)},
    ("queries", "bf16"): {64: (64, 32, 8, 2, True), 128: (32, 32, 4, 2, True)},
    ("queries", "tf32"): {64: (32, 32, 4, 1, True), 128: (16, 32, 4, 1, True)},
    ("queries", "ieee"): {64: (32, 32, 4, 1, True)},
    ("keys", "bf16"): {64: (32, 32, 4, 2, True), 128: (32, 32, 8, 2, False)},
    ("keys", "tf32"): {64: (32, 32, 4, 1, False), 128: (32, 32, 8, 1, False)},
    ("keys", "ieee"): {64: (32, 32, 4, 1, False)},
}
"""By kernel and arithmetic, for slices up to 64 columns and above: queries, keys, warps, stages, together."""


def _power(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())

"""Every registered encoder, small, and batches to encode."""

import torch

from mtsa.encoders import build_encoder

SMALL = {
    "mtsa": {"head_dim": 5},
    "hierarchical_mtsa": {"head_dim": 5, "block": 3},
    "stacked_mtsa": {"width": 12, "heads": 2, "hidden": 17},
    "stacked_multihead": {"width": 12, "heads": 2, "hidden": 17},
    "stacked_bilstm": {"width": 12, "hidden": 17},
    "stacked_multi_cnn": {"width": 12, "hidden": 17, "channels": 5},
    "bilstm": {"width": 5},
    "bigru": {"width": 5},
    "multi_cnn": {"channels": 5},
    "hierarchical_cnn": {"channels": 5},
    "multihead": {"heads": 3, "head_dim": 5},
    "disa": {"width": 5},
    "biblosa": {"width": 5, "block": 3},
    "mtsa_no_masks": {"head_dim": 5},
    "mtsa_no_token2token": {"head_dim": 5},
    "mtsa_no_source2token": {"head_dim": 5},
    "transformer_block": {"heads": 1, "hidden": 17},
    "residual_mtsa": {"heads": 1, "masks": "noself"},
    "residual_multihead": {"heads": 1},
    "mtsa_none": {"width": 11},
}
WIDTH = 7


def made(name, options):
    """An encoder; weights that start at 0 are filled, so that it is not the identity."""
    torch.manual_seed(3)
    encoder = build_encoder(name, WIDTH, **options).eval()
    for weight in encoder.parameters():
        if weight.dim() == 2 and not weight.any():
            torch.nn.init.normal_(weight)
    return encoder


def batch(*lengths, padded=None, seed=5):
    """Random sentences; padding filled with what must never be read."""
    longest = padded or max(lengths)
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn(length, WIDTH, generator=generator) for length in lengths]
    x = torch.full((len(lengths), longest, WIDTH), float("nan"))
    keep = torch.zeros(len(lengths), longest, dtype=torch.bool)
    for number, row in enumerate(rows):
        x[number, : len(row)], keep[number, : len(row)] = row, True
    return x, keep

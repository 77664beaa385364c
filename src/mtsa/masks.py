"""The public names of the positional masks; defined in `mtsa.nn.masks`."""

from mtsa.nn.mask_specs import register_mask
from mtsa.nn.masks import (
    And,
    Backward,
    Distance,
    Forward,
    Full,
    Mask,
    NoSelf,
    Or,
    Window,
)
from mtsa.nn.padding import from_attn_mask, from_key_padding_mask

__all__ = [
    "And",
    "Backward",
    "Distance",
    "Forward",
    "Full",
    "Mask",
    "NoSelf",
    "Or",
    "Window",
    "from_attn_mask",
    "from_key_padding_mask",
    "register_mask",
]

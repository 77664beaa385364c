"""Conversion of the argument `masks` to one mask per head, and the parser of spec strings.

Notation: B batch, H heads, N queries, M keys.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .intervals import Block, Interval, interval_of, spec_of
from .masks import And, Backward, Distance, Forward, Full, Mask, NoSelf, Or, Window
from .positions import FROM_ZERO, Positions, Span

MaskChoice: TypeAlias = "Mask | Sequence[Mask] | str | Tensor | HeadMasks | None"
"""None, one mask, a sequence of H masks, a spec string, or a bool tensor broadcastable to [B, H, N, M]."""

HEADS_HINT = 'a list with one mask per head, such as [Forward(), Backward()], or a string such as "forward*4, backward*4"'

Parser: TypeAlias = Callable[[str], Mask]
"""Builds a mask from the text between the parentheses of its spec, "" without any; raises ValueError for other text."""


def _without_argument(kind: type[Mask]) -> Parser:
    def parse(argument: str) -> Mask:
        if argument:
            raise ValueError(f"{argument!r} is not expected")
        return kind()

    return parse


def _directed(kind: type[Forward | Backward]) -> Parser:
    def parse(argument: str) -> Mask:
        if argument not in ("", "self", "include_self=true"):
            raise ValueError(f"{argument!r} is not expected")
        return kind(include_self=bool(argument))

    return parse


_PARSERS: dict[str, tuple[Parser, str]] = {  # with an example for error messages
    "full": (_without_argument(Full), "full"),
    "noself": (_without_argument(NoSelf), "noself"),
    "forward": (_directed(Forward), "forward(self)"),
    "backward": (_directed(Backward), "backward(self)"),
    "window": (lambda argument: Window(int(argument)), "window(3)"),
    "distance": (lambda argument: Distance(float(argument)), "distance(0.1)"),
    "causal": (lambda argument: _directed(Forward)(argument or "self"), "causal"),
}


def register_mask(name: str, parse: Parser, example: str | None = None) -> None:
    """Register a mask by name for use in spec strings, such as masks="every(2)*4".

    Args:
        name: lower-case letters.
        parse: builds the mask from the text between the parentheses, "" if there are none; raises ValueError for other text.
        example: example of a spec, for error messages; default: the name.

    Raises:
        ValueError: the name is already registered or has other characters.

    Example:
        >>> register_mask("every", lambda argument: Every(int(argument)), "every(2)")
    """
    if not re.fullmatch("[a-z]+", name):
        raise ValueError(f'mask name "{name}" must consist of lower-case letters')
    if name in _PARSERS:
        raise ValueError(f'mask name "{name}" is already registered')
    _PARSERS[name] = (parse, example or name)


_TERM = re.compile(r"(?P<name>[a-z_]+)\s*(?:\(\s*(?P<argument>[^()]*?)\s*\))?$")
_MOST_HEADS = 4096
_HEAD_COUNT = re.compile(r"(?P<rule>.+?)\s*\*\s*(?P<count>\d+)$")


class HeadMasks:
    """One rule for each head, and possibly tensors over all of them: a pair must be allowed by both, and biases are added.

    Args:
        rules: the mask of each head.
        tensor: bool [B or 1, H or 1, N or 1, M or 1].
        tensor_bias: a further bias [B or 1, H, N, M].
    """

    def __init__(self, rules: tuple[Mask, ...], tensor: Tensor | None, tensor_bias: Tensor | None = None) -> None:
        self.rules, self.tensor, self.tensor_bias = rules, tensor, tensor_bias
        self.biased = any(rule.biased for rule in rules) or tensor_bias is not None
        intervals = tuple(interval_of(rule) for rule in rules)
        self.intervals: tuple[Interval | None, ...] | None = (
            None if None in intervals or tensor_bias is not None else intervals
        )
        specs = [spec_of(rule) for rule in rules]
        self.spec = None if None in specs else ", ".join(map(str, specs))  # as a string; None where a mask has none
        self.native_table: Any = None  # what the native kernel keeps

    @property
    def full(self) -> bool:
        """Whether all pairs are allowed, whatever their bias."""
        return self.tensor is None and all(isinstance(rule, Full) for rule in self.rules)

    def runs(self) -> Iterator[tuple[Mask, int, int]]:
        """Yield (mask, first head, last head + 1) for each run of adjacent heads with the same mask."""
        start = 0
        for head in range(1, len(self.rules) + 1):
            if head == len(self.rules) or self.rules[head] != self.rules[start]:
                yield self.rules[start], start, head
                start = head

    def allowed(self, tile: Span, keys: Span, device: torch.device, positions: Positions = FROM_ZERO) -> Tensor | None:
        """Return the mask of queries `tile` and `keys`, bool [B or 1, H or 1, t, u]; None when nothing is forbidden."""
        same = positions.same_sequence(tile, keys, device)
        if self.full:
            return None if same is None else same[None, None]
        query, key = positions.grid(tile, keys, device)
        sizes = (query.shape[0], keys[1] - keys[0])
        drawn = {rule: rule.allowed(query, key).expand(sizes) for rule in dict.fromkeys(self.rules)}
        stacked = _by_head([drawn[rule] for rule in self.rules], tile, positions.batch)
        if same is not None:
            stacked = stacked & same
        return stacked if self.tensor is None else stacked & _narrow(self.tensor, *tile, *keys)

    def bias(self, tile: Span, keys: Span, like: Tensor, positions: Positions = FROM_ZERO) -> Tensor | None:
        """Return the bias of queries `tile` and `keys`, [B or 1, H, t, u] in the dtype of `like`; None when there is none."""
        given = None if self.tensor_bias is None else _narrow(self.tensor_bias, *tile, *keys).to(like.dtype)
        if not any(rule.biased for rule in self.rules):
            return given
        query, key = positions.grid(tile, keys, like.device)
        zero = torch.zeros(query.shape[0], key.shape[1], dtype=like.dtype, device=like.device)
        drawn = {rule: rule.bias(query, key, like.dtype) for rule in dict.fromkeys(self.rules)}
        rows = [drawn[rule] for rule in self.rules]
        found = _by_head([zero if row is None else row.to(like.dtype).expand_as(zero) for row in rows], tile, positions.batch)
        return found if given is None else found + given

    def part(self, first: int, last: int) -> HeadMasks:
        """Return the masks of heads first..last-1 alone."""
        tensor, bias = self.tensor, self.tensor_bias
        if tensor is not None and tensor.shape[1] > 1:
            tensor = tensor[:, first:last]
        return HeadMasks(self.rules[first:last], tensor, None if bias is None else bias[:, first:last])

    def block(self, rule: Mask, tile: Span, keys: Span, shifts: Span = (0, 0), key_shift: int = 0) -> Block:
        """Return what `rule` and the tensor allow in a block; a tensor on a GPU is not read, to avoid synchronization.

        `shifts` are the smallest and the largest difference between position and row of a query, `key_shift` that of a key.
        """
        known = rule.block(tile[0] + shifts[0], tile[1] + shifts[1], keys[0] + key_shift, keys[1] + key_shift)
        if self.tensor is None or known is Block.NONE:
            return known
        if self.tensor.device.type != "cpu":
            return Block.SOME
        piece = _narrow(self.tensor, *tile, *keys)
        if not bool(piece.any()):
            return Block.NONE
        return known if bool(piece.all()) else Block.SOME


def _by_head(drawn: list[Tensor], tile: Span, batch: int) -> Tensor:
    """Stack [batch * t, u] of each head to [batch, H, t, u]."""
    return torch.stack([rows.reshape(batch, tile[1] - tile[0], rows.shape[-1]) for rows in drawn], 1)


def _narrow(tensor: Tensor, q0: int, q1: int, k0: int, k1: int) -> Tensor:
    tensor = tensor if tensor.shape[2] == 1 else tensor[:, :, q0:q1]
    return tensor if tensor.shape[3] == 1 else tensor[:, :, :, k0:k1]


def per_head(masks: MaskChoice, shape: tuple[int, int, int, int]) -> HeadMasks:
    """Convert `masks` to one mask per head, for a call of shape (B, H, N, M).

    Raises:
        ValueError: wrong number of masks, an invalid spec, or a tensor that does not broadcast.
        TypeError: a value that is not a mask, or a tensor that is not bool.
    """
    heads = shape[1]
    if isinstance(masks, HeadMasks):
        return masks
    if masks is None:
        return HeadMasks((Full(),) * heads, None)
    if isinstance(masks, Tensor):
        return HeadMasks((Full(),) * heads, _checked_tensor(masks, shape))
    return HeadMasks(rules_for(masks, heads), None)


def rules_for(masks: Any, heads: int) -> tuple[Mask, ...]:
    """Return one rule for each of the heads, from one mask, a sequence of them or a spec string.

    Raises:
        ValueError: the number of masks is not the number of heads, or the spec is invalid.
        TypeError: a value that is not a mask.
    """
    if isinstance(masks, Mask):
        _check_returns_bool(masks)
        return (masks,) * heads
    rules: tuple[Mask, ...]
    if isinstance(masks, str):
        rules = parse(masks)
        if len(rules) == 1 and "*" not in masks:
            return rules * heads
    elif isinstance(masks, Sequence):
        rules = tuple(rule for item in masks for rule in (parse(item) if isinstance(item, str) else (item,)))
    elif isinstance(masks, Tensor):
        raise TypeError(
            "masks is a tensor; a layer needs masks for any length: Forward(include_self=True) is a causal mask, "
            "and a bool tensor goes to mtsa.tensorized_attention(..., masks=tensor)"
        )
    else:
        raise TypeError(f"masks is a {type(masks).__name__}; it must be None, one mask, {HEADS_HINT}")
    for rule in rules:
        if not isinstance(rule, Mask):
            raise TypeError(f"masks contains {rule!r}, a {type(rule).__name__}; it must be {HEADS_HINT}")
    for rule in dict.fromkeys(rules):
        _check_returns_bool(rule)
    if len(rules) != heads:
        raise ValueError(f"masks specify {len(rules)} heads, but there are {heads}; pass {HEADS_HINT}")
    return rules


def _check_returns_bool(rule: Mask) -> None:
    """Check on one pair of positions that a user-defined mask returns a bool tensor."""
    if isinstance(rule, And | Or):
        _check_returns_bool(rule.left)
        _check_returns_bool(rule.right)
    if type(rule).__module__ == Mask.__module__:
        return
    place = torch.zeros(1, 1, dtype=torch.long, device="cpu")
    try:
        found = rule.allowed(place, place)
    except Exception:  # it may require more than one position; the call itself raises the error
        return
    if not isinstance(found, Tensor) or found.dtype is not torch.bool:
        what = f"a tensor of {found.dtype}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise TypeError(
            f"{type(rule).__name__}.allowed returns {what}; it must be a bool tensor, True where a query attends to a key"
        )


def parse(spec: str) -> tuple[Mask, ...]:
    """Return the masks of a spec such as "forward*4, backward*4" or "window(3) & noself, forward(self)".

    Each comma-separated entry is a mask, `&` and `|` join two (`&` has precedence), `*n` repeats the entry for n heads.
    forward(self) and backward(self) include the query's own position.

    Raises:
        ValueError: invalid spec; the message contains the invalid part and suggests the closest name.
    """
    rules: list[Mask] = []
    for entry in _split_entries(spec):
        counted = _HEAD_COUNT.match(entry)
        rule, count = (counted["rule"], int(counted["count"])) if counted else (entry, 1)
        if count > _MOST_HEADS:
            raise ValueError(f'masks "{spec[:60]}": {count:,} heads are too many; at most {_MOST_HEADS:,} are supported')
        rules.extend([_parse_rule(rule, spec)] * count)
    return tuple(rules)


def _split_entries(spec: str) -> list[str]:
    entries = [entry.strip() for entry in spec.lower().split(",")]
    if not all(entries):
        raise ValueError(f'masks "{spec}" has an empty entry; write {HEADS_HINT}')
    return entries


def _parse_rule(text: str, spec: str) -> Mask:
    for operator in ("|", "&"):  # the looser one first
        if operator in text:
            left, right = text.split(operator, 1)
            first, second = _parse_rule(left, spec), _parse_rule(right, spec)
            return first | second if operator == "|" else first & second
    term = _TERM.match(text.strip())
    name = term["name"].replace("_", "") if term else ""
    if term is None or name not in _PARSERS:
        near = difflib.get_close_matches(name or text.strip(), _PARSERS, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"it must be one of {', '.join(_PARSERS)}"
        raise ValueError(f'masks "{spec}": "{text.strip()}" is not a mask; {hint}')
    parse, example = _PARSERS[name]
    try:
        return parse(term["argument"] or "")
    except ValueError:
        raise ValueError(f'masks "{spec}": cannot parse "{text.strip()}"; expected a form like "{example}"') from None


def half_and_half(heads: int) -> tuple[Mask, ...]:
    """Return the default of a layer: forward masks for the first half of its heads, backward masks for the second."""
    if heads % 2:
        raise ValueError(
            f"num_heads ({heads}) is odd, so half forward and half backward is not possible; "
            f'pass masks, such as masks="noself", or one mask for each head'
        )
    return (Forward(),) * (heads // 2) + (Backward(),) * (heads // 2)


def _checked_tensor(mask: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    B, H, N, M = shape
    if mask.dtype != torch.bool:
        raise TypeError(
            f"masks is a {mask.dtype} tensor; it must be bool with True = attend: "
            "pass masks.bool() if non-zero means allowed, or ~masks.bool() if it means forbidden"
        )
    fits = mask.dim() <= 4 and all(
        size in (1, want) for size, want in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(
            f"masks tensor of shape {tuple(mask.shape)} does not broadcast to [B={B}, H={H}, N={N}, M={M}]; "
            "add dimensions with unsqueeze, for example masks[:, None] for a tensor [B, N, M]"
        )
    return mask.view((1,) * (4 - mask.dim()) + tuple(mask.shape))

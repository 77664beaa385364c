"""Fonts for a text: the default font, and installed fonts for characters that it lacks."""

from __future__ import annotations

import functools
from collections.abc import Iterable

DEFAULT = "DejaVu Sans"


def find_fonts(texts: Iterable[str]) -> tuple[list[str], str]:
    """Return names of fonts that together cover the characters of some texts, and the characters that no font has."""
    wanted = {letter for text in texts for letter in text if not letter.isspace()}
    names, missing = [DEFAULT], wanted - _characters(DEFAULT)
    for name in _installed() if missing else ():
        found = missing & _characters(name)
        if found:
            names.append(name)
            missing -= found
        if not missing:
            break
    return names, "".join(sorted(missing))


@functools.cache
def _installed() -> tuple[str, ...]:
    from matplotlib import font_manager

    return tuple(dict.fromkeys(entry.name for entry in font_manager.fontManager.ttflist if entry.name != DEFAULT))


@functools.cache
def _characters(name: str) -> frozenset[str]:
    """The characters that a font has."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(font_manager.findfont(name, fallback_to_default=False)).get_charmap()))
    except (OSError, RuntimeError, ValueError):  # not a font file, or removed since
        return frozenset()

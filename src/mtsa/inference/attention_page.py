"""What a model looked at, as a page of its own: one HTML file, nothing from outside, every head and every feature."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from mtsa.files import write_text

from .attention_maps import AttentionMaps
from .attention_weights import as_json


def write_page(maps: Sequence[AttentionMaps], path: Path) -> None:
    """Write the page."""
    write_text(path, page(maps))


def page(maps: Sequence[AttentionMaps]) -> str:
    """The page as text; what the model read and said stands in it as data, never as markup."""
    data = json.dumps({"sentences": [as_json(one, features=True) for one in maps]}, ensure_ascii=False)
    safe = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return filled(_part("look.html")).replace("__DATA__", safe)


def filled(frame: str) -> str:
    """A page with the style and the script of the maps put into it."""
    return frame.replace("/*__MAPS_STYLE__*/", _part("maps.css")).replace("/*__MAPS_SCRIPT__*/", _part("maps.js"))


def _part(name: str) -> str:
    return resources.files("mtsa.inference").joinpath(name).read_text(encoding="utf-8")

"""Attention maps as a self-contained HTML page with every head and feature."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from mtsa.files import write_text

from .attention_maps import AttentionMaps
from .attention_weights import maps_to_json


def write_page(maps: Sequence[AttentionMaps], path: Path) -> None:
    """Write the HTML page."""
    write_text(path, render_page(maps))


def render_page(maps: Sequence[AttentionMaps]) -> str:
    """Return the page as text; inputs and predictions are embedded as escaped JSON."""
    data = json.dumps({"sentences": [maps_to_json(one, features=True) for one in maps]}, ensure_ascii=False)
    safe = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return insert_assets(_asset("attention_page.html")).replace("__DATA__", safe)


def insert_assets(frame: str) -> str:
    """Return a page with the style and the script of the maps inserted."""
    return frame.replace("/*__MAPS_STYLE__*/", _asset("maps.css")).replace("/*__MAPS_SCRIPT__*/", _asset("maps.js"))


def _asset(name: str) -> str:
    return resources.files("mtsa.inference").joinpath(name).read_text(encoding="utf-8")

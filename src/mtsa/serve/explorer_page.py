"""The explorer page, one self-contained file, and its content security policy."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources

from mtsa.inference.attention_page import insert_assets


@functools.cache
def explorer_page() -> str:
    """Return the page as text."""
    return insert_assets(resources.files("mtsa.serve").joinpath("explorer.html").read_text(encoding="utf-8"))


@functools.cache
def content_security_policy() -> str:
    """Return the content security policy: the page's own script and style, its own API, and nothing else."""
    script, style = (_fingerprint(_inside(explorer_page(), tag)) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _inside(text: str, tag: str) -> str:
    return text.split(f"<{tag}>", 1)[1].split(f"</{tag}>", 1)[0]


def _fingerprint(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

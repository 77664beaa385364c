"""Undocumented attributes of `transformers`; tests/models/test_transformers_internals.py checks them."""

from __future__ import annotations

from transformers import PretrainedConfig


def attention_implementation(config: PretrainedConfig) -> str | None:
    """Return the attention implementation of a model, such as "eager" or "sdpa", for which there is no public getter."""
    name: str | None = getattr(config, "_attn_implementation", None)
    return name

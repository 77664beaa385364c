"""The one place that reads what `transformers` does not document; tests/models/test_transformers_internals.py watches it."""

from __future__ import annotations

from transformers import PretrainedConfig


def attention_implementation(config: PretrainedConfig) -> str | None:
    """Which attention a model runs, such as "eager" or "sdpa": there is a public setter, but no public getter."""
    name: str | None = getattr(config, "_attn_implementation", None)
    return name

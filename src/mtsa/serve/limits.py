"""Limits of requests to the server."""

from __future__ import annotations

from dataclasses import dataclass

MAX_INPUTS = 256  # of a request
MAX_CHARS = 100_000  # of a text
MAX_SHORT_CHARS = 10_000  # of a text, for a model that is not made for documents


@dataclass(frozen=True)
class Limits:
    """Requests that exceed one of these limits are rejected with an error message."""

    max_body_bytes: int = 1_000_000
    max_explained_words: int = 128  # words of a text in /api/explain; the size of the response grows with the square
    max_errors: int = 500  # mistakes, and near-duplicates, that the page shows
    max_queue_size: int = 2_048  # waiting inputs
    max_batch_size: int = 64  # inputs of a batch
    max_batch_chars: int = 8_000
    timeout_seconds: float = 30.0  # of a request

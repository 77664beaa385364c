"""Limits of requests to the server."""

from __future__ import annotations

from dataclasses import dataclass

QUESTIONS = 256  # of a request
CHARACTERS = 10_000  # of a text


@dataclass(frozen=True)
class Limits:
    """Requests that exceed one of these limits are rejected with an error message."""

    body: int = 1_000_000  # bytes of a request
    explained_words: int = 128  # words of a text in /api/look; weights grow with the square
    waiting: int = 2_048  # questions in the queue
    batch: int = 64  # questions of a batch
    characters: int = 8_000  # of a batch
    seconds: float = 30.0  # timeout of a request

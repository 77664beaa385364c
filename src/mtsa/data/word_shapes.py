"""The shape of a word: its capitalization, digits and punctuation, which lower-cased tokens do not contain."""

from __future__ import annotations

SHAPES = 9
"""Number of shapes; 0 is padding."""


def word_shape(word: str) -> int:
    """Return the shape of a word, from 1 to 8; the source code of this function is part of exported models."""
    if not any(letter.isalnum() for letter in word):
        return 1  # punctuation
    if any(letter.isdigit() for letter in word):
        return 3 if any(letter.isalpha() for letter in word) else 2  # B2B; 1,000
    if word.islower():
        return 4
    if word.isupper():
        return 6 if sum(letter.isalpha() for letter in word) > 1 else 5  # NASA; I
    return 7 if word.istitle() else 8  # Oslo; iPhone, and scripts without case

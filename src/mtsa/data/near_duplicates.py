"""Near-duplicate texts with different labels.

Texts are compared as sets of words, without case, order and punctuation, and after Unicode normalization (NFKC). Two texts
are near-duplicates if the sets share at least 80 % of all their words (Jaccard similarity). Two pairs of texts are
near-duplicates if both sides are.

The search is exact. If two sets are that similar, they share one of their rarest words, so each set is looked up by a few of
its rarest words only (prefix filtering; Bayardo et al., 2007). For pairs, this is applied to the words of both sides together.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

_FRACTION = (4, 5)  # the least similarity, as integers
_WORD = re.compile(r"\w+")

Words = frozenset[tuple[int, str]]  # (side of a pair, word)


class LabelledText(Protocol):
    """An example: texts and a label."""

    @property
    def texts(self) -> tuple[str, ...]: ...

    @property
    def label(self) -> object: ...


@dataclass(frozen=True)
class NearDuplicate:
    """A text and a similar text with another label."""

    index: int  # of the text
    other: int  # of the other text, in the same sequence or in the training data
    in_training: bool
    similarity: float  # of the less similar side, for pairs


def find_near_duplicates(examples: Sequence[LabelledText], training: Sequence[LabelledText]) -> Iterator[NearDuplicate]:
    """Yield near-duplicates with different labels, in the order of the examples.

    For each example, the most similar training example and the most similar earlier example with another label are returned.

    Args:
        examples: the examples.
        training: the training data; may be empty.
    """
    sets, known = [_words(one) for one in examples], [_words(one) for one in training]
    frequency = Counter(word for words in (*sets, *known) for word in words)
    trained, earlier = _Index(frequency), _Index(frequency)
    for number, (words, example) in enumerate(zip(known, training, strict=True)):
        trained.add(number, words, example.label)
    for number, (words, example) in enumerate(zip(sets, examples, strict=True)):
        for index in (trained, earlier):
            found = index.nearest(words, example.label)
            if found is not None:
                yield NearDuplicate(number, found[0], index is trained, found[1])
        earlier.add(number, words, example.label)


class _Index:
    """Sets of words with their labels, by their rarest words."""

    def __init__(self, frequency: Counter[tuple[int, str]]) -> None:
        self._frequency = frequency
        self._entries: list[tuple[int, Words, object]] = []
        self._by_word: dict[tuple[int, str], list[int]] = defaultdict(list)
        self._seen: set[tuple[Words, object]] = set()

    def add(self, number: int, words: Words, label: object) -> None:
        """Add a set, unless it is known with this label."""
        if words and (words, label) not in self._seen:
            self._seen.add((words, label))
            for word in self._rarest(words):
                self._by_word[word].append(len(self._entries))
            self._entries.append((number, words, label))

    def nearest(self, words: Words, label: object) -> tuple[int, float] | None:
        """Return number and similarity of the most similar set with another label; None if none is similar enough."""
        best: tuple[int, float] | None = None
        for place in {place for word in self._rarest(words) for place in self._by_word.get(word, ())}:
            number, other, other_label = self._entries[place]
            if other_label == label:
                continue
            similarity = _similarity(words, other)
            if similarity is not None and (best is None or (similarity, -number) > (best[1], -best[0])):
                best = (number, similarity)
        return best

    def _rarest(self, words: Words) -> list[tuple[int, str]]:
        """The words of which a similar set has at least one: all but 80 %, rounded up, and one more."""
        count = len(words) - -(-_FRACTION[0] * len(words) // _FRACTION[1]) + 1
        return sorted(words, key=lambda word: (self._frequency[word], word))[:count]


def _similarity(one: Words, other: Words) -> float | None:
    """The Jaccard similarity of the less similar side; None if it is below 0.8."""
    shared, union = Counter(side for side, _ in one & other), Counter(side for side, _ in one | other)
    if any(_FRACTION[1] * shared[side] < _FRACTION[0] * count for side, count in union.items()):
        return None
    return min(shared[side] / count for side, count in union.items())


def _words(example: LabelledText) -> Words:
    return frozenset(
        (side, word)
        for side, text in enumerate(example.texts)
        for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    )

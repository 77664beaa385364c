"""Near-duplicates with different labels: the definition, by comparing all pairs."""

import random
import re
from fractions import Fraction

import pytest

from mtsa.data.examples import Example
from mtsa.data.near_duplicates import find_near_duplicates


def similarity(one, other):
    """That of the less similar side; sides without words do not count."""
    found = []
    for sides in zip(one.texts, other.texts, strict=True):
        first, second = (set(re.findall(r"\w+", text.casefold())) for text in sides)
        if first | second:
            found.append(Fraction(len(first & second), len(first | second)))
    return min(found, default=Fraction(0))


def best(example, others):
    """Similarity of the most similar example with another label, if it is at least 0.8."""
    found = [similarity(example, other) for other in others if other.label != example.label]
    return max((value for value in found if value >= Fraction(4, 5)), default=None)


@pytest.mark.parametrize("paired", [False, True])
def test_they_are_those_of_all_pairs(paired):
    rng = random.Random(0)
    words = "abcdef" if paired else "abcdefghijkl"

    def example(line):
        text, pair = (" ".join(rng.choices(words, k=rng.randint(0, 4 if paired else 7))) for _ in range(2))
        return Example(text, rng.choice("xyz"), line, pair if paired else None)

    examples, training = ([example(line) for line in range(count)] for count in (211, 307))
    found = list(find_near_duplicates(examples, training))
    by_part = {(one.index, one.in_training): one for one in found}
    assert len(by_part) == len(found) > 20
    for number, one in enumerate(examples):
        for in_training, others in ((True, training), (False, examples[:number])):
            wanted, got = best(one, others), by_part.get((number, in_training))
            assert (wanted is None) == (got is None)
            if got is not None:
                assert got.similarity == pytest.approx(float(wanted))
                assert similarity(one, others[got.other]) == wanted
                assert others[got.other].label != one.label


def test_pairs_with_one_equal_side_are_not_near_duplicates():
    long = " ".join("abcdefghijklmnopqrstuvwxyz")
    assert list(find_near_duplicates([Example(long, "x", 1, "one"), Example(long, "y", 2, "two")], [])) == []
    (found,) = find_near_duplicates([Example(long, "x", 1, "one two"), Example(long, "y", 2, "two one")], [])
    assert found.similarity == 1.0


def test_case_punctuation_and_order_do_not_matter():
    one, other = Example("The soup, was GOOD!", "a", 1), Example("good was the soup", "b", 2)
    (found,) = find_near_duplicates([other], [one])
    assert (found.index, found.other, found.in_training, found.similarity) == (0, 0, True, 1.0)
    assert list(find_near_duplicates([Example("...", "a", 1), Example("!!!", "b", 2)], [])) == []


def test_composed_and_decomposed_letters_are_equal():
    one, other = Example("na\u00efve caf\u00e9 \ufb01ne", "a", 1), Example("nai\u0308ve cafe\u0301 fine", "b", 2)
    (found,) = find_near_duplicates([one, other], [])
    assert found.similarity == 1.0


def test_label_sets_differ_by_any_label():
    both = [Example("a b c", ("x", "y"), 1), Example("a b c", ("x",), 2), Example("a b c", ("x", "y"), 3)]
    assert [(found.index, found.other) for found in find_near_duplicates(both, [])] == [(1, 0), (2, 1)]


def test_many_equal_texts_are_compared_once():
    examples = [Example("the same text", "ab"[number % 2], number) for number in range(20_000)]
    assert sum(1 for _ in find_near_duplicates(examples, [])) == 19_999

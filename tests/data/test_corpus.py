"""The embedded questions are what they say: enough, varied, and with no test question near a training one."""

from collections import Counter

import pytest

from mtsa.corpora import corpus_files
from mtsa.data import readers, tokenization
from mtsa.data.examples import Layout


@pytest.fixture(scope="module")
def questions():
    tokenizer = tokenization.word_tokenizer()
    found = {}
    for part, path in corpus_files("corpus:questions").items():
        rows = []
        for example in readers.read(path, Layout(format="tsv")):
            pieces = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(example.text))
            rows.append((example.label, tuple(word for word, _ in pieces)))
        found[part] = rows
    return found


def test_size_and_classes(questions):
    assert sum(map(len, questions.values())) >= 1000
    for rows in questions.values():
        assert set(Counter(label for label, _ in rows)) == {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}


def test_four_grams_hardly_repeat(questions):
    grams = [row[at : at + 4] for rows in questions.values() for _, row in rows for at in range(len(row) - 3)]
    assert len(set(grams)) / len(grams) >= 0.85


def test_no_question_is_there_twice(questions):
    rows = [row for part in questions.values() for _, row in part]
    assert len(set(rows)) == len(rows)


def test_no_test_question_is_near_a_training_one(questions):
    plain = {part: [tuple(w for w in row if w[0].isalnum()) for _, row in rows] for part, rows in questions.items()}
    for held in (*plain["test"], *plain["dev"]):
        near = [row for row in plain["train"] if distance(held, row, 3) <= 3]
        assert near == [], (held, near)


def distance(first, second, most):
    """Word edits between two rows, exact up to `most`."""
    if abs(len(first) - len(second)) > most or len(set(first) - set(second)) > most:
        return most + 1
    row = list(range(len(second) + 1))
    for i, word in enumerate(first, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(second, 1):
            previous, row[j] = row[j], min(previous + (word != other), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def test_distance_itself():
    assert distance(["a", "b", "c"], ["a", "x", "c", "d"], 3) == 2
    assert distance(["a", "b", "c", "d", "e"], ["v", "w", "x", "y", "z"], 3) > 3

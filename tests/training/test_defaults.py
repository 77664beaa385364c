"""Settings that follow from a user's data."""

import math

from mtsa.training.defaults import pretrained_settings, text_settings
from mtsa.training.launch import build_recipe
from mtsa.training.pretrained_inputs import PretrainedFacts
from tests.sample_data import glove, sentences, write_csv

SIZES = (200, 2_000, 2_001, 20_000, 20_001, 200_000, 10**6)


def test_larger_data_gets_larger_batches_and_fewer_epochs():
    found = [text_settings(examples, vectors=False)["training"] for examples in SIZES]
    batches, epochs, patience = ([one[key] for one in found] for key in ("batch_size", "epochs", "patience"))
    assert batches == sorted(batches)
    assert batches[-1] > batches[0]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[-1] < epochs[0]
    assert patience == sorted(patience, reverse=True)
    assert all(0 < few < many for few, many in zip(patience, epochs, strict=True))


def test_small_data_is_refitted_and_large_data_is_evaluated_within_an_epoch():
    small, large = (text_settings(examples, vectors=False)["training"] for examples in (200, 10**6))
    assert small.get("refit", False)
    assert not large.get("refit", False)
    assert 0 < large["eval_steps"] < 10**6 / large["batch_size"]


def test_vectors_learn_slowly_and_less_is_dropped(tmp_path):
    data = {"train": str(write_csv(tmp_path / "train.csv", sentences(30)))}
    file = str(glove(tmp_path / "glove.txt"))
    plain, known = build_recipe(None, data=data), build_recipe(None, data=data, vectors=file)
    assert (plain.vectors.lr_multiplier, plain.model.dropout, plain.training.refit) == (1.0, 0.5, True)
    assert (known.vectors.lr_multiplier, known.model.dropout, known.training.refit) == (0.3, 0.3, True)


def test_what_the_user_says_counts(tmp_path):
    data = {"train": str(write_csv(tmp_path / "train.csv", sentences(30)))}
    settings = ["training.refit=false", "vectors.lr_multiplier=0.5", "model.dropout=0.2"]
    made = build_recipe(None, data=data, vectors=str(glove(tmp_path / "glove.txt")), seed=3, settings=settings)
    assert (made.training.refit, made.vectors.lr_multiplier, made.model.dropout, made.training.seed) == (False, 0.5, 0.2, 3)
    assert made.training.batch_size == 32


def test_few_examples_over_a_pretrained_model_get_enough_steps():
    facts = PretrainedFacts(max_length=512, joins_pairs=True)
    for examples in (40, 100, 150, 400, 1_000, 5_000):
        training = pretrained_settings(examples, facts, frozen=False, paired=False)["training"]
        steps = training["epochs"] * math.ceil(examples / training["batch_size"])
        assert steps >= 60, examples
        assert 0 < training["warmup_steps"] < steps

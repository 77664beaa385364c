"""Settings that follow from a user's data."""

import pytest

from mtsa.training.defaults import text_settings
from mtsa.training.launch import build_recipe
from tests.workbench import glove, sentences, write_csv


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        (500, {"batch_size": 32, "epochs": 40, "patience": 8, "refit": True}),
        (2_000, {"batch_size": 32, "epochs": 40, "patience": 8, "refit": True}),
        (2_001, {"batch_size": 32, "epochs": 30, "patience": 6, "refit": True}),
        (20_001, {"batch_size": 64, "epochs": 8, "patience": 2}),
        (10**6, {"batch_size": 128, "epochs": 4, "patience": 2, "eval_steps": 1000}),
    ],
)
def test_training_follows_from_the_size(examples, expected):
    assert text_settings(examples, vectors=False) == {"training": expected}


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

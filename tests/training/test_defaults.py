"""Settings that follow from a user's data."""

import pytest

from mtsa.training.defaults import settings_for
from mtsa.training.start import make
from tests.workbench import glove, sentences, write_csv


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        (500, {"batch": 32, "epochs": 40, "patience": 8, "refit": True}),
        (2_000, {"batch": 32, "epochs": 40, "patience": 8, "refit": True}),
        (2_001, {"batch": 32, "epochs": 30, "patience": 6, "refit": True}),
        (20_001, {"batch": 64, "epochs": 8, "patience": 2}),
        (10**6, {"batch": 128, "epochs": 4, "patience": 2, "evaluate_every": 1000}),
    ],
)
def test_training_follows_from_the_size(examples, expected):
    assert settings_for(examples, vectors=False) == {"training": expected}


def test_vectors_learn_slowly_and_less_is_dropped(tmp_path):
    data = {"train": str(write_csv(tmp_path / "train.csv", sentences(30)))}
    file = str(glove(tmp_path / "glove.txt"))
    plain, known = make(None, data=data), make(None, data=data, vectors=file)
    assert (plain.vectors.rate, plain.model.dropout, plain.training.refit) == (1.0, 0.5, True)
    assert (known.vectors.rate, known.model.dropout, known.training.refit) == (0.3, 0.3, True)


def test_what_the_user_says_counts(tmp_path):
    data = {"train": str(write_csv(tmp_path / "train.csv", sentences(30)))}
    settings = ["training.refit=false", "vectors.rate=0.5", "model.dropout=0.2"]
    made = make(None, data=data, vectors=str(glove(tmp_path / "glove.txt")), seed=3, settings=settings)
    assert (made.training.refit, made.vectors.rate, made.model.dropout, made.training.seed) == (False, 0.5, 0.2, 3)
    assert made.training.batch == 32

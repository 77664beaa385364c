"""The table of documents: the official folds, its models, and one small run."""

import csv
import gzip

import pytest
from reproduce.paths import Paths
from reproduce.runner import execute_all
from reproduce.tables import DOCUMENTS

from mtsa.errors import InputError
from tests.sample_data import glove, sentences

REVIEWS = DOCUMENTS.datasets["reviews"]


@pytest.fixture
def paths(tmp_path):
    return write(tmp_path, folds=10)


def write(folder, folds):
    rows = [(number % folds, label, " . ".join([text] * 9)) for number, (text, label) in enumerate(sentences(100))]
    with gzip.open(folder / "polarity2.csv.gz", "wt", newline="") as file:
        csv.writer(file).writerows([("fold", "label", "text"), *rows])
    return Paths(folder, glove(folder / "glove.txt"))


def run_of(paths, model, runs=1):
    return DOCUMENTS.runs(paths, (), (model,), runs)


def test_folds_are_those_of_the_file(paths):
    (run, *_) = run_of(paths, "hierarchical_mtsa")
    tested = set()
    for number in range(10):
        split = REVIEWS.split(run.recipe, paths, number)
        assert {(example.line - 2) % 10 for example in split.test} == {number}
        tested |= {example.line for example in split.test}
        assert len(split.test) + len(split.train) + len(split.dev) == 100
    assert len(tested) == 100


def test_a_file_with_other_folds_is_refused(tmp_path):
    paths = write(tmp_path, folds=5)
    (run, *_) = run_of(paths, "hierarchical_mtsa")
    with pytest.raises(InputError, match="column fold has 5 folds instead of 10"):
        REVIEWS.split(run.recipe, paths, 0)


def test_every_model_reads_whole_reviews(paths):
    for name in ("mtsa", "hierarchical_mtsa", "bilstm", "multihead", "biblosa"):
        (run, *_) = run_of(paths, name)
        assert run.recipe.encoder["name"] == name
        assert run.recipe.tokens.max_length == 4096
        assert run.recipe.training.batch_tokens == 16_384


def test_rows_over_windows():
    frozen, tuned = (DOCUMENTS.models[name] for name in ("minilm-windows-mtsa", "minilm-windows-tuned"))
    assert frozen.recipe == tuned.recipe == "reviews.minilm.cpu"
    assert (frozen.planned(REVIEWS), tuned.planned(REVIEWS)) == (10, 2)


def test_a_baseline_run(paths, tmp_path):
    runs = run_of(paths, "tfidf")
    assert not execute_all(runs, tmp_path / "records", minutes=None).runs
    assert (tmp_path / "records/reviews/tfidf/fold-01.json").exists()

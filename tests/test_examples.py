"""The scripts in examples/ run and train models of equal size, better than the most frequent class."""

import csv
import os
import re
import subprocess
import sys

import pytest

from mtsa.corpora import corpus_files, corpus_layout
from mtsa.data.readers import read
from tests.doc_commands import ROOT

EXAMPLES = ROOT / "examples"
MOST_FREQUENT = 19.4  # percent of the test questions


def run(name):
    """The printed rows: name, parameters, accuracy."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^([\w-]+) +([\d,]+)  ([\d.]+)", done.stdout, re.M)
    return {label: (int(count.replace(",", "")), float(accuracy)) for label, count, accuracy in found}


def check(rows):
    assert list(rows) == ["mtsa", "multi-head"]
    (ours, accuracy), (theirs, other) = rows["mtsa"], rows["multi-head"]
    assert 0.99 * theirs < ours <= theirs
    assert accuracy > 2 * MOST_FREQUENT
    assert other > 2 * MOST_FREQUENT


def test_the_classifier_in_plain_pytorch():
    check(run("classifier.py"))


@pytest.mark.slow
def test_the_layer_in_a_trainer():
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    check(run("trainer.py"))


@pytest.mark.slow
def test_the_patched_bert():
    check(run("patched_bert.py"))


def test_the_data_are_the_embedded_questions():
    files, layout = corpus_files("corpus:questions"), corpus_layout("corpus:questions", "classification", ("questions",))
    for name, parts in (("train", ("train", "dev")), ("test", ("test",))):
        with (EXAMPLES / "data" / f"questions-{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
        assert rows == [(example.text, example.label) for part in parts for example in read(files[part], layout)]

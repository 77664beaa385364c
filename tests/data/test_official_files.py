"""The official files themselves, where they are at hand: every row read, none misread."""

import os
from collections import Counter
from pathlib import Path

import pytest

from mtsa.data import readers
from mtsa.data.examples import Layout

FOLDER = Path(os.environ.get("MTSA_DATA", Path(__file__).parents[3] / "shared" / "data")) / "classification"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the official data sets are not at hand (set MTSA_DATA to their folder)"
)


def read(name, **layout):
    return readers.read(FOLDER / name, Layout(**layout))


@pytest.mark.parametrize(("name", "rows", "empty"), [("cr.all", 3771, 4), ("mpqa.all", 10603, 3), ("subj.all", 10000, 0)])
def test_label_text_files(name, rows, empty):
    found = read(name, format="label_text")
    assert (len(found), len(found.empty)) == (rows, empty)
    assert set(Counter(example.label for example in found)) == {"0", "1"}


def test_trec():
    train, test = read("trec.train", format="trec"), read("trec.test", format="trec")
    assert (len(train), len(test)) == (5452, 500)
    assert len({example.label for example in train}) == 6
    assert len({example.label for example in read("trec.train", format="trec", classes=50)}) == 50


def test_sst():
    assert [len(read(f"sst/{part}.txt", format="sst")) for part in ("train", "dev", "test")] == [8544, 1101, 2210]
    phrases = read("sst/train.txt", format="sst", phrases=True)
    assert len(phrases) == 318582
    assert len(read("sst/test.txt", format="sst", classes=2)) == 1821

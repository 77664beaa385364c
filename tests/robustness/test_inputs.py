"""Damaged files to every reader; `python -m tests.robustness` gives them many more."""

import pytest

from tests.robustness.inputs import fuzz, readers_of

COUNT = 150


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def known(folder):
    return {reader.name: reader for reader in readers_of(folder)}


NAMES = [
    "CSV", "CSV with numbers", "CSV with pairs", "TSV", "JSON lines", "label and text", "TREC", "SST trees", "SNLI, JSON",
    "SNLI, tab", "label and pair", "tags in columns", "tags, JSON", "props", "props without words", "words of props",
    "PropBank columns", "roles, JSON", "parallel text", "word vectors", "word vectors, zip", "index of shards", "recipe",
    "check of a file", "check of tags", "check of roles",
]  # fmt: skip


def test_all_readers_are_fuzzed(known):
    assert set(known) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_good_file_is_read(known, folder, name):
    path = folder / known[name].file
    path.write_bytes(known[name].good)
    assert not known[name].refuses(path)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_read_or_refused(known, folder, name):
    found = fuzz(known[name], folder, COUNT, seed=0)
    assert found["tried"] == COUNT
    assert found["refused"] > 0  # the damage is real

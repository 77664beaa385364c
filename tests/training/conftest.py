"""Fixtures of the tests of training."""

import pytest

from tests.sample_data import sentences, write_csv


@pytest.fixture(scope="session")
def labelled_csv(tmp_path_factory):
    """A file of 160 texts with two labels; not to be changed."""
    return write_csv(tmp_path_factory.mktemp("labelled") / "train.csv", sentences(160))

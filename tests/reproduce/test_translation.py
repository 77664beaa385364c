"""The table of translation: plan, and real runs on small files."""

import pytest
from reproduce.__main__ import app
from reproduce.comparison import unpack_items
from reproduce.paths import Paths
from reproduce.records import read_records
from reproduce.runner import execute_all
from reproduce.tables import TRANSLATION
from typer.testing import CliRunner

from mtsa.metrics.bleu import bleu_of
from mtsa.training.recipe import AUTHORS_SWAP
from tests.training.test_translation import parallel


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multi30k")
    for seed, (name, count) in enumerate((("train", 60), ("val", 6), ("test_2016_flickr", 8), ("test_2017_flickr", 5))):
        parallel(folder, name, count, seed)
    return Paths(folder)


@pytest.fixture(scope="module")
def records(paths, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    chosen = TRANSLATION.runs(paths, [], ["multihead", "mtsa"], 1)
    assert [str(run.path) for run in chosen] == ["multi30k/multihead/seed-0.json", "multi30k/mtsa/seed-0.json"]
    execute_all(chosen, folder, minutes=None)
    return folder


def test_models_differ_in_the_encoder_alone(paths):
    recipes = {run.model: run.recipe for run in TRANSLATION.runs(paths, limit=1)}
    assert len({(str(recipe.training), str(recipe.model), str(recipe.translator)) for recipe in recipes.values()}) == 1
    assert recipes["multihead"].swap is None
    assert recipes["mtsa"].swap == AUTHORS_SWAP
    assert recipes["mtsa-halves"].swap == {**AUTHORS_SWAP, "masks": "halves"}
    assert len(TRANSLATION.runs(paths)) == 9


@pytest.mark.slow
def test_a_record_has_every_test_part_with_the_counts_of_each_sentence(records):
    found = TRANSLATION.check(read_records(records))
    for record in found:
        assert list(record["test"]) == ["test", "test_2017_flickr"]
        assert [len(part["items"]["rows"]) for part in record["test"].values()] == [8, 5]
        for part in record["test"].values():
            assert bleu_of(unpack_items(part["items"]).tolist()) == pytest.approx(part["bleu"])
        assert "bleu" in record["dev"]
    plain, tensorized = (record["parameters"]["all"] for record in sorted(found, key=lambda one: one["model"], reverse=True))
    assert tensorized - plain == 2 * 4 * (64 * 64 + 64)


def test_the_view_and_the_command(records, paths):
    found = TRANSLATION.check(read_records(records))
    (view,) = TRANSLATION.shown(found)
    rows = {row[0]: row for row in TRANSLATION.rows(view, found)}
    assert not any("mtsa-halves" in name for name in rows)  # not run
    assert rows["MTSA (`mtsa`)"][1].endswith("[1 of 3]")
    done = CliRunner().invoke(app, ["table", "translation", "--records", str(records), "--show"])
    assert done.exit_code == 0, done.output
    assert "Multi30k" in done.output
    again = ["table", "translation", "--data", str(paths.data), "--models", "mtsa", "--runs", "1", "--records", str(records)]
    assert "1 runs: 1 finished, 0 remaining" in CliRunner().invoke(app, again).output

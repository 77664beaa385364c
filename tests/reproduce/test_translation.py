"""The table of translation: plan, real units on small files, significance, and the page made of them."""

import json

import pytest
from reproduce.__main__ import app
from reproduce.records import read_records
from reproduce.runner import run_units
from reproduce.translation_table import bleu_rows, checked, section
from typer.testing import CliRunner

from mtsa.errors import InputError
from mtsa.metrics.significance import paired_bootstrap, t_test
from mtsa.training.recipe import AUTHORS_SWAP
from reproduce import translation as plan
from tests.training.test_translation import parallel


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multi30k")
    for seed, (name, count) in enumerate((("train", 60), ("val", 6), ("test_2016_flickr", 8), ("test_2017_flickr", 5))):
        parallel(folder, name, count, seed)
    return folder


@pytest.fixture(scope="module")
def records(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    chosen = plan.units([], ["multihead", "mtsa"], data, 1)
    assert [str(unit.path) for unit in chosen] == ["multi30k/multihead/seed-0.json", "multi30k/mtsa/seed-0.json"]
    run_units(chosen, folder, minutes=None)
    return folder


def test_rows_differ_in_the_encoder_alone(data):
    recipes = {unit.row: unit.recipe for unit in plan.units([], [], data, 1)}
    assert len({(str(recipe.training), str(recipe.model), str(recipe.translator)) for recipe in recipes.values()}) == 1
    assert recipes["multihead"].swap is None
    assert recipes["mtsa"].swap == AUTHORS_SWAP
    assert recipes["mtsa-halves"].swap == {**AUTHORS_SWAP, "masks": "halves"}
    assert len(plan.units([], [], data)) == 9


@pytest.mark.slow
def test_a_record_holds_every_test_part_once(records):
    found = checked(read_records(records))
    for record in found:
        (test,) = record["test_evaluations"]
        assert set(test["parts"]) == {"test_2016_flickr", "test_2017_flickr"}
        assert [len(part["sentence_counts"]) for part in test["parts"].values()] == [8, 5]
        assert "bleu" in record["dev"]
    plain, tensorized = (record["parameters"]["all"] for record in sorted(found, key=lambda one: one["row"], reverse=True))
    assert tensorized - plain == 2 * 4 * (64 * 64 + 64)


def test_the_page(records):
    found = checked(read_records(records))
    rows = bleu_rows(found)
    assert rows[5][3] == "not run"
    assert rows[3][0] == "multi30k: mtsa"
    assert 0.0 <= float(rows[3][5]) <= 1.0
    assert rows[-1][3] == "27.21"
    assert "Translation" in section(found)
    changed = json.loads(json.dumps(found[-1]))
    changed["settings"]["training"]["epochs"] = 99
    with pytest.raises(InputError, match="other settings or files"):
        checked([*found[:-1], changed])
    with pytest.raises(InputError, match="belongs to no cell"):
        checked([{**found[0], "row": "other"}])


def test_the_command(records, data):
    done = CliRunner().invoke(app, ["table", "translation", "--records", str(records), "--show"])
    assert done.exit_code == 0, done.output
    assert "multi30k: mtsa" in done.output
    again = ["table", "translation", "--data", str(data), "--models", "mtsa", "--runs", "1", "--records", str(records)]
    assert "1 units, 1 recorded; 0 to run" in CliRunner().invoke(app, again).output


def test_chance():
    assert t_test([1.0], [2.0, 3.0]) is None
    assert t_test([5.0, 5.1, 5.2], [1.0, 1.1, 1.2]) < 0.001
    assert t_test([1.0, 2.0, 3.0], [1.1, 2.0, 2.9]) > 0.9
    assert t_test([1.0, 2.0, 3.0, 6.0], [4.0, 4.1]) == pytest.approx(0.4029, abs=1e-3)  # Welch's; equal variances give 0.552
    mean = lambda rows: sum(row[0] for row in rows) / len(rows)  # noqa: E731
    ours, theirs = [[2], [3], [4], [5]], [[1], [2], [3], [4]]
    assert paired_bootstrap([ours], [theirs], mean) == pytest.approx(1 / 1001)
    assert paired_bootstrap([theirs], [ours], mean) == 1.0
    assert paired_bootstrap([ours], [ours], mean) == 1.0
    assert paired_bootstrap([ours, theirs], [theirs, ours], mean) == 1.0  # the runs of each count together
    mixed = paired_bootstrap([[[2], [0]] * 5], [[[0], [1.5]] * 5], mean)
    assert 0.0 < mixed < 0.9


def test_the_chance_of_a_row_is_that_of_its_runs(records):
    found = checked(read_records(records))
    several = []
    for record in found:
        for number, gain in enumerate((0.0, 1.0, 2.5)):
            copy = json.loads(json.dumps({**record, "unit": f"seed-{number}"}))
            part = copy["test_evaluations"][0]["parts"]["test_2016_flickr"]
            part["bleu"] = 20.0 + gain + (3.0 if record["row"] == "mtsa" else 0.0)
            several.append(copy)
    plain, row = (
        next(line for line in bleu_rows(several) if line[0] == f"multi30k: {name}") for name in ("multihead", "mtsa")
    )
    assert plain[3] == "21.17 (1.26) [3]"
    assert plain[4] == plain[5] == ""
    assert row[3] == "24.17 (1.26) [3]"
    assert float(row[4]) == pytest.approx(t_test([23.0, 24.0, 25.5], [20.0, 21.0, 22.5]), abs=5e-4)

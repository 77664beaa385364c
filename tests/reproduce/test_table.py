"""The table definition: planned runs, checks of records, cells, and the command."""

import itertools
import json

import pytest
from reproduce.__main__ import app
from reproduce.dataset import DataSet
from reproduce.paths import Paths
from reproduce.table import Column, Model, Table, View
from reproduce.tables import TABLES
from typer.testing import CliRunner

from mtsa.errors import InputError
from mtsa.training.recipe_files import load_recipe
from reproduce import table_page


@pytest.mark.parametrize("name", TABLES)
def test_every_view_refers_to_models_and_data_sets_of_its_table(name):
    table = TABLES[name]
    for view in table.views:
        assert set(view.models) <= set(table.models)
        assert {column.dataset for column in view.columns} <= set(table.datasets)
        assert set(view.paper) <= set(view.models)
        assert {len(cells) for cells in view.paper.values()} <= {len(view.columns)}
        assert all(table.models[model].paper for model in view.paper)
    for dataset, model in itertools.product(table.datasets.values(), table.models.values()):
        assert 0 <= model.planned(dataset) <= dataset.runs
        assert load_recipe(model.recipe or dataset.recipe).task


def table_of(**options):
    datasets = {"a": DataSet("a", "A", "trec.cpu", {}, seeds=2), "b": DataSet("b", "B", "cr.cpu", {}, folds=3)}
    models = {name: Model(name, name, "mtsa", paper=name.upper()) for name in ("one", "two")}
    models["two"] = Model("two", "two", "mtsa", runs={"b": 0})
    columns = (Column("A", "a"), Column("B", "b", metric="unseen.accuracy"))
    views = (View("All", columns, ("one", "two"), {"one": ("90", "80")}),)
    return Table("t", "Title", datasets, models, views, "Notes.", **options)


def record(model, dataset, run, accuracy, unseen=None, batch=32):
    test = {"accuracy": accuracy, "count": 10, "items": {"metric": "accuracy", "rows": "1" * round(10 * accuracy)}}
    test["items"]["rows"] = test["items"]["rows"].ljust(10, "0")
    if unseen is not None:
        test["unseen"] = {"accuracy": unseen, "count": 5}
    settings = {"training": {"batch_size": batch}, "data": {"train": "x.csv"}, "encoder": {"name": "mtsa"}, "folds": 0}
    machine = {"processor": "P", "threads": 1}
    return {
        "table": "t", "model": model, "dataset": dataset, "run": run, "seconds": 60.0, "settings": settings, "sources": {},
        "test": {"test": test}, "machine": machine, "versions": {"torch": "2"},
    }  # fmt: skip


def test_cells_are_means_with_deviation_and_missing_runs():
    table = table_of()
    records = [record("one", "a", f"seed-{n}", value) for n, value in enumerate((0.9, 0.8))]
    records += [record("one", "b", "fold-01", 0.7, unseen=0.6), record("two", "a", "seed-0", 0.5)]
    (view,) = table.shown(records)
    rows = table.rows(view, records)
    assert rows[0] == ["model", "A", "A (paper)", "B", "B (paper)", "settings and deviations"]
    assert rows[1] == ["one (`one`)", "85.0 (7.1)", "90", "60.0 [1 of 3]", "80", "one"]
    assert rows[2] == ["two (`two`)", "50.0 [1 of 2]", "", "", "", "two"]  # not planned on b
    assert "not run" in table.rows(view, records[:1])[1]
    assert table.missing(records, ["a", "b"]) == ["A: two (1 of 2 runs)", "B: one (1 of 3 runs)"]
    assert "Notes." in table_page.page(table, records, [], "")
    assert "Not run yet" in table_page.page(table, [], [], "")


def test_a_view_without_records_is_not_shown():
    assert table_of().shown([]) == []


@pytest.mark.parametrize(
    ("key", "value"), [("run", "fold-01"), ("run", "seed-2"), ("model", "x"), ("dataset", "x"), ("table", "x")]
)
def test_a_record_outside_the_plan_is_refused(key, value):
    good = record("one", "a", "seed-0", 0.9)
    assert table_of().check([good]) == [good]
    with pytest.raises(InputError, match="does not belong to table t"):
        table_of().check([good | {key: value}])


def test_records_of_one_cell_with_other_settings_are_refused():
    good, other = record("one", "a", "seed-0", 0.9), record("one", "a", "seed-1", 0.9, batch=7)
    with pytest.raises(InputError, match=r"seed-1\.json and a/one/seed-0\.json have different settings"):
        table_of().check([good, other])
    seeded = json.loads(json.dumps(record("one", "a", "seed-1", 0.9)))
    seeded["settings"]["training"]["seed"] = 1
    assert table_of().check([good, seeded])
    old = json.loads(json.dumps(good))
    old["settings"]["training"]["max_grad_norm"] = 0.0  # the default of a key that the other record does not have
    assert table_of().check([good, old | {"run": "seed-1"}])


@pytest.mark.parametrize(
    ("datasets", "models", "message"),
    [
        (["trek"], [], 'unknown data set "trek"; did you mean "trec"?'),
        ([], ["lstm"], 'unknown model "lstm"'),
        ([], [], "contains no data set of table classification; download one with: mtsa data get cr"),
    ],
)
def test_unknown_names_and_missing_data(tmp_path, datasets, models, message):
    with pytest.raises(InputError) as raised:
        TABLES["classification"].runs(Paths(tmp_path), datasets, models)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["clasification", "--show"], 'unknown table "clasification"; did you mean "classification"?'),
        (["classification", "--show"], "contains no records"),
        (["classification", "--show", "--records", "FILE"], "is a file; choose a folder"),
        (["classification", "--data", "FOLDER"], "contains no data set of table classification"),
        (["nli", "--pretrained", "gpt"], "expected NAME=FOLDER"),
        (["nli", "--models", "minilm-mtsa", "--datasets", "snli"], "--pretrained minilm=FOLDER"),
    ],
)
def test_mistakes_are_reported_in_one_line(options, message, tmp_path):
    (tmp_path / "file").write_text("")
    values = {"FILE": str(tmp_path / "file"), "FOLDER": str(tmp_path)}
    options = [values.get(option, option) for option in options]
    records = [] if "--records" in options else ["--records", str(tmp_path / "none")]
    done = CliRunner().invoke(app, ["table", *options, *records])
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_tables_do_not_run_under_torchrun(monkeypatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = CliRunner().invoke(app, ["table", "nli", "--records", str(tmp_path)])
    assert done.exit_code == 2
    assert "torchrun" in done.stderr


def test_models_on_different_files_are_refused():
    one, other = record("one", "a", "seed-0", 0.9), record("two", "a", "seed-0", 0.8)
    one["sources"], other["sources"] = {"x.csv": {"sha256": "1"}}, {"x.csv": {"sha256": "2"}}
    with pytest.raises(InputError, match=r"different checksums of x\.csv"):
        table_of().check([one, other])


def test_seeds_with_different_choices_are_refused():
    one, other = record("one", "a", "seed-0", 0.9), record("one", "a", "seed-1", 0.8)
    one["chosen"], other["chosen"] = {"training.learning_rate": 1e-3}, {"training.learning_rate": 1e-2}
    with pytest.raises(InputError, match="have different settings"):
        table_of().check([one, other])
    folds = [record("one", "b", f"fold-{number:02d}", 0.9) | {"chosen": {"x": number}} for number in (1, 2)]
    assert table_of().check(folds)


def test_a_cell_without_planned_runs(tmp_path):
    done = CliRunner().invoke(
        app, ["table", "nli", "--datasets", "protocols", "--models", "mtsa_no_masks", "--records", str(tmp_path)]
    )
    assert done.exit_code == 2
    assert "contains no records" in done.stderr

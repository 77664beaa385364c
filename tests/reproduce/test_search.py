"""The search: every candidate is screened on dev, finalists are trained to the end, the best on dev is tested once."""

import dataclasses
import json

import pytest
from reproduce.__main__ import app
from reproduce.dataset import DataSet
from reproduce.paths import Paths
from reproduce.records import read_records
from reproduce.runner import estimate, execute_all
from reproduce.runs import ScreeningRun, dev_score, screen_recipe
from reproduce.table import Column, Model, Search, Table, View
from reproduce.table_page import cost_rows, search_rows
from reproduce.tables import TABLES
from typer.testing import CliRunner

from mtsa.errors import InputError
from mtsa.training.loop import TrainingLoop
from tests.sample_data import glove, sentences

KINDS = {"colour": "ENTY", "fruit": "LOC"}
CANDIDATES = tuple({"training.learning_rate": rate} for rate in (1e-5, 1e-2, 3e-3))
SMALL = {"encoder.head_dim": 4, "model.hidden": 8, "training.epochs": 8, "training.patience": 0, "training.refit": "false"}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for part, count in (("train", 60), ("test", 12)):
        lines = [f"{KINDS[label]}:x {text}\n" for text, label in sentences(count, seed=count)]
        (folder / f"trec.{part}").write_text("".join(lines), encoding="latin-1")
    lines = sorted(f"{int(label == 'fruit')} {text}\n" for text, label in sentences(60, seed=1))
    (folder / "cr.all").write_text("".join(lines), encoding="latin-1")
    return Paths(folder, glove(folder / "vectors.txt"))


def table_of(name):
    datasets = {
        "trec": DataSet("trec", "TREC", "trec.cpu", {"train": "trec.train", "test": "trec.test"}, seeds=2),
        "cr": DataSet("cr", "CR", "cr.cpu", {"train": "cr.all"}, folds=3, screenings=2),
    }
    models = {"mtsa": Model("mtsa", "small", "mtsa", SMALL), "tfidf": Model("tfidf", "a baseline")}
    views = (View("All", (Column("X", name),), tuple(models)),)
    return Table("t", "T", {name: datasets[name]}, models, views, "", search=Search(CANDIDATES))


def execute(table, paths, folder):
    """Run what can start until nothing new can."""
    stages, before = [], []
    while True:
        runs = table.runs(paths, records=read_records(folder))
        if [run.path for run in runs] == before:
            return stages
        before = [run.path for run in runs]
        stages.append([run.name for run in runs if run.model == "mtsa" and not (folder / run.path).exists()])
        execute_all(runs, folder, minutes=None, say=lambda line: None)


@pytest.fixture(scope="module")
def seeds(paths, tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    return execute(table_of("trec"), paths, folder), read_records(folder)


def test_stages_with_seeds(seeds):
    stages, records = seeds
    assert stages == [["screen-1-seed-0", "screen-2-seed-0", "screen-3-seed-0"], ["seed-0"], ["seed-1"]]
    found = {record["run"]: record for record in records if record["model"] == "mtsa"}
    screened = [found[f"screen-{number}-seed-0"] for number in (1, 2, 3)]
    assert all(record["test"] == {} for record in screened)
    order = sorted(range(3), key=lambda place: -screened[place]["dev_score"])
    finalists = [CANDIDATES[place] for place in sorted(order[:2])]
    assert CANDIDATES[0] not in finalists  # too small a rate to learn anything
    assert found["seed-0"]["settings"]["candidates"] == finalists
    best = max(range(2), key=lambda place: found["seed-0"]["candidate_scores"][place])
    assert found["seed-0"]["chosen"] == finalists[best]
    assert dev_score(found["seed-0"]) == max(found["seed-0"]["candidate_scores"])
    assert found["seed-1"]["settings"]["candidates"] == [found["seed-0"]["chosen"]]


def test_screening_is_a_part_of_the_training_with_the_schedule_of_the_whole(seeds):
    _, records = seeds
    found = {record["run"]: record for record in records if record["model"] == "mtsa"}
    whole = found["seed-0"]
    screened = found[f"screen-{CANDIDATES.index(whole['chosen']) + 1}-seed-0"]
    assert screened["steps"] == round(3 / 8 * whole["steps"])
    assert screened["dev_curve"] == whole["dev_curve"][: len(screened["dev_curve"])]  # the same course, as far as it goes


def test_screening_records_are_not_shown(seeds):
    table, (_, records) = table_of("trec"), seeds
    shown = table.check(records)
    assert {record["run"] for record in shown} == {"seed-0", "seed-1"}
    (row,) = [line for line in table.rows(table.views[0], shown) if line[0] == "MTSA (`mtsa`)"]
    assert "[" not in row[1]  # two of two
    with pytest.raises(InputError, match="does not belong"):
        table.check([{**records[0], "run": "screen-9-seed-0"}])
    unsearched = dataclasses.replace(table, search=None)
    with pytest.raises(InputError, match="does not belong"):
        unsearched.check(records)


def test_stages_with_folds(paths, tmp_path):
    stages = execute(table_of("cr"), paths, tmp_path)
    screens = [f"screen-{number}-fold-{fold:02d}" for number in (1, 2, 3) for fold in (1, 2)]
    assert stages == [screens, ["fold-01", "fold-02", "fold-03"]]
    records = [record for record in read_records(tmp_path) if record["model"] == "mtsa"]
    final = [record for record in records if record["test"]]
    assert {len(record["candidate_scores"]) for record in final} == {2}  # each fold chooses for itself
    assert len(table_of("cr").check(records)) == 3


def test_an_interrupted_screening_resumes(paths, tmp_path, monkeypatch):
    table = table_of("trec")
    run = next(run for run in table.runs(paths) if isinstance(run, ScreeningRun))
    split = run.data.split(run.recipe, paths, 0)
    recipe = run.recipe_of(CANDIDATES[1])
    whole = screen_recipe(recipe, tmp_path / "whole", split, part=0.5)
    save, saves = TrainingLoop.save, []

    def stopping(self):
        save(self)
        saves.append(self.state.step)
        if len(saves) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingLoop, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        screen_recipe(recipe, tmp_path / "part", split, part=0.5)
    resumed = screen_recipe(recipe, tmp_path / "part", split, part=0.5)
    assert len(saves) == len(set(saves)) > 2
    assert json.dumps(resumed["dev_curve"]) == json.dumps(whole["dev_curve"])


def test_a_score_that_is_not_a_number_is_the_worst():
    assert dev_score({"dev_curve": [{"score": float("nan")}, {"score": 0.25}]}) == 0.25
    assert dev_score({"dev_curve": [{"score": float("nan")}]}) < 0


def test_all_encoders_of_a_table_have_the_same_search():
    search = TABLES["nli"].search
    assert len(search.candidates) == 4
    assert all(model.searched for model in TABLES["nli"].models.values() if not model.pretrained)


def test_estimates_follow_from_the_part_that_was_trained(paths, tmp_path):
    """Screening costs 3/8 of a training, a run of two finalists costs two."""
    table = table_of("trec")
    screens = [run for run in table.runs(paths) if run.model == "mtsa"]
    execute_all(screens, tmp_path, minutes=None, say=lambda line: None)
    for run in screens:
        path = tmp_path / run.path
        path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 300.0}))
    final = next(
        run for run in table.runs(paths, records=read_records(tmp_path)) if (run.model, run.name) == ("mtsa", "seed-0")
    )
    assert estimate(final, tmp_path) == pytest.approx(2 * 800.0)
    assert estimate(screens[0], tmp_path) == pytest.approx(300.0)


def test_the_command_with_records_of_screening_only(tmp_path, seeds, monkeypatch):
    record = next(record for record in seeds[1] if record["run"].startswith("screen-"))
    path = tmp_path / record["dataset"] / record["model"] / f"{record['run']}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    monkeypatch.setitem(TABLES, "t", table_of("trec"))
    done = CliRunner().invoke(app, ["table", "t", "--show", "--records", str(tmp_path)])
    assert done.exit_code == 0
    assert "1 screening records" in done.output


def test_a_table_of_dev_scores_screens_and_runs_nothing_else(paths, tmp_path):
    table = dataclasses.replace(table_of("trec"), search=Search(({},)), dev_only=True)
    assert execute(table, paths, tmp_path) == [["screen-1-seed-0"]]
    records = read_records(tmp_path)
    ours = next(record for record in records if record["model"] == "mtsa")
    assert ours["test"] == {}
    assert ours["dev_score"] == max(entry["score"] for entry in ours["dev_curve"])


def test_the_page_shows_the_search_and_its_cost(seeds):
    table, records = table_of("trec"), seeds[1]
    header, *rows = search_rows(table, records)
    ours = next(dict(zip(header, row, strict=True)) for row in rows if row[1] == "MTSA")
    for record in records:
        if record["model"] == "mtsa" and record["run"].startswith("screen-"):
            (candidate,) = record["settings"]["candidates"]
            title = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in candidate.items())
            assert ours[title] == f"{100 * record['dev_score']:.1f}"
    first = next(record for record in records if (record["model"], record["run"]) == ("mtsa", "seed-0"))
    for score in first["candidate_scores"]:
        assert f": {100 * score:.1f}" in ours["finalists"]
    assert str(first["chosen"]["training.learning_rate"]) in ours["selected"]
    costs = {row[1]: row for row in cost_rows(table, records)}
    assert costs["MTSA"][2] == f"{first['parameters']['all']:,}"
    assert costs["MTSA"][-1] == f"{sum(one['seconds'] for one in records if one['model'] == 'mtsa') / 3600:.2f}"


def test_settings_of_single_data_sets_override_those_of_the_model(paths):
    table = table_of("trec")
    model = dataclasses.replace(table.models["mtsa"], overrides={"trec": {"model.hidden": 9}, "cr": {"model.hidden": 10}})
    for name, hidden in (("trec", 9), ("cr", 10)):
        run = dataclasses.replace(table_of(name), models={"mtsa": model}).runs(paths)[0]
        assert run.recipe.model.hidden == hidden

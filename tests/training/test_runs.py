"""Runs: trained, saved, opened again, used; every encoder, and every way a folder can be wrong."""

import dataclasses
import json
import shutil

import pytest
import torch
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.data import readers
from mtsa.encoders import encoder_names
from mtsa.errors import InputError
from mtsa.training.cross_validation import cross_validate, make_folds, repeat
from mtsa.training.optimizer import make_optimizer
from mtsa.training.prepare import prepare
from mtsa.training.recipe import Vectors
from mtsa.training.recipe_files import make_recipe
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import open_run
from mtsa.training.split import read_split, split_off
from tests.encoders.small_encoders import SMALL
from tests.sample_data import glove, sentences, small_recipe, write_csv


def run(recipe, folder, **options):
    return run_recipe(recipe, folder, **options)


@pytest.fixture(scope="module")
def trained(labelled_csv, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    outcome = run(small_recipe(labelled_csv, epochs=12), folder)
    return outcome, mtsa.load(folder)


def test_a_small_run_learns(trained):
    outcome, predictor = trained
    assert outcome.dev.metrics.accuracy > 0.95
    fresh = sentences(50, seed=9)
    answers = predictor.predict([text for text, _ in fresh])
    assert sum(answer.label == label for answer, (_, label) in zip(answers, fresh, strict=True)) > 45
    for answer in answers:
        assert sum(answer.probabilities.values()) == pytest.approx(1.0, abs=1e-5)
        assert answer.label == max(answer.probabilities, key=answer.probabilities.get)


@pytest.mark.parametrize("name", encoder_names())
def test_every_encoder_trains_saves_loads_and_predicts(name, labelled_csv, tmp_path):
    recipe = small_recipe(labelled_csv, {"name": name, **SMALL.get(name, {})}, epochs=1)
    outcome = run(recipe, tmp_path / "run")
    predictor = mtsa.load(tmp_path / "run")
    texts = [text for text, _ in sentences(23, seed=4)]
    together = predictor.predict(texts)
    for text, answer in zip(texts, together, strict=True):
        (alone,) = predictor.predict([text])
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-6)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["dev"]["accuracy"] == outcome.dev.metrics.accuracy
    split = read_split(recipe)
    rows = [example.text for example in split.dev]
    right = [answer.label == example.label for answer, example in zip(predictor.predict(rows), split.dev, strict=True)]
    assert sum(right) / len(right) == pytest.approx(outcome.dev.metrics.accuracy)


def test_the_same_seed_gives_the_same_weights_and_another_does_not(labelled_csv, tmp_path):
    states = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(small_recipe(labelled_csv, seed=seed), tmp_path / name)
        states.append(open_run(tmp_path / name).model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not all(
        torch.equal(states[0][key], states[2][key]) for key in states[0] if states[0][key].shape == states[2][key].shape
    )


def test_vectors_are_tuned_and_unseen_words_keep_theirs(labelled_csv, tmp_path):
    recipe = small_recipe(labelled_csv)
    path = glove(tmp_path / "v.txt", words=("red", "apple", "violet", "Upper", "well-known", "the"))
    recipe = dataclasses.replace(recipe, vectors=Vectors(file=str(path)))
    prepared = prepare(recipe, read_split(recipe))
    start = prepared.model()
    numbers = prepared.inputs.tokenizer.get_vocab()
    rows = {line.split()[0]: torch.tensor([float(x) for x in line.split()[1:]]) for line in path.read_text().splitlines()}
    torch.testing.assert_close(start.words.tuned[numbers["red"]], rows["red"])
    assert 0 < start.words.tuned[numbers["pear"]].abs().max() <= 0.05  # the paper's range for words without a vector
    assert (start.words.tuned[:2] == 0).all()
    assert "upper" not in numbers
    assert "well-known" not in numbers
    run(recipe, tmp_path / "run")
    model = open_run(tmp_path / "run").model
    assert not torch.equal(model.words.tuned[numbers["red"]], rows["red"])
    torch.testing.assert_close(model.words(torch.tensor([[numbers["violet"]]]))[0, 0], rows["violet"], rtol=0, atol=0)
    assert not model.words.frozen.requires_grad
    first, second = mtsa.load(tmp_path / "run").predict(["a violet here", "a unheardof here"])
    assert first.probabilities != second.probabilities
    assert any("of 22 training words have a vector" in remark for remark in prepared.remarks)


def test_l2_is_on_weights_alone(labelled_csv):
    recipe = small_recipe(labelled_csv, weight_decay=0.5)
    model = prepare(recipe, read_split(recipe)).model()
    optimizer = make_optimizer(model, recipe)
    decay = {id(value): group["weight_decay"] for group in optimizer.param_groups for value in group["params"]}
    for name, value in model.named_parameters():
        weight = value.dim() >= 2 and not name.startswith("words") and "bias" not in name
        assert decay[id(value)] == (0.5 if weight else 0.0), name


def test_early_stopping_and_the_best_model(tmp_path):
    other = {"colour": "fruit", "fruit": "colour"}
    rows = [(text, other[label] if number % 5 == 0 else label) for number, (text, label) in enumerate(sentences(160))]
    data = write_csv(tmp_path / "noisy.csv", rows)  # some labels are wrong, so that the loss never ends at 0
    outcome = run(small_recipe(data, epochs=40, patience=2), tmp_path / "run")
    assert outcome.steps < 40 * 9
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    scores = [entry["score"] for entry in record["dev_curve"]]
    best = max(scores)
    assert record["dev_curve"][scores.index(best)]["step"] == outcome.best_step
    assert len(scores) - 1 - scores.index(best) == 2
    chosen, last = record["dev_curve"][scores.index(best)], record["dev_curve"][-1]
    assert outcome.dev.loss == pytest.approx(chosen["loss"], rel=1e-5)
    assert chosen["loss"] != pytest.approx(last["loss"], rel=1e-3)  # the weights of the last step would be noticed


def test_regression(tmp_path):
    rows = [(text, {"colour": 100, "fruit": 200}[label]) for text, label in sentences(200)]
    path = write_csv(tmp_path / "n.csv", rows)
    predictor = mtsa.train(
        out=tmp_path / "run",
        task="regression",
        train=path,
        encoder="embedding",
        settings={"training.epochs": 30, "model.pooling": "mean"},
    )
    answers = predictor.predict(["the red is here", "the plum is here"])
    assert 75 < answers[0].value < 125
    assert 175 < answers[1].value < 225
    score = predictor.evaluate(path)
    assert score.metrics.mse < 400
    assert answers[0].as_json() == {"value": answers[0].value}


def test_the_python_way_is_short(labelled_csv, tmp_path):
    predictor = mtsa.train(out=tmp_path / "run", train=labelled_csv, encoder="embedding", settings={"training.epochs": 1})
    assert mtsa.load(tmp_path / "run").predict(["red"])[0].label in ("colour", "fruit")
    assert predictor.evaluate(labelled_csv).metrics.count == 160
    with pytest.raises(ValueError, match="finished run"):
        mtsa.train(out=tmp_path / "run", train=labelled_csv)


@pytest.mark.parametrize(
    ("texts", "message"), [("one text", r"predict\(\[text\]\)"), ([None], "None is a NoneType"), ([3.5], "3.5 is a float")]
)
def test_what_is_no_list_of_texts_is_refused(trained, texts, message):
    with pytest.raises(ValueError, match=message):
        trained[1].predict(texts)


def test_transformers_loads_the_folder(trained):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    import mtsa.hub  # noqa: F401  # registers the Auto classes

    outcome, predictor = trained
    texts = ["a red apple there", "plum"]
    ours = predictor.predict(texts)
    model = AutoModelForSequenceClassification.from_pretrained(outcome.folder)
    tokenizer = AutoTokenizer.from_pretrained(outcome.folder)
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    probabilities = model(**batch).logits.softmax(-1)
    classify = pipeline("text-classification", model=str(outcome.folder), top_k=None)
    for number, answer in enumerate(ours):
        found = {model.config.id2label[place]: value for place, value in enumerate(probabilities[number].tolist())}
        assert found == pytest.approx(answer.probabilities, abs=1e-6)
        (piped,) = classify([texts[number]])
        assert {entry["label"]: entry["score"] for entry in piped} == pytest.approx(answer.probabilities, abs=1e-6)


def test_folds_and_repeats(labelled_csv, tmp_path):
    recipe = small_recipe(labelled_csv, epochs=1)
    summary = cross_validate(recipe, tmp_path / "folds", 3)
    assert len(summary["test_accuracy"]["values"]) == 3
    counts = [
        json.loads((tmp_path / "folds" / name / "metrics.json").read_text())["test"]["count"] for name in summary["runs"]
    ]
    assert sum(counts) == 160
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "folds").rglob("model.safetensors")}
    assert len(written) == 3
    again = cross_validate(recipe, tmp_path / "folds", 3)
    assert again == summary
    assert {path: path.stat().st_mtime_ns for path in written} == written  # nothing was trained again
    seeds = repeat(recipe, tmp_path / "seeds", 2)
    assert seeds["runs"] == ["seed-0", "seed-1"]
    mean = sum(seeds["dev_accuracy"]["values"]) / 2
    assert seeds["dev_accuracy"]["mean"] == pytest.approx(mean)
    with pytest.raises(InputError, match="another recipe or other data"):
        cross_validate(dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, hidden=9)), tmp_path / "folds", 3)
    rare = write_csv(tmp_path / "rare.csv", [*sentences(30), ("once", "rare")])
    with pytest.raises(InputError, match='class "rare" has 1 example'):
        cross_validate(small_recipe(rare), tmp_path / "rare", 3)
    with pytest.raises(InputError, match="too few for 99 folds"):
        cross_validate(recipe, tmp_path / "many", 99)


def test_no_test_row_of_a_fold_is_trained_on(labelled_csv, tmp_path, monkeypatch):
    splits = []

    def watched(recipe, folder, *, split, **_):
        splits.append(split)
        run(recipe, folder, split=split)

    monkeypatch.setattr("mtsa.training.cross_validation.run_recipe", watched)
    cross_validate(small_recipe(labelled_csv, {"name": "embedding"}, epochs=1), tmp_path / "f", 4)
    tests = [{example.line for example in split.test} for split in splits]
    assert sum(map(len, tests)) == len(set().union(*tests)) == 160
    for split, held in zip(splits, tests, strict=True):
        lines = [{example.line for example in part} for part in (split.train, split.dev)]
        assert not lines[0] & lines[1]
        assert not (lines[0] | lines[1]) & held
        assert len(lines[0] | lines[1] | held) == 160


def test_a_loss_that_is_no_number_stops_the_run(labelled_csv, tmp_path):
    with pytest.raises(InputError, match=r"lower training\.learning_rate"):
        run(small_recipe(labelled_csv, learning_rate=1e38, epochs=5), tmp_path / "run")


def test_the_dev_part_is_cut_by_class(labelled_csv):
    split = read_split(small_recipe(labelled_csv))
    assert len(split.dev) == pytest.approx(16, abs=1)
    assert not {example.line for example in split.dev} & {example.line for example in split.train}
    labels = [example.label for example in split.dev]
    assert abs(labels.count("colour") - 8) <= 2
    again, _ = split_off([*split.train], 0.5, 3, by_class=True)
    assert again == split_off([*split.train], 0.5, 3, by_class=True)[0]


def test_tensorboard_on_request(labelled_csv, tmp_path):
    run(small_recipe(labelled_csv, epochs=1), tmp_path / "run", tensorboard=True)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    curve = json.loads((tmp_path / "run" / "record.json").read_text())["dev_curve"]
    logged = {tag: [event.value for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    losses = [entry["loss"] for entry in curve]
    assert losses
    assert any(values == pytest.approx(losses, rel=1e-5) for values in logged.values()), logged


FAULTS = {
    "missing weights": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    "changed config": (
        lambda folder: (folder / "config.json").write_text("{}"),
        "checksum mismatch in config.json",
    ),
    "cut weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"abc"),
        "checksum mismatch in model.safetensors",
    ),
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "an unfinished run"),
    "spoilt manifest": (lambda folder: (folder / "manifest.json").write_text("[1]"), "is not a valid manifest"),
    "escaping manifest": (
        lambda folder: (folder / "manifest.json").write_text(
            json.dumps({**json.loads((folder / "manifest.json").read_text()), "../x": {}})
        ),
        "is not a valid manifest",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_run_folder_is_refused(trained, tmp_path, fault):
    spoil, message = FAULTS[fault]
    shutil.copytree(trained[0].folder, tmp_path / "run")
    spoil(tmp_path / "run")
    with pytest.raises(InputError, match=message):
        mtsa.load(tmp_path / "run")
    with pytest.raises(InputError, match="no such run directory"):
        mtsa.load(tmp_path / "none")


def test_nothing_in_a_run_folder_is_a_pickle(trained):
    for file in trained[0].folder.rglob("*"):
        assert file.suffix in (".json", ".toml", ".safetensors", ".png", ".md"), file


def test_one_class_and_foreign_labels_are_refused(tmp_path):
    one = write_csv(tmp_path / "one.csv", [("a", "x"), ("b", "x"), ("c", "x")])
    with pytest.raises(InputError, match='all rows have the label "x"'):
        run(small_recipe(one), tmp_path / "run")
    two = write_csv(tmp_path / "two.csv", [("a", "x"), ("b", "y")] * 5)
    dev = write_csv(tmp_path / "dev.csv", [("a", "x"), ("b", "z")])
    recipe = small_recipe(two)
    recipe = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, dev=str(dev)))
    with pytest.raises(InputError, match=r'dev\.csv, line 3: label "z" does not occur in the training data'):
        run(recipe, tmp_path / "other")


def test_an_unfinished_run_of_another_recipe_is_not_gone_on_with(labelled_csv, tmp_path):
    folder = tmp_path / "run"
    (folder / "checkpoints" / "checkpoint-3").mkdir(parents=True)
    (folder / "recipe.toml").write_text("task = 'x'")
    (folder / "sources.json").write_text("{}")
    with pytest.raises(InputError, match="another recipe"):
        run(small_recipe(labelled_csv), folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="not empty and contains no run"):
        run(small_recipe(labelled_csv), tmp_path / "full")


def test_a_run_that_failed_at_once_leaves_nothing_in_the_way(labelled_csv, tmp_path):
    one = write_csv(tmp_path / "one.csv", [("a", "x"), ("b", "x"), ("c", "x")])
    with pytest.raises(InputError):
        run(small_recipe(one), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run(small_recipe(labelled_csv, epochs=1), tmp_path / "run")


@pytest.mark.parametrize("copies", [1, 3])
def test_what_a_dev_part_shares_with_the_rest_is_told(tmp_path, copies):
    rows = [(f"word {number}", "ab"[number % 2]) for number in range(40)]
    split = read_split(small_recipe(write_csv(tmp_path / "a.csv", rows * copies)))
    known = sum(example.text in {other.text for other in split.train} for example in split.dev)
    assert (known > 0) is (copies > 1)
    (remark,) = split.remarks
    assert remark.startswith(f"dev: {len(split.dev)} examples split off from the training data")
    assert (f"{known} of which" in remark) is (copies > 1)


@pytest.mark.parametrize("options", [["--folds", "2"], ["--repeats", "2"], []])
def test_a_file_is_read_once(tmp_path, labelled_csv, monkeypatch, options):
    reads = []
    read = readers.read

    def counted(path, *given, **named):
        reads.append(path)
        return read(path, *given, **named)

    monkeypatch.setattr(readers, "read", counted)
    small = ["--set", "training.epochs=1", "--set", "training.refit=false", "--set", "encoder.head_dim=4"]
    words = ["train", "--train", str(labelled_csv), "--out", str(tmp_path / "run"), *small, *options]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert reads == [labelled_csv]


@pytest.mark.parametrize("options", [["--folds", "2"], ["--repeats", "2"]])
def test_tensorboard_is_refused_for_several_runs(tmp_path, labelled_csv, options):
    words = ["train", "--train", str(labelled_csv), "--out", str(tmp_path / "run"), "--tensorboard", *options]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--tensorboard supports single runs only" in done.stderr
    assert not (tmp_path / "run").exists()


def test_files_of_the_user_replace_parts_of_an_embedded_corpus(tmp_path):
    path = write_csv(tmp_path / "mine.tsv", [])
    path.write_text("label\ttext\nHUM\tWho is he ?\nLOC\tWhere is it ?\n")
    data = {"train": "corpus:questions", "test": str(path)}
    split = read_split(make_recipe({"data": data, "encoder": {"name": "mtsa"}}, []))
    assert [example.text for example in split.test] == ["Who is he ?", "Where is it ?"]
    assert len(split.train) > 500


def test_folds_of_phrases_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("(3 (2 It) (4 good))\n(1 (2 It) (0 bad))\n" * 20)
    data = {"train": str(tmp_path / "a.txt"), "format": "sst", "phrases": True}
    with pytest.raises(InputError, match="phrases"):
        make_folds(make_recipe({"data": data, "encoder": {"name": "mtsa"}}, []), 2)

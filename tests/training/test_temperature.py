"""Probabilities are calibrated by a temperature fitted to the dev part, in every way to use a model."""

import dataclasses
import json
import random
from types import SimpleNamespace

import pytest
import torch
from starlette.testclient import TestClient
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.inference.export_parity import open_graph
from mtsa.metrics.calibration import fit_temperature
from mtsa.models.tagger import IGNORED
from mtsa.serve.app import build_app
from mtsa.serve.limits import Limits
from mtsa.serve.served_model import ServedModel
from mtsa.tasks.registry import get_task
from mtsa.training import run as run_module
from mtsa.training.prepare import prepare
from mtsa.training.run import run_recipe
from mtsa.training.split import read_split
from tests.sample_data import TAGGER, pair_recipe, pairs, sentences, small_recipe, tagged, write_csv, write_pairs

TEXTS = ["a red apple there", "plum", "the old blue car", "rather green pear"]
PAIRS = [("a red apple", "plum"), ("the blue", "there is a pear"), ("green", "red now")]


def noisy(rows, seed=0, share=0.25):
    """The same examples with wrong labels among them, so that a model that learns them by heart is too confident."""
    rng = random.Random(seed)
    names = sorted({row[-1] for row in rows})
    return [(*row[:-1], rng.choice(names) if rng.random() < share else row[-1]) for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("temperature")
    write_csv(made / "train.csv", noisy(sentences(300)))
    write_csv(made / "test.csv", noisy(sentences(80, seed=3), seed=3))
    rows = [
        (*row[:2], label, row[3])
        for row, (_, label) in zip(pairs(300), noisy([(r[1], r[2]) for r in pairs(300)]), strict=True)
    ]
    write_pairs(made / "pairs.jsonl", rows)
    return made


def recipe_of(folder, task="classification", **training):
    options = {"epochs": 20, "learning_rate": 0.03, "eval_steps": 1000, **training}  # evaluated once, when it is too late
    if task == "pair":
        recipe, data = pair_recipe(folder / "pairs.jsonl", **options), {"format": "nli"}
    else:
        recipe, data = small_recipe(folder / "train.csv", **options), {"test": str(folder / "test.csv")}
    return dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, dev_fraction=0.3, **data))


@pytest.fixture(scope="module")
def trained(folder):
    """A calibrated classifier and a calibrated model of pairs."""
    found = {}
    for task in ("classification", "pair"):
        run_recipe(recipe_of(folder, task), folder / task)
        found[task] = mtsa.load(folder / task)
    return found


def stored(folder):
    return json.loads((folder / "config.json").read_text())["softmax_temperature"]


def uncalibrated(predictor):
    """The same model, with the temperature of an old run."""
    model = mtsa.load(predictor.run.folder)
    model.model.config.softmax_temperature = 1.0
    return model


def expected_probabilities(predictor, inputs):
    logits = uncalibrated(predictor).encode(inputs).predict(uncalibrated(predictor).model)
    return (logits / stored(predictor.run.folder)).softmax(-1)


def as_rows(predictor, answers):
    return torch.tensor([[answer[label] for label in predictor.labels] for answer in answers])


@pytest.mark.parametrize("task", ["classification", "pair"])
def test_the_temperature_minimizes_the_log_loss_of_the_dev_part(folder, trained, task):
    recipe = recipe_of(folder, task)
    dev, model = prepare(recipe, read_split(recipe)).parts["dev"], uncalibrated(trained[task])
    logits = dev.predict(model.model)
    temperature = stored(folder / task)
    assert temperature == pytest.approx(fit_temperature(logits, dev.labels), rel=1e-6)
    assert abs(temperature - 1.0) > 0.05
    record, metrics = (json.loads((folder / task / name).read_text()) for name in ("record.json", "metrics.json"))
    assert record["calibration"] == {"softmax_temperature": temperature}
    losses = [torch.nn.functional.cross_entropy(logits / value, dev.labels).item() for value in (temperature, 1.0)]
    assert metrics["dev"]["log_loss"] == pytest.approx(losses[0], abs=1e-6)
    assert losses[0] < losses[1]
    best = next(entry for entry in record["dev_curve"] if entry["step"] == record["best_step"])
    assert best["loss"] == pytest.approx(losses[1], abs=1e-5)  # during training the temperature is 1


@pytest.mark.parametrize(("task", "inputs"), [("classification", TEXTS), ("pair", PAIRS)])
def test_every_way_to_use_a_model_gives_the_same_calibrated_probabilities(trained, task, inputs, tmp_path):
    from transformers import pipeline

    import mtsa.hub  # noqa: F401  # registers the Auto classes

    predictor = trained[task]
    expected = expected_probabilities(predictor, inputs)
    plain = as_rows(predictor, [one.probabilities for one in uncalibrated(predictor).predict(inputs)])
    assert (expected - plain).abs().max() > 1e-3
    found = {"predict": as_rows(predictor, [one.probabilities for one in predictor.predict(inputs)])}
    questions = [{"text": one} if task == "classification" else {"text": one[0], "pair": one[1]} for one in inputs]
    with TestClient(build_app({task: ServedModel(task, predictor)}, Limits()), base_url="http://localhost") as client:
        answers = client.post("/api/predict", json={"model": task, "inputs": questions}).json()["predictions"]
    found["serve"] = as_rows(predictor, [one["probabilities"] for one in answers])
    classify = pipeline("text-classification", model=str(predictor.run.folder), top_k=None)
    piped = [
        classify([one])[0] if task == "classification" else classify({"text": one[0], "text_pair": one[1]}) for one in inputs
    ]
    found["pipeline"] = as_rows(predictor, [{entry["label"]: entry["score"] for entry in one} for one in piped])
    for form in ("onnx", "torch"):
        done = CliRunner().invoke(app, ["export", str(predictor.run.folder), "--to", form, "--out", str(tmp_path / form)])
        assert done.exit_code == 0, done.output
        batch = predictor.encode(inputs).collate(range(len(inputs)))
        graph = open_graph(tmp_path / form, form)
        with torch.no_grad():
            found[form] = torch.from_numpy(graph(*(batch[name].numpy() for name in predictor.export_spec().inputs))[0])
    for name, rows in found.items():
        torch.testing.assert_close(rows.float(), expected, rtol=0, atol=1e-5, msg=lambda told, name=name: f"{name}: {told}")


def test_predictions_and_embeddings_do_not_change(folder, trained):
    predictor = trained["classification"]
    before = uncalibrated(predictor)
    assert [one.label for one in predictor.predict(TEXTS)] == [one.label for one in before.predict(TEXTS)]
    assert torch.equal(predictor.embed(TEXTS), before.embed(TEXTS))
    after, plain = (model.evaluate(folder / "test.csv").as_json() for model in (predictor, before))
    assert after["confusion"] == plain["confusion"]
    assert after["log_loss"] != plain["log_loss"]
    assert after == json.loads((folder / "classification" / "metrics.json").read_text())["test"]


def test_the_loss_and_the_logits_of_training_are_uncalibrated(trained):
    predictor = trained["classification"]
    inputs = dict(predictor.encode(TEXTS).collate(range(4)), labels=torch.tensor([0, 1, 0, 1]))
    calibrated, plain = predictor.model(**inputs), uncalibrated(predictor).model(**inputs)
    torch.testing.assert_close(calibrated.loss, plain.loss)
    torch.testing.assert_close(calibrated.logits * stored(predictor.run.folder), plain.logits)
    model = mtsa.load(predictor.run.folder).model.train()
    for part in model.children():
        part.eval()  # no dropout
    torch.testing.assert_close(model(**inputs).logits, plain.logits)


def test_a_refit_keeps_the_temperature_of_the_first_training(folder, trained, tmp_path):
    run_recipe(recipe_of(folder, refit=True), tmp_path / "run")
    assert stored(tmp_path / "run") == stored(folder / "classification")
    metrics = [json.loads((path / "metrics.json").read_text()) for path in (tmp_path / "run", folder / "classification")]
    assert metrics[0]["dev"] == metrics[1]["dev"]
    assert metrics[0]["test"]["log_loss"] != metrics[1]["test"]["log_loss"]


def test_a_process_uses_the_temperature_of_the_first_one(monkeypatch):
    config = SimpleNamespace(softmax_temperature=1.0)
    loop = SimpleNamespace(
        dev_part=SimpleNamespace(calibrate=lambda model: {"softmax_temperature": 3.0}),
        model=SimpleNamespace(config=config),
        world=SimpleNamespace(size=2, device=torch.device("cpu")),
    )
    monkeypatch.setattr(run_module.dist, "broadcast", lambda values, source: values.fill_(2.5))
    assert run_module._calibrate(loop) == {"softmax_temperature": 2.5}
    assert config.softmax_temperature == 2.5


def test_the_card_has_the_temperature_and_the_calibration_error(folder, trained):
    card = (folder / "classification" / "README.md").read_text()
    assert f"`softmax_temperature` {stored(folder / 'classification'):.3g}" in card
    metrics = json.loads((folder / "classification" / "metrics.json").read_text())
    for part in ("dev", "test"):
        shown = f"log loss {metrics[part]['log_loss']:.3f}, ECE {metrics[part]['ece']:.3f}"
        assert any(line.startswith(f"- {part}:") and shown in line for line in card.splitlines())
    assert "fitted on the same examples" in " ".join(card.split())


def test_a_model_of_numbers_has_no_temperature(folder, tmp_path):
    write_csv(tmp_path / "train.csv", [(text, len(text)) for text, _ in sentences(240)])
    table = recipe_of(folder)
    data = dataclasses.replace(table.data, train=str(tmp_path / "train.csv"), test="")
    run_recipe(dataclasses.replace(table, task="regression", data=data), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "record.json").read_text())["calibration"] == {}
    assert stored(tmp_path / "run") == 1.0
    assert "ece" not in json.loads((tmp_path / "run" / "metrics.json").read_text())["dev"]
    assert "temperature" not in (tmp_path / "run" / "README.md").read_text()


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    made = tmp_path_factory.mktemp("tagger")
    settings = {**TAGGER, "training.epochs": 4}
    return mtsa.train(task="tagging", train=tagged(made / "t.conll", 120), out=made / "run", settings=settings)


def test_taggers_export_calibrated_probabilities(tagger):
    """With label smoothing probabilities are too small: the temperature is below 1. The tags themselves stay."""
    plain = uncalibrated(tagger)
    temperature = stored(tagger.run.folder)
    assert temperature < 0.95
    split = read_split(tagger.recipe)
    dev, _ = get_task("tagging").encode(tagger.recipe, tagger.tokenizer, tagger.labels, split.dev, training=False)
    batch = dev.collate(range(len(dev)))
    labels = batch.pop("labels")
    logits = plain.model(**batch).logits
    known = labels != IGNORED
    assert temperature == pytest.approx(fit_temperature(logits[known], labels[known]), rel=1e-4)
    torch.testing.assert_close(tagger.model(**batch).logits, logits / temperature)
    inputs = [batch[name] for name in tagger.export_spec().inputs]
    torch.testing.assert_close(tagger.export_spec().probability_model(*inputs)[0], (logits / temperature).softmax(-1))
    assert dev.predict(tagger.model) == dev.predict(plain.model)


def test_semantic_roles_have_a_temperature_for_tags_and_one_for_predicates(runs):
    predictor = runs["srl"]
    config = json.loads((predictor.run.folder / "config.json").read_text())
    split = read_split(predictor.recipe)
    dev, _ = get_task("srl").encode(predictor.recipe, predictor.tokenizer, predictor.labels, split.dev, training=False)
    batch = dev.collate(range(len(dev)))
    labels, found = batch.pop("labels"), batch.pop("predicate_labels")
    plain = uncalibrated(predictor).model
    plain.config.finder_temperature = 1.0
    before, after = plain(**batch), predictor.model(**batch)
    tags, marks = labels != IGNORED, found != IGNORED
    binary = torch.stack([torch.zeros_like(before.predicate_logits[marks]), before.predicate_logits[marks]], -1)
    expected = {
        "softmax_temperature": fit_temperature(before.logits[tags], labels[tags]),
        "finder_temperature": fit_temperature(binary, found[marks]),
    }
    for name, value in expected.items():
        assert config[name] == pytest.approx(value, rel=1e-4)
        assert abs(value - 1.0) > 0.01
    torch.testing.assert_close(after.logits, before.logits / config["softmax_temperature"])
    torch.testing.assert_close(after.predicate_logits, before.predicate_logits / config["finder_temperature"])

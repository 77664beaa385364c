"""Multi-label models in use: contributions by label, export, the server and its page."""

import ast
import json
import subprocess
import sys

import pytest
import torch
from starlette.testclient import TestClient
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.inference import export_parity
from mtsa.inference.graph_export import trace
from mtsa.serve.app import build_app
from mtsa.serve.limits import Limits
from mtsa.serve.schemas import Explanations, LabelSet
from mtsa.serve.served_model import open_models
from tests.sample_data import TOPIC_MODEL, topics, write_topics
from tests.tiny_bert import write_bert

TEXTS = ["the red pear", "a huge plum was here", "now the a is"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_topics(folder / "train.csv", topics(200))
    given = {"task": "multilabel", "train": folder / "train.csv", "label_separator": "|"}
    steps = {
        "training.max_steps": 120,
        "training.learning_rate": 0.01,
        "pretrained.lr_multiplier": 1.0,
        "training.warmup_steps": 0,
        "training.batch_size": 16,
    }
    return {
        "topics": mtsa.train(**given, out=folder / "topics", settings=TOPIC_MODEL),
        "bert": mtsa.train(**given, pretrained=write_bert(folder / "bert"), out=folder / "over-bert", settings=steps),
        "frozen": mtsa.train(
            **given, pretrained=folder / "bert", out=folder / "frozen",
            settings={"pretrained.frozen": True, "training.max_steps": 20},
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def client(models):
    served = open_models([models["topics"].run.folder, models["bert"].run.folder])
    with TestClient(build_app(served, Limits()), base_url="http://localhost") as made:
        yield made


def test_models_over_a_pretrained_encoder_learn(models):
    rows = [(text, list(labels)) for text, labels in topics(80, 7)]
    assert models["bert"].evaluate(rows).metrics.micro_f1 > 0.7
    assert models["frozen"].evaluate(rows).metrics.micro_f1 > 0.3
    assert len(models["frozen"].thresholds) == 3


def test_each_predicted_label_has_contributions_that_sum_to_its_logit(models):
    predictor = models["bert"]
    text = max(TEXTS, key=lambda one: len(predictor.predict([one])[0].labels))
    (found,) = predictor.predict([text])
    maps = predictor.explain(text)
    assert len(maps) == len(found.labels) > 1
    ranked = sorted(found.labels, key=lambda label: -found.probabilities[label])
    for one, label in zip(maps, ranked, strict=True):
        assert one.prediction == f"{label} ({found.probabilities[label]:.2f})"
        logit = torch.tensor(float(one.contributions.sum()) + one.bias)
        assert float(logit.sigmoid()) == pytest.approx(found.probabilities[label], abs=1e-5)


def test_a_text_without_labels_is_explained_by_the_most_probable_one(models):
    predictor = models["bert"]
    values = predictor.model.config.thresholds
    try:
        predictor.model.config.thresholds = [1.0, 1.0, 1.0]
        (one,) = predictor.explain(TEXTS[0])
    finally:
        predictor.model.config.thresholds = values
    best = max(predictor.predict([TEXTS[0]])[0].probabilities.values())
    assert one.prediction.startswith("no label (")
    assert float(torch.tensor(float(one.contributions.sum()) + one.bias).sigmoid()) == pytest.approx(best, abs=1e-5)


def test_the_traced_graph_gives_the_probabilities(models):
    predictor = models["topics"]
    program = trace(predictor.export_spec()).module()
    data = predictor.encode(TEXTS)
    inputs = data.inputs(range(3))
    (found,) = program(inputs["input_ids"], inputs["attention_mask"])
    wanted = torch.tensor([list(one.probabilities.values()) for one in predictor.predict(TEXTS)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_an_onnx_export_decides_by_the_thresholds(models, tmp_path):
    pytest.importorskip("onnxruntime")
    predictor, out = models["topics"], tmp_path / "exported"
    rows = topics(30, 9)
    write_topics(tmp_path / "check.csv", rows)
    done = CliRunner().invoke(
        app, ["export", str(predictor.run.folder), "--out", str(out), "--check", str(tmp_path / "check.csv")]
    )
    assert done.exit_code == 0, done.output
    report = json.loads((out / "parity.json").read_text())
    assert all(row["apart"] < 1e-5 for row in report["lengths"])
    assert report["texts"]["same labels"] == 30
    exact = sum(one.labels == labels for one, (_, labels) in zip(predictor.predict([t for t, _ in rows]), rows, strict=True))
    assert report["texts"]["accuracy"]["export"] == pytest.approx(exact / 30)
    command = [sys.executable, str(out / "run.py"), *TEXTS]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    for line, wanted in zip(map(ast.literal_eval, lines), predictor.predict(TEXTS), strict=True):
        assert line["labels"] == list(wanted.labels)
        assert line["probabilities"] == pytest.approx(wanted.probabilities, abs=1e-5)


def test_parity_compares_decisions_at_the_thresholds(models):
    predictor = models["topics"]
    parts = predictor.export_spec()
    assert export_parity._decisions(torch.tensor([[0.3, 0.6]]).numpy(), [0.2, 0.7]).tolist() == [[True, False]]
    assert export_parity._decisions(torch.tensor([[0.3, 0.6]]).numpy(), ()).tolist() == [[False, True]]
    assert parts.metadata["thresholds"] == list(parts.thresholds) == list(predictor.thresholds.values())


def test_the_server_gives_label_sets(client, models):
    found = client.post("/api/predict", json={"inputs": [{"text": text} for text in TEXTS]}).json()["predictions"]
    for one, wanted in zip(found, models["topics"].predict(TEXTS), strict=True):
        LabelSet.model_validate(one, strict=True)
        assert one["labels"] == list(wanted.labels)
        assert one["probabilities"] == pytest.approx(wanted.probabilities)
    facts = client.get("/api/models").json()
    assert [one["task"] for one in facts] == ["multilabel", "multilabel"]
    assert "LabelSet" in client.get("/openapi.json").json()["components"]["schemas"]


def test_the_server_explains_each_predicted_label(client, models):
    text = max(TEXTS, key=lambda one: len(models["bert"].predict([one])[0].labels))
    response = client.post("/api/explain", json={"model": "over-bert", "input": {"text": text}})
    Explanations.model_validate_json(response.content, strict=True)
    sentences = response.json()["sentences"]
    assert [one["prediction"] for one in sentences] == [one.prediction for one in models["bert"].explain(text)]
    assert all("contributions" in one for one in sentences)


def test_a_pair_is_refused(client):
    response = client.post("/api/predict", json={"inputs": [{"text": "a", "pair": "b"}]})
    assert response.status_code == 422
    assert "expects single texts" in response.json()["error"]

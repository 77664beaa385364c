"""Multi-label models: training, thresholds, class weights, splits, Python data, prediction, explanation."""

import csv
import json
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.data.examples import Example
from mtsa.errors import InputError
from mtsa.metrics.thresholds import choose_thresholds
from mtsa.tasks.registry import get_task
from mtsa.training import run as run_module
from mtsa.training.cross_validation import make_folds
from mtsa.training.launch import build_recipe
from mtsa.training.loop import TrainingLoop
from mtsa.training.prepare import prepare
from mtsa.training.recipe_files import load_recipe
from mtsa.training.split import read_split, split_off
from mtsa.training.streamed import make_shards
from tests.sample_data import TOPIC_MODEL, TOPICS, topics, write_topics

TEXTS = ["the red pear", "a huge plum was here", "now the a is", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("topics")
    for seed, (name, count) in enumerate((("train", 300), ("dev", 60), ("test", 80))):
        rows = topics(count, seed)
        write_topics(made / f"{name}.csv", rows)
        flags = [(text, *(int(label in labels) for label in TOPICS)) for text, labels in rows]
        lines = [f"text,{','.join(TOPICS)}", *(",".join(map(str, row)) for row in flags)]
        (made / f"{name}-columns.csv").write_text("\n".join(lines) + "\n")
    return made


@pytest.fixture(scope="module")
def model(folder):
    files = {part: folder / f"{part}.csv" for part in ("train", "dev", "test")}
    return mtsa.train(task="multilabel", **files, label_separator="|", out=folder / "run", settings=TOPIC_MODEL)


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_it_learns_and_texts_without_labels_are_legal(model):
    metrics = json.loads((model.run.folder / "metrics.json").read_text())
    assert metrics["test"]["micro_f1"] > 0.9
    assert metrics["test"]["exact_match"] > 0.8
    assert model.labels == ["colour", "fruit", "size"]
    found = {text: set(one.labels) for text, one in zip(TEXTS, model.predict(TEXTS), strict=True)}
    assert found["the red pear"] == {"colour", "fruit"}
    assert found["now the a is"] == set()


def test_probabilities_are_calibrated_sigmoids_and_decided_by_the_thresholds(model):
    data = model.encode(TEXTS)
    with torch.no_grad():
        raw = model.model.train()(**{**data.inputs(range(4)), "labels": torch.zeros(4, 3)}).logits  # without dropout
    model.model.eval()
    config = model.model.config
    assert config.softmax_temperature != 1.0
    wanted = (raw / config.softmax_temperature).sigmoid()
    for one, row in zip(model.predict(TEXTS), wanted.tolist(), strict=True):
        assert list(one.probabilities.values()) == pytest.approx(row, abs=1e-5)
        chosen = [label for label, value in zip(model.labels, row, strict=True) if value >= model.thresholds[label]]
        assert list(one.labels) == chosen


def test_thresholds_are_those_of_the_dev_data(model, folder):
    recipe = model.recipe
    examples, _ = get_task("multilabel").read(recipe, folder / "dev.csv", recipe.layout)
    encoded, _ = get_task("multilabel").encode(recipe, model.tokenizer, model.labels, examples, training=False)
    found = encoded.predict(model.model)
    assert choose_thresholds(found.logits.sigmoid(), encoded.labels) == list(model.thresholds.values())
    saved = json.loads((model.run.folder / "config.json").read_text())
    assert saved["thresholds"] == list(model.thresholds.values())
    assert saved["problem_type"] == "multi_label_classification"
    record = json.loads((model.run.folder / "record.json").read_text())
    assert record["calibration"]["thresholds"] == saved["thresholds"]


def test_a_process_uses_the_thresholds_of_the_first_one(monkeypatch):
    config = SimpleNamespace()
    loop = SimpleNamespace(
        dev_part=SimpleNamespace(calibrate=lambda model: {"softmax_temperature": 3.0, "thresholds": [0.1, 0.2]}),
        model=SimpleNamespace(config=config),
        world=SimpleNamespace(size=2, device=torch.device("cpu")),
    )
    monkeypatch.setattr(run_module.dist, "broadcast", lambda values, source: values.add_(0.5))
    assert run_module._calibrate(loop) == {"softmax_temperature": 3.5, "thresholds": [0.6, 0.7]}
    assert vars(config) == {"softmax_temperature": 3.5, "thresholds": [0.6, 0.7]}


def test_the_loss_is_binary_cross_entropy(model):
    data = model.encode(TEXTS[:3])
    labels = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    out = model.model.train()(**data.inputs(range(3)), labels=labels)
    model.model.eval()
    torch.testing.assert_close(out.loss, F.binary_cross_entropy_with_logits(out.logits, labels))


def test_evaluation_is_that_of_the_definition(model, folder):
    rows = topics(80, 2)
    score = model.evaluate(folder / "test.csv")
    found = model.predict([text for text, _ in rows])
    hits = sum(len(set(one.labels) & set(labels)) for one, (_, labels) in zip(found, rows, strict=True))
    total = sum(len(one.labels) for one in found) + sum(len(labels) for _, labels in rows)
    assert score.metrics.micro_f1 == pytest.approx(2 * hits / total)
    loss = -sum(
        math.log(value if label in labels else 1 - value)
        for one, (_, labels) in zip(found, rows, strict=True)
        for label, value in one.probabilities.items()
    )
    assert score.metrics.calibration.log_loss == pytest.approx(loss / (80 * 3), rel=1e-3)
    assert score.loss == score.metrics.calibration.log_loss
    assert 0 < score.metrics.calibration.ece < 0.2


def test_the_forms_of_evaluation_data_agree(model, folder):
    wanted = model.evaluate(folder / "test.csv").as_json()
    rows = topics(80, 2)
    assert model.evaluate(folder / "test-columns.csv", label_columns=["size", "fruit", "colour"]).as_json() == wanted
    assert model.evaluate([(text, list(labels)) for text, labels in rows]).as_json() == wanted
    assert (
        model.evaluate({"text": [text for text, _ in rows], "label": [list(labels) for _, labels in rows]}).as_json() == wanted
    )
    done = call(
        "evaluate", model.run.folder, "--data", folder / "test-columns.csv", "--label-columns", ",".join(TOPICS), "--json"
    )
    assert json.loads(done.output) == wanted


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("text,label\nx,colour|fruits\n", [], 'line 2: label "fruits" is not a label of the model'),
        ("text,colour\nx,1\n", ["--label-columns", "colour"], "must contain all labels of the model; fruit, size is missing"),
        ("text,colors\nx,1\n", ["--label-columns", "colors"], '"colors" is not a label of the model; did you mean "colour"'),
        ("text,colour,fruit,size\nx,1,0,yes\n", ["--label-columns", "colour,fruit,size"], "must contain 0 or 1"),
    ],
)
def test_invalid_test_data_gets_one_sentence(model, tmp_path, content, options, message):
    (tmp_path / "a.csv").write_text(content)
    done = call("evaluate", model.run.folder, "--data", tmp_path / "a.csv", *options)
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("multilabel", {}, "specify the separator"),
        ("classification", {"label_separator": "|"}, "add --task multilabel"),
        ("tagging", {"label_columns": ["a"]}, "data.label_columns applies to task multilabel only"),
        ("multilabel", {"label_columns": ["colour"]}, 'no column "colour"'),
    ],
)
def test_options_that_do_not_fit(folder, task, options, message):
    with pytest.raises(InputError, match=message):
        build_recipe(None, task=task, data={"train": str(folder / "train.csv"), **options}, sized=task != "tagging")


def test_a_label_that_is_new_in_dev_data_is_refused(folder, tmp_path):
    write_topics(tmp_path / "dev.csv", [("red", ("colour",)), ("x", ("colors",))])
    data = {"train": str(folder / "train.csv"), "dev": str(tmp_path / "dev.csv"), "label_separator": "|"}
    recipe = build_recipe(None, task="multilabel", data=data, sized=False)
    with pytest.raises(
        InputError, match=r'dev.csv, line 3: label "colors" does not occur in the training data; did you mean "col'
    ):
        prepare(recipe, read_split(recipe))


def test_a_comparison_is_refused(folder, tmp_path):
    done = call("compare", "--train", folder / "train.csv", "--task", "multilabel", "--out", tmp_path / "compared")
    assert done.exit_code == 2
    assert "supports the tasks classification and pair, not multilabel" in done.output


def test_metrics_that_select_the_best_step(folder):
    data = {"train": str(folder / "train.csv"), "label_separator": "|"}
    assert build_recipe(None, task="multilabel", data=data, sized=False).training.metric == "micro_f1"
    assert build_recipe(None, task="multilabel", data=data, sized=False, metric="exact_match").training.metric == "exact_match"
    assert build_recipe(None, task="classification", sized=False).training.metric == "accuracy"
    for task, metric in (("multilabel", "accuracy"), ("classification", "micro_f1")):
        with pytest.raises(InputError, match=f'training.metric is "{metric}"'):
            build_recipe(None, task=task, data=data if task == "multilabel" else {}, sized=False, metric=metric)


def test_class_weights_are_ratios_of_texts_without_and_with_a_label(folder, tmp_path):
    data = {"train": str(folder / "train.csv"), "dev": str(folder / "dev.csv"), "label_separator": "|"}
    settings = [f"{key}={value}".replace("False", "false") for key, value in TOPIC_MODEL.items()]
    recipe = build_recipe(None, task="multilabel", data=data, class_weights="balanced", settings=settings)
    prepared = prepare(recipe, read_split(recipe))
    counts = Counter(label for _, labels in topics(300) for label in labels)
    weights = [(300 - counts[label]) / counts[label] for label in TOPICS]
    assert prepared.class_weights == pytest.approx(weights)
    loop = TrainingLoop(
        prepared.model(), recipe, get_task("multilabel"), prepared.parts["train"], prepared.parts["dev"],
        known=prepared.inputs.known, folder=tmp_path, class_weights=prepared.class_weights,
    )  # fmt: skip
    batch = prepared.parts["train"].collate(range(9))
    with torch.no_grad():
        logits = loop.model.train()(**{name: value for name, value in batch.items() if name != "labels"}).logits
    losses = F.binary_cross_entropy_with_logits(logits, batch["labels"], pos_weight=torch.tensor(weights), reduction="sum")
    total = torch.where(batch["labels"].bool(), torch.tensor(weights), 1.0).sum()
    assert loop._step([list(range(9))]) == pytest.approx(float(losses / total), rel=1e-4)


def test_shards_hold_the_label_sets(folder, tmp_path):
    data = {"train": str(folder / "train.csv"), "label_separator": "|"}
    recipe = build_recipe(None, task="multilabel", data=data, sized=False)
    shards, _ = make_shards(recipe, tmp_path / "shards", megabytes=0.004)
    read = sorted((example.text, example.label) for example in shards)
    assert read == sorted((text, tuple(sorted(labels))) for text, labels in topics(300))
    data |= {"train": str(tmp_path / "shards"), "dev": str(folder / "dev.csv")}
    prepared = prepare(
        *(lambda found: (found, read_split(found)))(build_recipe(None, task="multilabel", data=data, sized=False))
    )
    assert sum(prepared.parts["train"].class_counts) == sum(len(labels) for _, labels in topics(300))
    done = call(
        "data", "shard", folder / "train.csv", "--task", "multilabel", "--label-separator", "|", "--out", tmp_path / "more"
    )
    assert "--label-separator '|'" in done.output


def test_splits_follow_the_rarest_label():
    rows = [Example(f"text {number}", ("common", *(("rare",) if number < 10 else ())), number) for number in range(200)]
    for seed in range(5):
        _, dev = split_off(rows, 0.2, seed, by_class=True)
        assert len(dev) == 40
        assert sum("rare" in example.label for example in dev) == 2


def test_a_label_is_never_split_off_completely():
    rows = [Example(str(number), label, number) for number, label in enumerate(
        [("a", "b"), ("a", "b"), ("a", "c"), ("a", "c"), (), ("d",), *[("e",)] * 20]
    )]  # fmt: skip
    for seed in range(20):
        train, dev = split_off(rows, 0.5, seed, by_class=True)
        assert {name for example in train for name in example.label} == set("abcde")
        assert dev


def test_folds(folder, tmp_path):
    data = {"train": str(folder / "train.csv"), "label_separator": "|"}
    recipe = build_recipe(None, task="multilabel", data=data, sized=False)
    parts = make_folds(recipe, 5)
    counts = [sum("size" in example.label for example in split.test) for split in parts]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) > 15
    write_topics(tmp_path / "a.csv", [*topics(100), ("x", ("once",)), ("y", ("once",))])
    recipe = build_recipe(None, task="multilabel", data={**data, "train": str(tmp_path / "a.csv")}, sized=False)
    with pytest.raises(InputError, match='class "once" has 2 examples'):
        make_folds(recipe, 5)
    files = ["--train", folder / "dev.csv", "--task", "multilabel", "--label-separator", "|", "--folds", 2]
    small = [word for key, value in {**TOPIC_MODEL, "training.max_steps": 2}.items()
             for word in ("--set", f"{key}={value}".replace("False", "false"))]  # fmt: skip
    done = call("train", *files, "--out", tmp_path / "folds", *small)
    assert done.exit_code == 0, done.output
    summary = json.loads((tmp_path / "folds" / "summary.json").read_text())
    assert {"test_micro_f1", "test_macro_f1", "test_exact_match"} <= summary.keys()


def test_python_data_and_a_refit(tmp_path):
    rows = topics(200)
    settings = {**TOPIC_MODEL, "training.epochs": 2, "training.refit": True}
    lists = [{"text": text, "label": list(labels)} for text, labels in rows]
    found = mtsa.train(task="multilabel", train=lists, out=tmp_path / "lists", settings=settings)
    flags = {"text": [text for text, _ in rows], **{label: [int(label in labels) for _, labels in rows] for label in TOPICS}}
    columns = mtsa.train(
        task="multilabel", train=flags, label_columns=list(TOPICS), out=tmp_path / "columns", settings=settings
    )
    assert found.labels == columns.labels
    assert found.thresholds == columns.thresholds != dict.fromkeys(TOPICS, 0.5)
    assert [one.as_json() for one in found.predict(TEXTS)] == [one.as_json() for one in columns.predict(TEXTS)]
    arrays = {"text": [text for text, _ in rows], "label": [np.array(labels, dtype=object) for _, labels in rows]}
    assert columns.evaluate(arrays).as_json() == columns.evaluate(lists).as_json()
    assert columns.evaluate(flags).as_json() == columns.evaluate(lists).as_json()
    with pytest.raises(InputError, match=r"train, row 2: the labels are nan"):
        mtsa.train(task="multilabel", train={"text": ["a", "b"], "label": [["x"], math.nan]}, out=tmp_path / "nan")


def test_one_label_is_a_detector(tmp_path):
    rows = [(text, ["fruit"] if "fruit" in labels else []) for text, labels in topics(150)]
    found = mtsa.train(task="multilabel", train=rows, out=tmp_path / "one", settings=TOPIC_MODEL)
    assert found.labels == ["fruit"]
    assert found.evaluate(rows).metrics.micro_f1 > 0.9
    assert found.predict(["the plum"])[0].labels == ("fruit",)


def test_predictions_as_files_and_text(model, tmp_path):
    (tmp_path / "new.csv").write_text("id,text\n1,the red pear\n2,now the a is\n")
    for name in ("a.csv", "a.jsonl"):
        done = call("predict", model.run.folder, tmp_path / "new.csv", "--out", tmp_path / name, "--keep-columns", "id")
        assert done.exit_code == 0, done.output
    with (tmp_path / "a.csv").open() as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == ["id", "labels", "colour", "fruit", "size"]
    assert [row["labels"] for row in table] == ["colour|fruit", ""]
    first, second = map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())
    assert (first["labels"], second["labels"]) == (["colour", "fruit"], [])
    assert first["probabilities"] == pytest.approx({name: float(table[0][name]) for name in TOPICS})
    assert model.predict(["now the a is"])[0].shown().startswith("no label (")
    refused = call("predict", model.run.folder, tmp_path / "new.csv", "--submission", "--out", tmp_path / "b.csv")
    assert "--submission does not apply to task multilabel" in refused.output
    clash = call("predict", model.run.folder, tmp_path / "new.csv", "--keep-columns", "labels", "--out", tmp_path / "b.csv")
    assert "already has a column of this name" in clash.output


def test_an_explanation_names_the_labels(model, tmp_path):
    (maps,) = model.explain("the red pear")
    assert maps.prediction.startswith("colour (")
    assert ", fruit (" in maps.prediction
    assert maps.words == ["the", "red", "pear"]
    done = call("explain", model.run.folder, "now the a is", "--json")
    assert json.loads(done.output)["sentences"][0]["prediction"].startswith("no label (")


def test_the_model_card_has_thresholds_and_metrics(model):
    card = (model.run.folder / "README.md").read_text()
    assert "multi-label text classification" in card
    assert f"`colour` {model.thresholds['colour']:.2f}" in card
    for metric in ("micro_f1", "macro_f1", "exact_match"):
        assert f"type: {metric}" in card


def test_invalid_thresholds_of_a_model_are_refused(model, tmp_path):
    from mtsa.models.classifier import SentenceClassifier
    from mtsa.models.network_config import NetworkConfig

    values = json.loads((model.run.folder / "config.json").read_text())
    for thresholds in ([0.5], [0.5, 0.5, 1.5]):
        with pytest.raises(ValueError, match="one number from 0 to 1 for each of the 3 labels"):
            SentenceClassifier(NetworkConfig({**values, "thresholds": thresholds}))


def test_the_transformers_pipeline_gives_the_same_probabilities(model):
    import transformers

    import mtsa.hub  # noqa: F401

    pipe = transformers.pipeline("text-classification", model=str(model.run.folder), top_k=None)
    (found,) = pipe(["the red pear"])
    wanted = model.predict(["the red pear"])[0].probabilities
    assert {one["label"]: one["score"] for one in found} == pytest.approx(wanted, abs=1e-5)


def test_the_recipe_of_a_run_has_the_layout(model):
    data = load_recipe(str(model.run.folder / "recipe.toml")).data
    assert (data.label_separator, data.label_columns) == ("|", ())

"""The model card of a run tells a hub what it must know, and its code runs."""

import json
import re

import pytest
from huggingface_hub import ModelCard

import mtsa
from mtsa.metrics.counts import Counts
from mtsa.metrics.protocol import PartScore
from mtsa.metrics.regression import score_numbers
from mtsa.metrics.semantic_roles import RoleScore
from mtsa.training.model_card import model_card
from mtsa.training.recipe_files import make_recipe

PIPELINES = {
    "classification": "text-classification",
    "pair": "text-classification",
    "tagging": "token-classification",
    "srl": "token-classification",
    "translation": "translation",
}


@pytest.mark.parametrize("task", PIPELINES)
def test_a_hub_reads_the_figures_of_the_run(runs, task):
    folder = runs[task].run.folder
    card = ModelCard.load(folder / "README.md")
    assert card.data.library_name == "mtsa"
    assert card.data.pipeline_tag == PIPELINES[task]
    assert card.data.model_name == folder.name
    told = {(result.dataset_split, result.metric_type): result.metric_value for result in card.data.eval_results}
    metrics = json.loads((folder / "metrics.json").read_text())
    compared = 0
    for (split, metric), value in told.items():
        if metric in metrics[split]:
            assert value == pytest.approx(metrics[split][metric], abs=1e-6)
            compared += 1
    assert compared
    assert {split for split, _ in told} == set(metrics)


@pytest.mark.parametrize("task", PIPELINES)
def test_the_code_of_the_card_runs(runs, task, monkeypatch):
    folder = runs[task].run.folder
    (code,) = re.findall(r"```python\n(.+?)```", (folder / "README.md").read_text(), re.S)
    monkeypatch.chdir(folder.parent)
    names = {}
    exec(code, names)
    assert names["prediction"] is not None


def test_the_owner_may_go_on_with_the_card(runs, tmp_path):
    import shutil

    folder = shutil.copytree(runs["classification"].run.folder, tmp_path / "own")
    (folder / "README.md").write_text("mine")
    assert mtsa.load(folder).labels == runs["classification"].labels


def test_tests_of_the_same_name_stay_apart_and_odd_names_are_safe():
    """Three files called test.props; a folder, labels and figures that Markdown, YAML or an encoding would stumble over."""
    data = {"train": "a.props", "test": "wsj/test.props", "tests": ["brown/test.props", "x/test.props"]}
    recipe = make_recipe({"task": "srl", "data": data, "encoder": {"name": "stacked_mtsa"}}, [])
    scores = {
        part: PartScore(RoleScore(Counts(number, 4, 4))) for number, part in enumerate(("dev", "test", *recipe.data.further))
    }
    record = {
        "sources": {"examples": {"train": 5, "dev": 2, "test": 0}}, "versions": {"mtsa": "1"},
        "parameters": {"all": 9, "words": 3}, "seed": 0, "steps": 4, "seconds": 1.0,
    }  # fmt: skip
    text = model_card(recipe, "run\U0001f600\udcff: `x`\n---", ["A`0", "line\nbreak", "key: value"], scores, record)
    card = ModelCard(text)
    told = {(result.dataset_name, result.metric_value) for result in card.data.eval_results if result.metric_type == "f1"}
    assert told == {("a.props", 0.0), ("test.props", 0.25), ("brown-test", 0.5), ("x-test", 0.75)}
    assert "for test" not in text
    assert "`A'0`, `line break`, `key: value`" in text
    (code,) = re.findall(r"```python\n(.+?)```", text, re.S)
    compile(code, "card", "exec")
    text.encode()


@pytest.mark.parametrize(("task", "name"), [("similarity", "sentence-similarity"), ("regression", "text-classification")])
def test_numbers(task, name):
    columns = {"pair_column": "pair"} if task == "similarity" else {}
    recipe = make_recipe({"task": task, "data": {"train": "a.csv", **columns}}, [])
    record = {
        "sources": {"examples": {"train": 5}}, "versions": {"mtsa": "1"}, "parameters": {"all": 9, "words": 3}, "seed": 0,
        "steps": 4, "seconds": 1.0,
    }  # fmt: skip
    card = ModelCard(model_card(recipe, "run", [], {"dev": PartScore(score_numbers([1.0, 2.0], [1.0, 3.0]))}, record))
    assert card.data.pipeline_tag == name
    assert {result.metric_type: result.metric_value for result in card.data.eval_results}["mse"] == 0.5

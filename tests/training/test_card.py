"""The model card of a run tells a hub what it must know, and its code runs."""

import json
import re

import pytest
from huggingface_hub import ModelCard

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
    assert names["answer"] is not None


def test_the_owner_may_go_on_with_the_card(runs, tmp_path):
    import shutil

    import mtsa

    folder = shutil.copytree(runs["classification"].run.folder, tmp_path / "own")
    (folder / "README.md").write_text("mine")
    assert mtsa.load(folder).labels == runs["classification"].labels

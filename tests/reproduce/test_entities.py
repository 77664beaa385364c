"""The table of named entities: plan, and real runs on small files, over word vectors and over a small BERT."""

from dataclasses import replace

import pytest
from reproduce.comparison import interval
from reproduce.paths import Paths
from reproduce.records import read_records
from reproduce.runner import execute_all
from reproduce.table import by_name
from reproduce.tables import ENTITIES

from tests.sample_data import OTHERS, PEOPLE, PLACES, glove, tagged
from tests.tiny_bert import write_bert

FEW = {"training.max_steps": 8, "training.eval_steps": 4, "training.batch_tokens": 120, "training.warmup_steps": 0}
MINILM = ("minilm-linear", "minilm-no-shapes", "minilm-mtsa")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The table with few steps, its files, and its records."""
    folder = tmp_path_factory.mktemp("entities")
    bert = write_bert(folder / "bert")
    for seed, part in enumerate(("train", "dev")):
        tagged(folder / f"wnut17.{part}.conll", 40, seed)
    words = [word.lower() for word in (*PEOPLE, *PLACES, *OTHERS, "Smith", "City")]
    paths = Paths(folder, glove(folder / "vectors.txt", 8, words))
    over = {"pretrained.model": f'"{bert}"', "tokens.max_length": 64}
    models = [
        replace(model, options={**model.options, **FEW, **(over if model.name in MINILM else {})}, runs={"wnut17": 1})
        for model in ENTITIES.models.values()
        if model.name in ("mtsa", *MINILM)
    ]
    table = replace(ENTITIES, models=by_name(models))
    execute_all(table.runs(paths, limit=1), folder / "records", minutes=None)
    return table, paths, table.check(read_records(folder / "records"))


def test_models_over_minilm_differ_as_they_say(measured):
    _, paths, _ = measured
    recipes = {run.model: run.recipe for run in ENTITIES.runs(paths, limit=1)}
    assert list(recipes) == list(ENTITIES.models)
    assert {name for name, recipe in recipes.items() if recipe.pretrained.model} == set(MINILM)
    assert {name: recipe.model.shape_dim for name, recipe in recipes.items() if recipe.model.shape_dim} == {
        "mtsa-shapes": 32,
        "minilm-linear": 32,
        "minilm-mtsa": 32,
    }
    assert len({str(recipes[name].training) for name in MINILM}) == 1
    assert len({str(recipe.training) for name, recipe in recipes.items() if name not in MINILM}) == 1


def test_records_have_the_counts_of_every_sentence(measured):
    table, _, records = measured
    assert {record["model"] for record in records} == {"mtsa", *MINILM}
    for record in records:
        assert record["examples"]["dev"] == 4
        test = record["test"]["test"]
        counts = [[int(value) for value in row.split()] for row in test["items"]["rows"]]
        assert len(counts) == 40
        assert [sum(column) for column in zip(*counts, strict=True)] == [test["correct"], test["predicted"], test["support"]]
        column = next(column for column in table.views[0].columns if (column.part, column.metric) == ("test", "f1"))
        low, high = interval(table, column, record["model"], records)
        assert low <= 100 * test["f1"] <= high
    assert ("bert" in str(records[-1]["sources"])) == (records[-1]["model"] in MINILM)

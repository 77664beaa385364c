"""Recipes are strict: what comes with the package loads, and every slip is answered."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

import mtsa.training
from mtsa.data.examples import Layout
from mtsa.data.source import InputError
from mtsa.encoders import build_encoder
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import load_recipe, make_recipe, named_recipes, to_toml
from mtsa.training.start import make


@pytest.mark.parametrize("name", named_recipes())
def test_every_recipe_loads_and_tells_what_it_is(name):
    recipe = load_recipe(name)
    assert len(named_recipes()[name]) > 20
    if recipe.translated and name.endswith(".paper"):
        sizes = (recipe.translator.layers, recipe.translator.width, recipe.translator.heads, recipe.translator.hidden)
        assert sizes == (6, 512, 8, 2048)
        assert recipe.swap is not None
        return
    if name.endswith(".paper"):
        encoder = build_encoder(recipe.encoder["name"], 300, **recipe.encoder_options)
        assert encoder.out_dim == (768 if recipe.pretrained.model else 200 if recipe.roles else 600)
        assert recipe.encoder.get("form", "released") == "released"
        if not recipe.pretrained.model:
            assert recipe.vectors.member == ("glove.6B.100d.txt" if recipe.roles else "glove.6B.300d.txt")


@pytest.mark.parametrize(
    ("name", "optimizer", "rate", "batch", "steps", "dropout", "l2", "attention"),
    [
        ("trec.paper", "adadelta", 0.5, 32, 80_000, 0.5, 1e-4, 0.0),
        ("sst5.paper", "adadelta", 0.5, 128, 120_000, 0.3, 1e-4, 0.0),
        ("cr.paper", "adam", 1e-3, 64, 1_000, 0.5, 1e-4, 0.2),
        ("mpqa.paper", "adam", 1e-3, 64, 1_000, 0.5, 1e-4, 0.2),
        ("subj.paper", "adam", 1e-3, 64, 1_000, 0.5, 1e-4, 0.0),
    ],
)
def test_the_papers_settings(name, optimizer, rate, batch, steps, dropout, l2, attention):
    recipe = load_recipe(name)
    training = recipe.training
    assert (training.optimizer, training.learning_rate, training.batch, training.steps) == (optimizer, rate, batch, steps)
    assert (recipe.model.dropout, training.l2, recipe.encoder["attention_dropout"]) == (dropout, l2, attention)
    assert recipe.model.activation == "relu"


def test_a_recipe_survives_being_written():
    recipe = load_recipe("sst5.paper", ["encoder.scales=['identity', 'identity']", 'data.delimiter=";"'])
    assert make_recipe(tomllib.loads(to_toml(recipe)), []) == recipe


WRONG = {
    "unknown section": ({"trainning": {}}, [], 'section or key "trainning" is unknown; did you mean "training"'),
    "unknown key": ({"training": {"bach": 3}}, [], 'key "training.bach" is unknown; did you mean "batch"'),
    "wrong type": ({"training": {"batch": "many"}}, [], "training.batch is 'many'; it must be a whole number"),
    "bool for number": ({"training": {"batch": True}}, [], "training.batch is True"),
    "float for int": ({"training": {"batch": 2.5}}, [], "training.batch is 2.5"),
    "no section": ({"training": 3}, [], r"training must be a section \[training\]"),
    "optimizer": ({"training": {"optimizer": "adma"}}, [], 'did you mean "adam"'),
    "task": ({"task": "taging"}, [], 'task is "taging"; did you mean "tagging"'),
    "unread by taggers": ({"task": "tagging", "model": {"hidden": 7}}, [], "model.hidden is not read by task tagging"),
    "unread by others": ({"model": {"smoothing": 0.1}}, [], "model.smoothing is not read by task classification"),
    "flag without roles": ({"task": "tagging", "model": {"flag": 7}}, [], "model.flag is not read by task tagging"),
    "words alone": ({"task": "srl", "pretrained": {"model": "x"}}, [], r"it takes no \[pretrained\] model"),
    "tests alone": ({"data": {"tests": ["a.csv"]}}, [], "data.tests are further test files"),
    "tests alike": ({"data": {"test": "t.csv", "tests": ["a/x.csv", "c/a/x.csv"]}}, [], "of different names"),
    "tests no list": ({"data": {"test": "t.csv", "tests": "x.csv"}}, [], "data.tests is 'x.csv'; it must be a list"),
    "tests of numbers": ({"data": {"test": "t.csv", "tests": [3]}}, [], "data.tests is 3; it must be a text"),
    "halving": ({"training": {"schedule": "linear", "halve_at": [3]}}, [], "halve_at is read by a constant schedule alone"),
    "halving at 0": ({"training": {"halve_at": [0]}}, [], r"training.halve_at is \[0\]; it must be steps above 0"),
    "epsilon": ({"training": {"epsilon": 0.0}}, [], "training.epsilon is 0.0"),
    "range": ({"model": {"dropout": 1.0}}, [], "model.dropout is 1.0; it must be at least 0 and below 1"),
    "encoder name": ({"encoder": {"name": "mtas"}}, [], 'encoder "mtas" is unknown; did you mean "mtsa"'),
    "encoder option": ({"encoder": {"name": "bilstm", "heads": 2}}, [], 'encoder "bilstm" has no option "heads"'),
    "encoder type": ({"encoder": {"name": "bilstm", "width": "wide"}}, [], "encoder.width is 'wide'"),
    "no encoder": ({"encoder": {"width": 3}}, [], "needs a name"),
    "unread warm-up": ({"training": {"warmup": 10}}, [], "a constant schedule does not read it"),
    "unread member": ({"vectors": {"member": "a"}}, [], "no vectors.file"),
    "setting form": ({}, ["batch=3"], "section.key=value"),
    "setting key": ({}, ["training.bach=3"], 'did you mean "batch"'),
}


@pytest.mark.parametrize("case", WRONG)
def test_every_slip_is_answered(case):
    table, settings, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        make_recipe(table, settings)


def test_unknown_recipes_and_broken_files(tmp_path):
    with pytest.raises(InputError, match=r'did you mean "trec\.cpu"'):
        load_recipe("trec.cpa")
    (tmp_path / "r.toml").write_text("task = \n")
    with pytest.raises(InputError, match="this is no TOML"):
        load_recipe(str(tmp_path / "r.toml"))


def test_settings_are_put_over_a_recipe():
    recipe = make("trec.cpu", data={"train": "x"}, encoder="bilstm", seed=7, settings=["training.batch=8"])
    assert recipe.data.train == "x"
    assert recipe.data.format == "trec"
    assert dict(recipe.encoder) == {"name": "bilstm", "width": 150}
    assert (recipe.training.seed, recipe.training.batch) == (7, 8)


def test_a_users_file_gets_settings_by_its_size(tmp_path):
    sizes = {}
    for count in (100, 3000):
        path = tmp_path / f"{count}.csv"
        path.write_text("text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(count)))
        sizes[count] = make(None, data={"train": str(path)}).training
    assert sizes[100].epochs > sizes[3000].epochs
    assert make(None, data={"train": str(path)}, settings=["training.epochs=3"]).training.epochs == 3


LAYOUT = {field.name for field in dataclasses.fields(Layout)}


def test_every_key_of_a_recipe_is_read_somewhere():
    """A key that nothing reads would be an option that does nothing."""
    folder = mtsa.training.__path__[0]
    text = "".join(path.read_text() for path in Path(folder).glob("*.py") if path.name != "recipe.py")
    text += Path(folder, "recipe.py").read_text().split("def layout")[1]
    for section in dataclasses.fields(Recipe):
        kind = section.default_factory() if section.default_factory is not dataclasses.MISSING else None
        if dataclasses.is_dataclass(kind):
            for key in dataclasses.fields(kind):
                layout = section.name == "data" and key.name in LAYOUT
                assert layout or f".{key.name}" in text, f"{section.name}.{key.name}"

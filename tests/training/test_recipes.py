"""Recipes are strict: what comes with the package loads, and every slip is answered."""

import ast
import dataclasses
import tomllib
import typing
import warnings
from pathlib import Path

import pytest

import mtsa
from mtsa.encoders import build_encoder
from mtsa.errors import InputError
from mtsa.training.launch import build_recipe
from mtsa.training.recipe import Recipe
from mtsa.training.recipe_files import RENAMED, load_recipe, make_recipe, named_recipes, to_toml


@pytest.mark.parametrize("name", named_recipes())
def test_every_recipe_loads_and_tells_what_it_is(name):
    recipe = load_recipe(name)
    assert len(named_recipes()[name]) > 20
    roles = recipe.task == "srl"
    if recipe.task == "translation" and name.endswith(".paper"):
        sizes = (recipe.translator.layers, recipe.translator.d_model, recipe.translator.heads, recipe.translator.ffn_dim)
        assert sizes == (6, 512, 8, 2048)
        assert recipe.swap is not None
        return
    if name.endswith(".paper"):
        encoder = build_encoder(recipe.encoder["name"], 768 if recipe.pretrained.model else 300, **recipe.encoder_options)
        assert encoder.out_dim == (768 if recipe.pretrained.model else 200 if roles else 600)
        assert recipe.encoder.get("form", "released") == "released"
        if not recipe.pretrained.model:
            assert recipe.vectors.member == ("glove.6B.100d.txt" if roles else "glove.6B.300d.txt")


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
    assert (training.optimizer, training.learning_rate, training.batch_size, training.max_steps) == (
        optimizer,
        rate,
        batch,
        steps,
    )
    assert (recipe.model.dropout, training.weight_decay, recipe.encoder["attention_dropout"]) == (dropout, l2, attention)
    assert recipe.model.activation == "relu"


def test_a_recipe_survives_being_written():
    recipe = load_recipe("sst5.paper", ["encoder.score_activation=identity", 'data.delimiter=";"'])
    assert make_recipe(tomllib.loads(to_toml(recipe)), []) == recipe


WRONG = {
    "unknown section": ({"trainning": {}}, [], 'unknown section or key "trainning"; did you mean "training"'),
    "unknown key": ({"training": {"bach_size": 3}}, [], 'unknown key "training.bach_size"; did you mean "batch_size"'),
    "wrong type": ({"training": {"batch_size": "many"}}, [], "training.batch_size is 'many'; it must be an integer"),
    "bool for number": ({"training": {"batch_size": True}}, [], "training.batch_size is True"),
    "float for int": ({"training": {"batch_size": 2.5}}, [], "training.batch_size is 2.5"),
    "not a section": ({"training": 3}, [], r"training must be a section \[training\]"),
    "optimizer": ({"training": {"optimizer": "adma"}}, [], 'did you mean "adam"'),
    "task": ({"task": "taging"}, [], 'unknown task "taging"; did you mean "tagging"'),
    "unread by taggers": ({"task": "tagging", "model": {"hidden": 7}}, [], "model.hidden is not used by task tagging"),
    "vocabulary of classifiers": (
        {"tokens": {"vocab_size": 9000}},
        [],
        "tokens.vocab_size is not used by task classification",
    ),
    "vocabulary of taggers": (
        {"task": "tagging", "tokens": {"vocab_size": 9000}},
        [],
        "tokens.vocab_size is not used by task",
    ),
    "phrases of tables": ({"data": {"phrases": True, "format": "csv"}}, [], "data.phrases applies to format sst only"),
    "beta2 of Adadelta": ({"training": {"optimizer": "adadelta", "beta2": 0.9}}, [], "beta2 applies to adam and adamw only"),
    "unread by others": ({"model": {"label_smoothing": 0.1}}, [], "model.label_smoothing is not used by task classification"),
    "flag without roles": (
        {"task": "tagging", "model": {"predicate_dim": 7}},
        [],
        "model.predicate_dim is not used by task tagging",
    ),
    "frozen words": ({"task": "srl", "pretrained": {"model": "x", "frozen": True}}, [], "frozen is not used by task srl"),
    "tests alone": ({"data": {"tests": ["a.csv"]}}, [], "data.tests requires data.test"),
    "tests alike": ({"data": {"test": "t.csv", "tests": ["a/x.csv", "c/a/x.csv"]}}, [], "must have different names"),
    "tests no list": ({"data": {"test": "t.csv", "tests": "x.csv"}}, [], "data.tests is 'x.csv'; it must be a list"),
    "tests of numbers": ({"data": {"test": "t.csv", "tests": [3]}}, [], "data.tests is 3; it must be a string"),
    "halving": (
        {"training": {"schedule": "linear", "lr_milestones": [3]}},
        [],
        "applies to the constant schedule only",
    ),
    "halving at 0": ({"training": {"lr_milestones": [0]}}, [], r"training.lr_milestones is \[0\]; it must be above 0"),
    "epsilon": ({"training": {"epsilon": 0.0}}, [], "training.epsilon is 0.0"),
    "range": ({"model": {"dropout": 1.0}}, [], "model.dropout is 1.0; it must be at least 0 and below 1"),
    "encoder name": ({"encoder": {"name": "mtas"}}, [], 'unknown encoder "mtas"; did you mean "mtsa"'),
    "encoder option": ({"encoder": {"name": "bilstm", "heads": 2}}, [], 'encoder "bilstm" has no option "heads"'),
    "encoder type": ({"encoder": {"name": "bilstm", "width": "wide"}}, [], "encoder.width is 'wide'"),
    "no encoder": ({"encoder": {"width": 3}}, [], "requires a name"),
    "unread warm-up": ({"training": {"warmup_steps": 10}}, [], "the constant schedule has no warm-up"),
    "unread member": ({"vectors": {"member": "a"}}, [], "vectors.member requires vectors.file"),
    "setting form": ({}, ["batch=3"], "section.key=value"),
    "setting key": ({}, ["training.bach_size=3"], 'did you mean "batch_size"'),
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
    with pytest.raises(InputError, match="invalid TOML"):
        load_recipe(str(tmp_path / "r.toml"))


def test_settings_are_put_over_a_recipe():
    recipe = build_recipe("trec.cpu", data={"train": "x"}, encoder="bilstm", seed=7, settings=["training.batch_size=8"])
    assert recipe.data.train == "x"
    assert recipe.data.format == "trec"
    assert dict(recipe.encoder) == {"name": "bilstm", "width": 150}
    assert (recipe.training.seed, recipe.training.batch_size) == (7, 8)


def test_a_users_file_gets_settings_by_its_size(tmp_path):
    sizes = {}
    for count in (100, 3000):
        path = tmp_path / f"{count}.csv"
        path.write_text("text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(count)))
        sizes[count] = build_recipe(None, data={"train": str(path)}).training
    assert sizes[100].epochs > sizes[3000].epochs
    assert build_recipe(None, data={"train": str(path)}, settings=["training.epochs=3"]).training.epochs == 3


def sections():
    """The sections of a recipe that have fixed keys, as dataclasses by name."""
    hints = typing.get_type_hints(Recipe)
    return {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}


def names_of(tree, section, kind):
    """The local names that a section has in a module: assigned from `.section`, or arguments of its type."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name) and node.annotation.id == kind:
            found.add(node.arg)
        if isinstance(node, ast.Assign):
            for target in node.targets:
                both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                targets, values = (target.elts, node.value.elts) if both else ([target], [node.value])
                found |= {
                    one.id
                    for one, value in zip(targets, values, strict=True)
                    if isinstance(one, ast.Name) and isinstance(value, ast.Attribute) and value.attr == section
                }
    return found


def keys_read(section, kind):
    """The keys of a section that src/mtsa reads as `.section.key`, or as `name.key` of a name of the section.

    Modules that define, write and check recipes are left out: they read every key.
    """
    found = set()
    for path in Path(mtsa.__path__[0]).rglob("*.py"):
        if path.name in ("recipe.py", "recipe_files.py", "recipe_checks.py"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = names_of(tree, section, kind)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                value = node.value
                if (isinstance(value, ast.Attribute) and value.attr == section) or (
                    isinstance(value, ast.Name) and value.id in names
                ):
                    found.add(node.attr)
    return found


@pytest.mark.parametrize("section", sections())
def test_every_key_of_a_recipe_is_read_somewhere(section):
    """A key that nothing reads, except for the check of its range, would be an option that does nothing."""
    kind = sections()[section]
    read = keys_read(section, kind.__name__)
    if section == "data":
        read |= keys_read("layout", "Layout")  # those of a layout are read there
    assert {key.name for key in dataclasses.fields(kind)} - read == set()


# Keys of version 0.2

OLD = """
task = "pair"
[data]
train = "a.csv"
text_column = "a"
pair_column = "b"
dev_share = 0.2
[tokens]
longest = 60
least = 3
[vectors]
width = 40
[encoder]
name = "mtsa"
[training]
batch = 8
clip = 1.5
l2 = 0.25
evaluate_every = 7
steps = 50
halve_at = [10, 20]
spread = "fsdp"
"""
NEW = """
task = "pair"
[data]
train = "a.csv"
text_column = "a"
pair_column = "b"
dev_fraction = 0.2
[tokens]
max_length = 60
min_freq = 3
[vectors]
dim = 40
[encoder]
name = "mtsa"
[training]
batch_size = 8
max_grad_norm = 1.5
weight_decay = 0.25
eval_steps = 7
max_steps = 50
lr_milestones = [10, 20]
distributed = "fsdp"
"""


def deprecated(caught):
    return [str(one.message) for one in caught if one.category is DeprecationWarning]


def test_old_keys_give_the_same_recipe_with_one_warning(tmp_path):
    for name, text in (("old", OLD), ("new", NEW)):
        (tmp_path / f"{name}.toml").write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        old = load_recipe(str(tmp_path / "old.toml"))
    (message,) = deprecated(caught)
    assert "old.toml: data.dev_share is now data.dev_fraction" in message
    assert "and 8 more keys of version 0.2" in message
    assert message.endswith("in version 0.4")
    assert old == load_recipe(str(tmp_path / "new.toml"))


@pytest.mark.parametrize(
    ("section", "old", "new"), [(section, *names) for section, keys in RENAMED.items() for names in keys.items()]
)
def test_every_old_key_has_a_new_name_and_is_refused_beside_it(section, old, new):
    """Only names and types are checked: not every key goes with every task."""
    default = getattr(sections()[section](), new)
    value = list(default) if isinstance(default, tuple) else default
    with pytest.warns(DeprecationWarning, match=rf"{section}\.{old} is now {section}\.{new}"):
        found = make_recipe({section: {old: value}}, [])
    assert found == make_recipe({section: {new: value}}, [])
    with pytest.raises(InputError, match=rf"{section}\.{old} is the deprecated name of {section}\.{new}; remove one of them"):
        make_recipe({section: {old: value, new: value}}, [])


def test_old_keys_that_are_set_go_over_a_recipe_with_one_warning(tmp_path):
    """Whatever the name, a setting replaces the value of the recipe, and an argument too."""
    path = tmp_path / "train.csv"
    path.write_text("text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(60)))
    for recipe, data in (("trec.cpu", {}), (None, {"train": str(path)})):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = build_recipe(recipe, data=data, settings=["training.batch=9", "tokens.longest=77"])
        (message,) = deprecated(caught)
        assert "training.batch is now training.batch_size" in message
        assert found == build_recipe(recipe, data=data, settings=["training.batch_size=9", "tokens.max_length=77"])
        assert (found.training.batch_size, found.tokens.max_length) == (9, 77)
    (tmp_path / "old.toml").write_text(OLD)
    with pytest.warns(DeprecationWarning, match="in version 0.4"):
        assert load_recipe(str(tmp_path / "old.toml"), ["training.batch_size=9"]).training.batch_size == 9
    with pytest.warns(DeprecationWarning, match=r"data\.dev_share is now data\.dev_fraction"):
        assert build_recipe("questions.cpu", data={"dev_share": 0.3}).data.dev_fraction == 0.3
    with pytest.raises(InputError, match=r"training\.batch is the deprecated name of training\.batch_size"):
        build_recipe("trec.cpu", settings=["training.batch=9", "training.batch_size=8"])


def test_a_recipe_with_new_keys_warns_of_nothing(tmp_path):
    (tmp_path / "new.toml").write_text(NEW)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recipe = load_recipe(str(tmp_path / "new.toml"))
        assert make_recipe(tomllib.loads(to_toml(recipe)), []) == recipe
    assert deprecated(caught) == []

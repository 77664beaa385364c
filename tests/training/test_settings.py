"""Every setting of a recipe has an effect: another value gives another model, or another course of training."""

import dataclasses
import json
import zipfile

import pytest
from transformers import GenerationConfig, M2M100ForConditionalGeneration

import mtsa
from mtsa.training.prepare import prepare
from mtsa.training.recipe import Model, Tokens, Training, Translator, Vectors
from mtsa.training.recipe_files import make_recipe, toml_value
from mtsa.training.run import run_recipe
from mtsa.training.run_directory import open_run
from mtsa.training.split import read_split
from tests.sample_data import COLOURS, FRUITS, glove, parallel, sentences, tagged, write_csv

SMALL = {
    "vectors.dim": 6, "encoder.head_dim": 5, "model.hidden": 7, "model.dropout": 0.1, "training.batch_size": 16,
    "training.epochs": 2, "training.learning_rate": 0.01, "training.patience": 0, "training.weight_decay": 0.0,
}  # fmt: skip
FILE = {"vectors.file": "vectors.zip", "vectors.member": "a.txt"}

TRAINED: dict[str, tuple[dict, object]] = {
    "tokens.max_length": ({}, 3),
    "tokens.min_freq": ({}, 30),
    "vectors.file": ({}, "vectors.txt"),
    "vectors.member": (FILE, "b.txt"),
    "vectors.dim": ({}, 7),
    "vectors.lr_multiplier": (FILE, 0.3),
    "vectors.max_unseen": (FILE, 1),
    "model.pooling": ({}, "max"),
    "model.hidden": ({}, 9),
    "model.activation": ({}, "tanh"),
    "model.dropout": ({}, 0.4),
    "training.optimizer": ({}, "adadelta"),
    "training.learning_rate": ({}, 0.02),
    "training.schedule": ({}, "linear"),
    "training.warmup_steps": ({"training.schedule": "linear"}, 5),
    "training.lr_milestones": ({}, [3]),
    "training.epsilon": ({}, 1e-2),
    "training.beta2": ({}, 0.9),
    "training.weight_decay": ({}, 0.1),
    "training.max_grad_norm": ({"training.epsilon": 1.0}, 0.01),  # Adam divides most of the norm away
    "training.batch_size": ({}, 10),
    "training.batch_tokens": ({}, 60),
    "training.length_pool": ({}, 1),
    "training.max_steps": ({}, 5),
    "training.epochs": ({}, 3),
    "training.eval_steps": ({}, 3),
    "training.patience": ({"training.learning_rate": 1e-12, "training.epochs": 5}, 1),
    "training.class_weights": ({}, "balanced"),
    "training.metric": ({}, "macro_f1"),
    "training.refit": ({}, True),
    "training.seed": ({}, 1),
    "training.precision": ({}, "bfloat16"),
    "training.gradient_accumulation_steps": ({}, 2),
}
"""Settings of a classifier: others that are needed for it, and a value to compare with the default."""

BUILT: dict[str, tuple[str, dict, object]] = {
    "model.highway": ("pair", {}, True),
    "model.label_smoothing": ("tagging", {}, 0.1),
    "model.tag_dropout": ("tagging", {}, False),
    "model.shape_dim": ("tagging", {}, 5),
    "model.predicate_dim": ("srl", {}, 7),
    "model.finder_channels": ("srl", {}, 7),
    "tokens.vocab_size": ("translation", {}, 300),
    "translator.layers": ("translation", {}, 1),
    "translator.d_model": ("translation", {}, 32),
    "translator.heads": ("translation", {}, 1),
    "translator.ffn_dim": ("translation", {}, 24),
    "translator.attention_dropout": ("translation", {}, 0.3),
}
"""Settings of other tasks, which change the model as it is built or its configuration."""

SEARCH = {"translator.num_beams": 2, "translator.length_penalty": 0.9}
"""Settings of the beam search."""

ELSEWHERE = {
    "training.compile": "changes no number (test_loop.py)",
    "training.distributed": "needs several processes (test_processes.py)",
    "model.pair_encoding": "requires a pretrained model (test_pretrained.py)",
}


def test_every_setting_is_covered():
    kinds = {"tokens": Tokens, "vectors": Vectors, "model": Model, "translator": Translator, "training": Training}
    known = {f"{section}.{key.name}" for section, kind in kinds.items() for key in dataclasses.fields(kind)}
    assert known == {*TRAINED, *BUILT, *SEARCH, *ELSEWHERE}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The data of every task."""
    folder = tmp_path_factory.mktemp("settings")
    write_csv(folder / "train.csv", sentences(90))
    write_csv(folder / "dev.csv", sentences(30, seed=1))
    glove(folder / "vectors.txt", words=COLOURS)
    with zipfile.ZipFile(folder / "vectors.zip", "w") as archive:
        archive.write(glove(folder / "first.txt", words=(*COLOURS, "unseen", "words")), "a.txt")
        archive.write(glove(folder / "second.txt", words=FRUITS), "b.txt")
    tagged(folder / "tags.conll", 40)
    parallel(folder, "text", 40, 0)
    return folder


def recipe_with(table, settings, files):
    """A recipe; names of vector files are those of the folder."""
    located = {key: str(files / value) if key == "vectors.file" else value for key, value in settings.items()}
    return make_recipe(table, [f"{key}={toml_value(value)}" for key, value in located.items()])


def course(settings, files, folder):
    """What a classifier comes to: its weights, steps and learning curve."""
    data = {"train": str(files / "train.csv"), "dev": str(files / "dev.csv")}
    recipe = recipe_with({"data": data, "encoder": {"name": "mtsa"}}, {**SMALL, **settings}, files)
    run_recipe(recipe, folder)
    record = json.loads((folder / "record.json").read_text())
    weights = {name: value.tolist() for name, value in open_run(folder).model.state_dict().items()}
    return weights, record["steps"], record["dev_curve"]


@pytest.fixture(scope="module")
def baselines(files, tmp_path_factory):
    """The courses of training before a change, by settings."""
    found = {}

    def baseline(settings):
        key = json.dumps(settings)
        if key not in found:
            found[key] = course(settings, files, tmp_path_factory.mktemp("baseline") / "run")
        return found[key]

    return baseline


def without(settings, key):
    """Settings without one; vectors from a file have their own width."""
    dropped = {key} | ({"vectors.dim"} if "vectors.file" in settings else set())
    return {name: value for name, value in settings.items() if name not in dropped}


def test_equal_settings_give_an_equal_course(files, baselines, tmp_path):
    assert course({}, files, tmp_path / "run") == baselines({})


@pytest.mark.parametrize("key", TRAINED)
def test_a_setting_changes_the_course_of_training(key, files, baselines, tmp_path):
    others, value = TRAINED[key]
    assert course({**others, key: value}, files, tmp_path / "run") != baselines(others)


def built(task, settings, files):
    """The configuration of an untrained model, and the sizes of its weights."""
    data = {
        "pair": {"train": "corpus:entailment"},
        "tagging": {"train": str(files / "tags.conll")},
        "srl": {"train": "corpus:roles"},
        "translation": {"train": str(files / "text.en"), "train_target": str(files / "text.de")},
    }[task]
    small = {"tokens.vocab_size": 320, "translator.d_model": 16, "translator.heads": 2} if task == "translation" else {}
    encoder = {"name": "mtsa"} if task in ("pair", "translation") else {"name": "stacked_mtsa"}
    recipe = recipe_with({"task": task, "data": data, "encoder": encoder}, {**small, **settings}, files)
    model = prepare(recipe, read_split(recipe)).model()
    return model.config.to_dict(), {name: tuple(value.shape) for name, value in model.state_dict().items()}


@pytest.mark.parametrize("key", BUILT)
def test_a_setting_changes_the_model(key, files):
    task, others, value = BUILT[key]
    first, second = built(task, others, files), built(task, {**others, key: value}, files)
    assert first == built(task, others, files)
    assert first != second


def test_settings_of_the_beam_search_are_used_and_saved(files, tmp_path, monkeypatch):
    sizes = {"tokens.vocab_size": 320, "translator.layers": 1, "translator.d_model": 16, "translator.heads": 2}
    settings = {**sizes, **SEARCH, "training.max_steps": 2, "training.eval_steps": 2}
    texts = [str(files / name) for name in ("text.en", "text.de")]
    model = mtsa.train(task="translation", train=texts, out=tmp_path / "run", settings=settings)
    used = []
    generate = M2M100ForConditionalGeneration.generate
    monkeypatch.setattr(
        M2M100ForConditionalGeneration,
        "generate",
        lambda *args, **named: used.append(named["generation_config"]) or generate(*args, **named),
    )
    model.predict(["red dog"])
    saved = GenerationConfig.from_pretrained(tmp_path / "run")
    assert [(one.num_beams, one.length_penalty) for one in (*used, saved)] == [(2, 0.9)] * 2

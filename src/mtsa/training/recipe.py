"""A recipe: everything that decides a run, strict and frozen. Unknown keys, wrong types and unread values stop it."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from mtsa.data.examples import Layout
from mtsa.data.readers import ENDINGS
from mtsa.data.source import InputError
from mtsa.encoders import find_encoder
from mtsa.models.pooling import POOLINGS
from mtsa.names import nearest

TASKS = ("classification", "regression", "pair", "similarity")
OPTIMIZERS = ("adadelta", "adam", "adamw")
SCHEDULES = ("constant", "linear")


@dataclass(frozen=True)
class Data(Layout):
    """Which files, and how to read them: the keys of a layout (`phrases` in training alone), and these."""

    train: str = ""  # a file, or "corpus:questions" for the embedded corpus
    dev: str = ""  # empty: a part of the training data
    test: str = ""  # evaluated once, at the end; empty: none
    dev_share: float = 0.1  # of the training data, where there is no dev file
    emphasis: int = 0  # of phrases: how often sentences and phrases that are not neutral stand in a pass; 0: as in the trees


@dataclass(frozen=True)
class Tokens:
    """Words."""

    longest: int = 512  # words of a text; the rest is cut off; 0: never
    least: int = 0  # occurrences of a word in training to get a vector; 0: 1 with a vector file, 2 without


@dataclass(frozen=True)
class Vectors:
    """Word vectors."""

    file: str = ""  # GloVe text, .gz or .zip; empty: random vectors
    member: str = ""  # which file of a .zip
    width: int = 100  # of random vectors
    rate: float = 1.0  # part of each step that words with a vector in the file make, from 0 to 1; others make all of it
    unseen: int = 400_000  # words of the file, not in training, that the model keeps for new text


@dataclass(frozen=True)
class Pretrained:
    """A pretrained model in the place of word vectors."""

    model: str = ""  # a folder, or a name on the hub, as `transformers` takes it; empty: word vectors
    rate: float = 1.0  # of its weights: part of the learning rate
    language: float = 0.0  # weight of its own loss as a language model, where it is one (the paper: 0.3)


@dataclass(frozen=True)
class Model:
    """What stands around the encoder."""

    pooling: str = "source2token"
    hidden: int = 300
    highway: bool = False  # of pairs: a highway layer before the classes
    activation: str = "relu"
    dropout: float = 0.5  # of the input of every dense layer, the encoder's included


@dataclass(frozen=True)
class Training:
    """How it is trained."""

    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup: int = 0  # steps
    l2: float = 1e-4  # on weights, not on biases or word vectors
    clip: float = 0.0  # norm of the gradient; 0: never
    batch: int = 64
    steps: int = 0  # at most; 0: as `epochs` says
    epochs: int = 30
    evaluate_every: int = 0  # steps; 0: at the end of each epoch
    patience: int = 5  # evaluations without a better one; 0: never stop early
    refit: bool = False  # when the best step is known, train anew for as long on training and dev data together
    seed: int = 0


@dataclass(frozen=True)
class Recipe:
    """One run."""

    task: str = "classification"
    data: Data = field(default_factory=Data)
    tokens: Tokens = field(default_factory=Tokens)
    vectors: Vectors = field(default_factory=Vectors)
    pretrained: Pretrained = field(default_factory=Pretrained)
    encoder: Mapping[str, Any] = field(default_factory=lambda: {"name": "mtsa", "head_dim": 150})
    model: Model = field(default_factory=Model)
    training: Training = field(default_factory=Training)

    @property
    def layout(self) -> Layout:
        """How the files are read."""
        return Layout(**{key.name: getattr(self.data, key.name) for key in dataclasses.fields(Layout)})

    @property
    def encoder_options(self) -> dict[str, Any]:
        """The encoder section without the name."""
        return {key: value for key, value in self.encoder.items() if key != "name"}

    @property
    def regression(self) -> bool:
        """Whether numbers are predicted."""
        return self.task in ("regression", "similarity")

    @property
    def paired(self) -> bool:
        """Whether an example is a pair of texts."""
        return self.task in ("pair", "similarity")


def named_recipes() -> dict[str, str]:
    """The recipes that come with the package: name and first comment line."""
    found = {}
    for entry in sorted(resources.files("mtsa.recipes").iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".toml"):
            found[entry.name.removesuffix(".toml")] = entry.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
    return found


def load_recipe(name: str, settings: list[str] | None = None) -> Recipe:
    """A recipe by its name or from a TOML file, with `section.key=value` settings put over it.

    Raises:
        InputError: no such recipe or file, no TOML, an unknown key, a wrong type or an impossible value.
    """
    if name in named_recipes():
        text, source = resources.files("mtsa.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8"), name
    elif Path(name).suffix.lower() in ENDINGS:
        raise InputError(f'"{name}" is no recipe; to train on it, write: --train {name}')
    elif Path(name).is_file():
        text, source = Path(name).read_text(encoding="utf-8"), name
    else:
        raise InputError(f'recipe "{name}" is neither a file nor a known name; {nearest(name, named_recipes())}')
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: this is no TOML: {error}") from None
    return make_recipe(table, settings or [], source)


def make_recipe(table: dict[str, Any], settings: list[str], source: str = "the recipe") -> Recipe:
    """A recipe from nested values.

    Raises:
        InputError: as `load_recipe`.
    """
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    for setting in settings:
        _put(merged, setting)
    recipe: Recipe = _made(Recipe, merged, source, "")
    _check(recipe, source)
    return recipe


def to_toml(recipe: Recipe) -> str:
    """The recipe as TOML, every key written out."""
    lines = [f"task = {toml_value(recipe.task)}"]
    for section in dataclasses.fields(Recipe)[1:]:
        value = getattr(recipe, section.name)
        items = value.items() if isinstance(value, Mapping) else dataclasses.asdict(value).items()
        lines += ["", f"[{section.name}]", *(f"{key} = {toml_value(item)}" for key, item in items)]
    return "\n".join(lines) + "\n"


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def _put(table: dict[str, Any], setting: str) -> None:
    """Put one `section.key=value` in place; the value is TOML, or a bare word."""
    key, equals, text = setting.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or not (dot or section == "task"):
        raise InputError(f"--set {setting}: write section.key=value, such as --set training.batch=32")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    if dot:
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputError(f'--set {setting}: "{section}" is no section')
        inner[name] = value
    else:
        table[section] = value


def _made(kind: type, table: dict[str, Any], source: str, section: str) -> Any:
    """A dataclass from a table, strictly."""
    hints = typing.get_type_hints(kind)
    values = {}
    for key, value in table.items():
        place = f"{section}.{key}" if section else key
        if key not in hints:
            what = "key" if section else "section or key"
            raise InputError(f'{source}: {what} "{place}" is unknown; {nearest(key, hints)}')
        wanted = hints[key]
        if dataclasses.is_dataclass(wanted):
            if not isinstance(value, dict):
                raise InputError(f"{source}: {place} must be a section [{place}]")
            values[key] = _made(wanted, value, source, place)  # type: ignore[arg-type]
        else:
            values[key] = _typed(wanted, value, source, place)
    return kind(**values)


def _typed(wanted: Any, value: Any, source: str, place: str) -> Any:
    kind = typing.get_origin(wanted) or wanted
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{source}: {place} is {value}; it must be a finite number")
    if wrong:
        names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InputError(f"{source}: {place} is {value!r}; it must be {names.get(kind, 'a section')}")
    return types.MappingProxyType(dict(value)) if isinstance(value, dict) else value


def _check(recipe: Recipe, source: str) -> None:
    choices = (
        ("task", recipe.task, TASKS),
        ("model.pooling", recipe.model.pooling, POOLINGS),
        ("training.optimizer", recipe.training.optimizer, OPTIMIZERS),
        ("training.schedule", recipe.training.schedule, SCHEDULES),
    )
    for place, value, known in choices:
        if value not in known:
            raise InputError(f'{source}: {place} is "{value}"; {nearest(value, known)}')
    training, model = recipe.training, recipe.model
    ranges = (
        ("data.emphasis", recipe.data.emphasis, recipe.data.emphasis >= 0, "at least 0"),
        ("data.dev_share", recipe.data.dev_share, 0.0 < recipe.data.dev_share < 1.0, "between 0 and 1"),
        ("model.dropout", model.dropout, 0.0 <= model.dropout < 1.0, "at least 0 and below 1"),
        ("model.hidden", model.hidden, model.hidden > 0, "above 0"),
        ("vectors.width", recipe.vectors.width, recipe.vectors.width > 0, "above 0"),
        ("training.batch", training.batch, training.batch > 0, "above 0"),
        ("training.learning_rate", training.learning_rate, training.learning_rate > 0, "above 0"),
        ("training.seed", training.seed, training.seed < 2**32, "below 4,294,967,296"),
        ("vectors.rate", recipe.vectors.rate, 0.0 <= recipe.vectors.rate <= 1.0, "from 0 to 1"),
        ("vectors.unseen", recipe.vectors.unseen, recipe.vectors.unseen >= 0, "at least 0"),
        ("training.epochs", training.epochs, training.epochs > 0, "above 0"),
        *((f"training.{key}", getattr(training, key), getattr(training, key) >= 0, "at least 0")
          for key in ("steps", "warmup", "l2", "clip", "evaluate_every", "patience", "seed")),
        *((f"tokens.{key}", getattr(recipe.tokens, key), getattr(recipe.tokens, key) >= 0, "at least 0")
          for key in ("longest", "least")),
    )  # fmt: skip
    for place, number, right, needed in ranges:
        if not right:
            raise InputError(f"{source}: {place} is {number}; it must be {needed}")
    if training.schedule == "constant" and training.warmup:
        raise InputError(f"{source}: training.warmup is {training.warmup}, but a constant schedule does not read it")
    if recipe.data.emphasis and not (recipe.data.phrases and recipe.data.classes in (0, 5) and recipe.data.dev):
        raise InputError(f"{source}: data.emphasis is for the phrases of five-class trees, with a dev file; leave it out")
    if training.refit and (training.schedule != "constant" or recipe.data.emphasis):
        raise InputError(
            f"{source}: training.refit needs a constant schedule and no data.emphasis; add --set training.refit=false"
        )
    if recipe.vectors.rate != 1.0 and not recipe.vectors.file:
        raise InputError(f"{source}: vectors.rate is {recipe.vectors.rate}, but there is no vectors.file for it")
    if recipe.vectors.member and not recipe.vectors.file:
        raise InputError(f"{source}: vectors.member is given, but no vectors.file that would hold it")
    _check_pretrained(recipe, source)
    if model.highway and not recipe.paired:
        raise InputError(f"{source}: model.highway is for pairs; leave it out, or set task to pair")
    if recipe.data.pair_column and not recipe.paired:
        raise InputError(f"{source}: data.pair_column is for pairs; leave it out, or set task to pair (--task pair)")
    _check_encoder(recipe, source)


def _check_pretrained(recipe: Recipe, source: str) -> None:
    wanted = recipe.pretrained
    for key, value in (("rate", wanted.rate), ("language", wanted.language)):
        if value < 0:
            raise InputError(f"{source}: pretrained.{key} is {value}; it must be at least 0")
    if not wanted.model and wanted != Pretrained():
        raise InputError(f"{source}: [pretrained] has settings, but no model that they would be for")
    if wanted.model and recipe.vectors.file:
        raise InputError(f"{source}: pretrained.model takes the place of vectors.file; leave one of them out")
    if wanted.model and recipe.vectors != Vectors():
        raise InputError(f"{source}: [vectors] is not read with a pretrained model; leave it out")
    if wanted.model and recipe.tokens.least:
        raise InputError(f"{source}: tokens.least is for words; a pretrained model has its own tokens; leave it out")


def _check_encoder(recipe: Recipe, source: str) -> None:
    name = recipe.encoder.get("name")
    if not isinstance(name, str):
        raise InputError(f'{source}: [encoder] needs a name, such as name = "mtsa"')
    try:
        options = find_encoder(name).options
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None
    for key, value in recipe.encoder_options.items():
        if key not in options:
            raise InputError(f'{source}: encoder "{name}" has no option "{key}"; {nearest(key, options)}')
        default = options[key]
        kinds = (
            (int, float) if isinstance(default, float) else (list, tuple) if isinstance(default, tuple) else (type(default),)
        )
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InputError(f"{source}: encoder.{key} is {value!r}; it must be like its default, {default!r}")

"""Whether a recipe can be run: values out of range, and values that nothing would read, stop it."""

from __future__ import annotations

import dataclasses

from mtsa.corpora import is_corpus
from mtsa.data.examples import Layout
from mtsa.data.shards import is_shards
from mtsa.data.source import InputError
from mtsa.data.tasks import TASKS
from mtsa.encoders import find_encoder
from mtsa.models.pooling import POOLINGS
from mtsa.models.swapped_attention import Swap
from mtsa.names import nearest

from .recipe import OPTIMIZERS, SCHEDULES, SPREADS, Model, Pretrained, Recipe, Translator, Vectors

_OWN = "(one of your own is registered first, in Python)"


def check_names(recipe: Recipe, source: str) -> None:
    """See that what a recipe names exists.

    Raises:
        InputError: an unknown task, encoder, option or other name, answered with the nearest one.
    """
    choices = (
        ("model.pooling", recipe.model.pooling, POOLINGS),
        ("training.optimizer", recipe.training.optimizer, OPTIMIZERS),
        ("training.schedule", recipe.training.schedule, SCHEDULES),
        ("training.spread", recipe.training.spread, SPREADS),
    )
    if recipe.task not in TASKS:
        raise InputError(f'{source}: task is "{recipe.task}"; {nearest(recipe.task, TASKS)} {_OWN}')
    for place, value, known in choices:
        if value not in known:
            raise InputError(f'{source}: {place} is "{value}"; {nearest(value, known)}')
    if not recipe.translated:
        _check_encoder(recipe, source)


def check_recipe(recipe: Recipe, source: str) -> None:
    """See that a recipe can be run.

    Raises:
        InputError: a value that is impossible, or that nothing would read.
    """
    training, model = recipe.training, recipe.model
    ranges = (
        ("data.emphasis", recipe.data.emphasis, recipe.data.emphasis >= 0, "at least 0"),
        ("data.dev_share", recipe.data.dev_share, 0.0 < recipe.data.dev_share < 1.0, "between 0 and 1"),
        ("model.dropout", model.dropout, 0.0 <= model.dropout < 1.0, "at least 0 and below 1"),
        ("model.hidden", model.hidden, model.hidden > 0, "above 0"),
        ("vectors.width", recipe.vectors.width, recipe.vectors.width > 0, "above 0"),
        ("model.smoothing", model.smoothing, 0.0 <= model.smoothing < 1.0, "at least 0 and below 1"),
        ("model.flag", model.flag, model.flag > 0, "above 0"),
        ("model.finder", model.finder, model.finder > 0, "above 0"),
        ("training.epsilon", training.epsilon, training.epsilon > 0, "above 0"),
        ("training.beta2", training.beta2, 0.0 < training.beta2 < 1.0, "between 0 and 1"),
        ("training.halve_at", list(training.halve_at), all(step > 0 for step in training.halve_at), "steps above 0"),
        ("training.batch", training.batch, training.batch > 0, "above 0"),
        ("training.learning_rate", training.learning_rate, training.learning_rate > 0, "above 0"),
        ("training.seed", training.seed, training.seed < 2**32, "below 4,294,967,296"),
        ("vectors.rate", recipe.vectors.rate, 0.0 <= recipe.vectors.rate <= 1.0, "from 0 to 1"),
        ("vectors.unseen", recipe.vectors.unseen, recipe.vectors.unseen >= 0, "at least 0"),
        ("training.epochs", training.epochs, training.epochs > 0, "above 0"),
        *((f"training.{key}", getattr(training, key), getattr(training, key) >= 0, "at least 0")
          for key in ("steps", "batch_tokens", "warmup", "l2", "clip", "evaluate_every", "patience",
                      "seed")),
        *((f"tokens.{key}", getattr(recipe.tokens, key), getattr(recipe.tokens, key) >= 0, "at least 0")
          for key in ("longest", "least")),
    )  # fmt: skip
    for place, number, right, needed in ranges:
        if not right:
            raise InputError(f"{source}: {place} is {number}; it must be {needed}")
    if training.schedule == "constant" and training.warmup:
        raise InputError(f"{source}: training.warmup is {training.warmup}, but a constant schedule does not read it")
    if training.schedule != "constant" and training.halve_at:
        raise InputError(f"{source}: training.halve_at is read by a constant schedule alone; leave one of them out")
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
    _check_tagger(recipe, source)
    if recipe.translated:
        _check_translator(recipe, source)
    elif recipe.translator != Translator():
        raise InputError(f"{source}: [translator] is read by task translation alone; leave it out")


def _check_tagger(recipe: Recipe, source: str) -> None:
    """Refuse what a task does not read."""
    model, usual = recipe.model, Model()
    names = ["pooling", "hidden"] if recipe.tagged or recipe.translated else []
    names += [] if recipe.tagged or recipe.translated else ["smoothing"]
    names += ["activation"] if recipe.translated else []
    names += [] if recipe.roles else ["flag", "finder"]
    for name in names:
        if getattr(model, name) != getattr(usual, name):
            raise InputError(f"{source}: model.{name} is not read by task {recipe.task}; leave it out")
    fixed = recipe.tagged and "activation" not in find_encoder(str(recipe.encoder.get("name"))).options
    if fixed and model.activation != usual.activation:
        raise InputError(f"{source}: model.activation is not read by encoder {recipe.encoder['name']}; leave it out")
    unread = ["delimiter", "classes", "phrases"] if recipe.tagged or recipe.translated else []
    unread += ["text_column", "label_column"] if recipe.roles or recipe.translated else []
    for name in unread:
        if getattr(recipe.data, name) != getattr(Layout(), name):
            raise InputError(f"{source}: data.{name} is not read by task {recipe.task}; leave it out")
    if recipe.tagged and recipe.pretrained.model:
        raise InputError(f"{source}: task {recipe.task} reads words; it takes no [pretrained] model")
    targets = (recipe.data.train_target, recipe.data.dev_target, recipe.data.test_target, *recipe.data.tests_target)
    if any(targets) and not recipe.translated:
        raise InputError(f"{source}: files of translations are for task translation; leave them out")
    tests = recipe.data.tests
    if tests and (not recipe.data.test or len(recipe.data.further) < len(tests)):
        raise InputError(f"{source}: data.tests are further test files of different names, beside the one of data.test")


def _check_translator(recipe: Recipe, source: str) -> None:
    wanted = recipe.translator
    for key in ("layers", "width", "heads", "hidden", "beam"):
        if getattr(wanted, key) < 1:
            raise InputError(f"{source}: translator.{key} is {getattr(wanted, key)}; it must be above 0")
    if wanted.width % wanted.heads or wanted.width % 2:
        raise InputError(f"{source}: translator.width ({wanted.width}) must be even, and divisible by heads ({wanted.heads})")
    if not 0.0 <= wanted.attention_dropout < 1.0:
        raise InputError(f"{source}: translator.attention_dropout is {wanted.attention_dropout}; it must be from 0 to 1")
    if recipe.vectors != Vectors() or recipe.pretrained.model or recipe.tokens.least:
        raise InputError(f"{source}: a translator reads subwords; leave out [vectors], [pretrained] and tokens.least")
    name = recipe.encoder.get("name")
    if name not in ("multihead", "mtsa"):
        raise InputError(f'{source}: encoder.name is "{name}"; the encoder of a translator is multihead or mtsa')
    if name == "multihead" and recipe.encoder_options:
        raise InputError(f"{source}: encoder multihead has no options here; its sizes are those of [translator]")
    known = [key.name for key in dataclasses.fields(Swap)]
    for key in recipe.encoder_options:
        if key not in known:
            raise InputError(f'{source}: encoder mtsa of a translator has no option "{key}"; {nearest(key, known)}')
    try:
        if recipe.swap is not None:
            Swap(**recipe.swap).rules(wanted.heads)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source}: [encoder]: {error}") from None
    data = recipe.data
    pairs = [(data.train, data.train_target), (data.dev, data.dev_target), (data.test, data.test_target)]
    alone = any(bool(one) != bool(other) and not is_corpus(one) and not is_shards(one) for one, other in pairs)
    twice = next((one for one, other in pairs if one and one == other), None)
    if twice:
        raise InputError(f"{source}: {twice} is named as the text and as its translation; name two files")
    if alone or len(data.tests) != len(data.tests_target):
        raise InputError(f"{source}: every file needs the file with its translations: --train A.en A.de")


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
        raise InputError(f"{source}: {error} {_OWN}") from None
    for key, value in recipe.encoder_options.items():
        if key not in options:
            raise InputError(f'{source}: encoder "{name}" has no option "{key}"; {nearest(key, options)}')
        default = options[key]
        kinds = (
            (int, float) if isinstance(default, float) else (list, tuple) if isinstance(default, tuple) else (type(default),)
        )
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise InputError(f"{source}: encoder.{key} is {value!r}; it must be like its default, {default!r}")

"""Whether a recipe can be run: values out of range, and values that nothing would read, stop it."""

from __future__ import annotations

from mtsa.data.source import InputError
from mtsa.encoders import find_encoder
from mtsa.models.pooling import POOLINGS
from mtsa.names import nearest

from .recipe import OPTIMIZERS, SCHEDULES, TASKS, Model, Pretrained, Recipe, Vectors, further_test


def check_recipe(recipe: Recipe, source: str) -> None:
    """See that a recipe can be run.

    Raises:
        InputError: a value that is impossible, or that nothing would read.
    """
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
        ("model.smoothing", model.smoothing, 0.0 <= model.smoothing < 1.0, "at least 0 and below 1"),
        ("model.flag", model.flag, model.flag > 0, "above 0"),
        ("model.finder", model.finder, model.finder > 0, "above 0"),
        ("training.epsilon", training.epsilon, training.epsilon > 0, "above 0"),
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
    _check_encoder(recipe, source)


def _check_tagger(recipe: Recipe, source: str) -> None:
    """Refuse what a task does not read."""
    model, usual = recipe.model, Model()
    names = ["pooling", "hidden"] if recipe.tagged else ["smoothing"]
    names += [] if recipe.roles else ["flag", "finder"]
    for name in names:
        if getattr(model, name) != getattr(usual, name):
            raise InputError(f"{source}: model.{name} is not read by task {recipe.task}; leave it out")
    if recipe.tagged and recipe.pretrained.model:
        raise InputError(f"{source}: task {recipe.task} reads words; it takes no [pretrained] model")
    parts = [further_test(name) for name in recipe.data.tests]
    if parts and (not recipe.data.test or len(set(parts)) < len(parts)):
        raise InputError(f"{source}: data.tests are further test files of different names, beside the one of data.test")


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

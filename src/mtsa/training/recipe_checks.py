"""Validation of recipes: unknown names, values out of range, and settings that have no effect."""

from __future__ import annotations

from mtsa.encoders import find_encoder
from mtsa.errors import InputError
from mtsa.messages import nearest
from mtsa.models.sentence_pooling import POOLINGS
from mtsa.tasks.base import reject_unused_keys
from mtsa.tasks.registry import get_task

from .recipe import (
    CLASS_WEIGHTS,
    DISTRIBUTED,
    METRICS,
    OPTIMIZERS,
    PAIR_ENCODINGS,
    PRECISIONS,
    SCHEDULES,
    Pretrained,
    Recipe,
    Training,
    Vectors,
)

_SHORTEST_WINDOW = 16  # tokens
_PLUGIN_HINT = "(load custom encoders with --plugin MODULE)"


def check_names(recipe: Recipe, source: str) -> None:
    """Check the names in a recipe.

    Raises:
        InputError: unknown task, encoder, option or other name; the message suggests the closest one.
    """
    try:
        task = get_task(recipe.task)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    choices = (
        ("model.pooling", recipe.model.pooling, POOLINGS),
        ("training.optimizer", recipe.training.optimizer, OPTIMIZERS),
        ("training.schedule", recipe.training.schedule, SCHEDULES),
        ("training.distributed", recipe.training.distributed, DISTRIBUTED),
        ("training.precision", recipe.training.precision, PRECISIONS),
        ("training.class_weights", recipe.training.class_weights, CLASS_WEIGHTS),
        ("training.metric", recipe.training.metric, task.selection_metrics or METRICS),
        ("model.pair_encoding", recipe.model.pair_encoding, PAIR_ENCODINGS),
    )
    for place, value, known in choices:
        if value not in known:
            raise InputError(f'{source}: {place} is "{value}"; {nearest(value, known)}')
    task.check_encoder(recipe, source)


def check_recipe(recipe: Recipe, source: str) -> None:
    """Check the values of a recipe.

    Raises:
        InputError: a value is out of range, or a setting has no effect.
    """
    training, model = recipe.training, recipe.model
    ranges = (
        ("data.oversampling", recipe.data.oversampling, recipe.data.oversampling >= 0, "at least 0"),
        ("data.dev_fraction", recipe.data.dev_fraction, 0.0 < recipe.data.dev_fraction < 1.0, "between 0 and 1"),
        ("data.length_percentile", recipe.data.length_percentile, 0.0 < recipe.data.length_percentile <= 100.0,
         "above 0 and at most 100"),
        ("model.dropout", model.dropout, 0.0 <= model.dropout < 1.0, "at least 0 and below 1"),
        ("model.hidden", model.hidden, model.hidden >= 0, "at least 0"),
        ("vectors.dim", recipe.vectors.dim, recipe.vectors.dim > 0, "above 0"),
        ("model.label_smoothing", model.label_smoothing, 0.0 <= model.label_smoothing < 1.0, "at least 0 and below 1"),
        ("model.shape_dim", model.shape_dim, model.shape_dim >= 0, "at least 0"),
        ("model.predicate_dim", model.predicate_dim, model.predicate_dim > 0, "above 0"),
        ("model.finder_channels", model.finder_channels, model.finder_channels > 0, "above 0"),
        ("training.epsilon", training.epsilon, training.epsilon > 0, "above 0"),
        ("training.beta2", training.beta2, 0.0 < training.beta2 < 1.0, "between 0 and 1"),
        ("training.lr_milestones", list(training.lr_milestones), all(step > 0 for step in training.lr_milestones), "above 0"),
        ("training.batch_size", training.batch_size, training.batch_size > 0, "above 0"),
        ("training.length_pool", training.length_pool, training.length_pool > 0, "above 0"),
        ("training.learning_rate", training.learning_rate, training.learning_rate > 0, "above 0"),
        ("training.seed", training.seed, training.seed < 2**32, "below 4,294,967,296"),
        ("vectors.lr_multiplier", recipe.vectors.lr_multiplier, 0.0 <= recipe.vectors.lr_multiplier <= 1.0, "from 0 to 1"),
        ("vectors.max_unseen", recipe.vectors.max_unseen, recipe.vectors.max_unseen >= 0, "at least 0"),
        ("training.epochs", training.epochs, training.epochs > 0, "above 0"),
        *(("training.gradient_accumulation_steps", count, count > 0, "above 0")
          for count in (training.gradient_accumulation_steps,)),
        *((f"training.{key}", getattr(training, key), getattr(training, key) >= 0, "at least 0")
          for key in ("max_steps", "batch_tokens", "warmup_steps", "weight_decay", "max_grad_norm", "eval_steps", "patience",
                      "seed")),
        *((f"tokens.{key}", getattr(recipe.tokens, key), getattr(recipe.tokens, key) >= 0, "at least 0")
          for key in ("max_length", "min_freq")),
    )  # fmt: skip
    for place, number, right, needed in ranges:
        if not right:
            raise InputError(f"{source}: {place} is {number}; it must be {needed}")
    if training.schedule == "constant" and training.warmup_steps:
        raise InputError(
            f"{source}: training.warmup_steps is {training.warmup_steps}, but the constant schedule has no warm-up; remove it"
        )
    if training.schedule != "constant" and training.lr_milestones:
        raise InputError(f"{source}: training.lr_milestones applies to the constant schedule only; remove it")
    if recipe.data.oversampling and not (recipe.data.phrases and recipe.data.classes in (0, 5) and recipe.data.dev):
        raise InputError(f"{source}: data.oversampling requires data.phrases, five classes and a dev file; remove it")
    if training.optimizer == "adadelta" and training.beta2 != Training().beta2:
        raise InputError(f"{source}: training.beta2 applies to adam and adamw only; remove it")
    if training.refit and recipe.data.oversampling:
        raise InputError(f"{source}: training.refit does not support data.oversampling; use --set training.refit=false")
    if recipe.vectors.lr_multiplier != 1.0 and not recipe.vectors.file:
        raise InputError(
            f"{source}: vectors.lr_multiplier is {recipe.vectors.lr_multiplier}, but vectors.file is not "
            "set; set it, or remove vectors.lr_multiplier"
        )
    if recipe.vectors.member and not recipe.vectors.file:
        raise InputError(f"{source}: vectors.member requires vectors.file; remove it")
    tests = recipe.data.tests
    if tests and (not recipe.data.test or len(recipe.data.further) < len(tests)):
        raise InputError(f"{source}: data.tests requires data.test, and its files must have different names")
    task = get_task(recipe.task)
    if not task.weighs_classes:
        reject_unused_keys(recipe, source, task.name, "training", ["class_weights"])
    if not task.selection_metrics:
        reject_unused_keys(recipe, source, task.name, "training", ["metric"])
    for key in ("label_separator", "label_columns"):
        if getattr(recipe.data, key) and not task.multilabel:
            raise InputError(f"{source}: data.{key} applies to task multilabel only; use --task multilabel, or remove it")
    task.check_settings(recipe, source)
    _check_pretrained(recipe, source)


def _check_pretrained(recipe: Recipe, source: str) -> None:
    wanted = recipe.pretrained
    for key, value in (("lr_multiplier", wanted.lr_multiplier), ("lm_weight", wanted.lm_weight)):
        if value < 0:
            raise InputError(f"{source}: pretrained.{key} is {value}; it must be at least 0")
    if not 0 < wanted.layer_decay <= 1:
        raise InputError(f"{source}: pretrained.layer_decay is {wanted.layer_decay}; it must be above 0 and at most 1")
    if not wanted.model and wanted != Pretrained():
        raise InputError(f"{source}: [pretrained] requires pretrained.model; set it with --pretrained, or remove the section")
    if wanted.window and not wanted.window >= _SHORTEST_WINDOW:
        raise InputError(
            f"{source}: pretrained.window is {wanted.window}; it must be 0 (no windows) or at least {_SHORTEST_WINDOW}"
        )
    if wanted.window and (wanted.lm_weight or recipe.model.pair_encoding == "joint"):
        raise InputError(
            f'{source}: pretrained.window requires pretrained.lm_weight = 0 and model.pair_encoding = "separate"; '
            "change them, or remove it"
        )
    if wanted.frozen and (wanted.lr_multiplier != 1.0 or wanted.layer_decay != 1.0 or wanted.lm_weight):
        raise InputError(
            f"{source}: lr_multiplier, layer_decay and lm_weight have no effect with pretrained.frozen; remove them"
        )
    if recipe.model.pair_encoding == "joint" and not wanted.model:
        raise InputError(f'{source}: model.pair_encoding = "joint" requires a pretrained model; specify one with --pretrained')
    if recipe.model.highway and (not recipe.model.hidden or recipe.model.pair_encoding == "joint"):
        raise InputError(f'{source}: model.highway requires model.hidden > 0 and model.pair_encoding = "separate"; remove it')
    if wanted.model and recipe.vectors.file:
        raise InputError(f"{source}: pretrained.model and vectors.file cannot be used together; remove one of them")
    if wanted.model and recipe.vectors != Vectors():
        raise InputError(f"{source}: [vectors] is not used with a pretrained model; remove it")
    if wanted.model and recipe.tokens.min_freq:
        raise InputError(f"{source}: tokens.min_freq is not used with a pretrained model, which has a vocabulary; remove it")


def check_encoder(recipe: Recipe, source: str) -> None:
    """Check the name and the options of the encoder.

    Raises:
        InputError: unknown name or option, or a value of the wrong type.
    """
    name = recipe.encoder.get("name")
    if not isinstance(name, str):
        raise InputError(f'{source}: [encoder] requires a name, such as name = "mtsa"')
    try:
        options = find_encoder(name).options
    except ValueError as error:
        raise InputError(f"{source}: {error} {_PLUGIN_HINT}") from None
    for key, value in recipe.encoder_options.items():
        if key not in options:
            raise InputError(f'{source}: encoder "{name}" has no option "{key}"; {nearest(key, options)}')
        default = options[key]
        types = (
            (int, float) if isinstance(default, float) else (list, tuple) if isinstance(default, tuple) else (type(default),)
        )
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise InputError(f"{source}: encoder.{key} is {value!r}; it must have the type of its default, {default!r}")

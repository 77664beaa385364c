"""Recipes by name, from TOML files and from `--set`. Unknown keys and wrong types are errors."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from mtsa.data.readers import ENDINGS
from mtsa.encoders.renamed_options import rename_options
from mtsa.errors import InputError
from mtsa.messages import counted, nearest, one_line
from mtsa.nn.deprecation import warn_deprecated
from mtsa.tasks.registry import get_task, task_names

from .recipe import Recipe
from .recipe_checks import check_names, check_recipe

RENAMED: dict[str, dict[str, str]] = {
    "data": {"emphasis": "oversampling", "dev_share": "dev_fraction"},
    "tokens": {"longest": "max_length", "least": "min_freq", "subwords": "vocab_size"},
    "vectors": {"rate": "lr_multiplier", "width": "dim", "unseen": "max_unseen"},
    "pretrained": {"rate": "lr_multiplier", "language": "lm_weight"},
    "model": {"smoothing": "label_smoothing", "flag": "predicate_dim", "finder": "finder_channels"},
    "translator": {"beam": "num_beams", "penalty": "length_penalty", "width": "d_model", "hidden": "ffn_dim"},
    "training": {
        "batch": "batch_size", "clip": "max_grad_norm", "l2": "weight_decay", "warmup": "warmup_steps",
        "evaluate_every": "eval_steps", "spread": "distributed", "steps": "max_steps", "halve_at": "lr_milestones",
    },
}  # fmt: skip
"""Keys of version 0.2 by section, with their new names."""

_LARGEST = 1_000_000  # bytes of a recipe file
_LARGEST_NUMBER = 2**53  # larger integers are not exact as floating-point numbers


def named_recipes() -> dict[str, str]:
    """Return the built-in recipes: name and first comment line."""
    found = {}
    for entry in sorted(resources.files("mtsa.recipes").iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".toml"):
            found[entry.name.removesuffix(".toml")] = entry.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
    return found


def load_recipe(name: str, settings: list[str] | None = None) -> Recipe:
    """Load a recipe by name or from a TOML file; `section.key=value` settings override it.

    Raises:
        InputError: no such recipe or file, invalid TOML, unknown key, wrong type or invalid value.
    """
    if name in named_recipes():
        text, source = resources.files("mtsa.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8"), name
    elif Path(name).suffix.lower() in ENDINGS:
        raise InputError(f'"{name}" is not a recipe; to train on it, use --train {name}')
    elif Path(name).is_file():
        text, source = _text(Path(name)), name
    else:
        raise InputError(f'recipe "{name}" is neither a file nor a built-in recipe; {nearest(name, named_recipes())}')
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # invalid TOML, or a number with thousands of digits
        raise InputError(f"{source}: invalid TOML: {one_line(error)}") from None
    return make_recipe(table, settings or [], source)


def _text(path: Path) -> str:
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{path} has more than {_LARGEST:,} bytes; it is not a recipe")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start + 1} is not valid UTF-8; a recipe is TOML in UTF-8") from None


def make_recipe(table: dict[str, Any], settings: list[str], source: str = "the recipe", *, whole: bool = True) -> Recipe:
    """Return a recipe from nested values; with `whole=False`, only keys and types are checked.

    Raises:
        InputError: see `load_recipe`.
    """
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    given: dict[str, Any] = {}
    for setting in settings:
        _apply_setting(given, setting)
    renamed = [*_rename(merged, source), *_rename(given, "--set")]
    if renamed and whole:
        _warn(renamed, source)
    _merge(merged, given)
    task = merged.get("task")
    if isinstance(task, str) and task in task_names() and "encoder" not in merged:
        default_task = get_task(task)
        merged["encoder"] = default_task.encoder_section(default_task.default_encoder)
    if isinstance(task, str) and task in task_names() and (metrics := get_task(task).selection_metrics):
        training = merged.get("training", {})
        if isinstance(training, dict):
            merged["training"] = {"metric": metrics[0], **training}
    recipe: Recipe = _dataclass_from(Recipe, merged, source, "")
    check_names(recipe, source)
    if whole:
        check_recipe(recipe, source)
    return recipe


def to_toml(recipe: Recipe) -> str:
    """Return the recipe as TOML, with all keys."""
    lines = [f"task = {toml_value(recipe.task)}"]
    for section in dataclasses.fields(Recipe)[1:]:
        value = getattr(recipe, section.name)
        items = value.items() if isinstance(value, Mapping) else dataclasses.asdict(value).items()
        lines += ["", f"[{section.name}]", *(f"{key} = {toml_value(item)}" for key, item in items)]
    return "\n".join(lines) + "\n"


def same_recipe(path: Path, recipe: Recipe) -> bool:
    """Return whether a file contains this recipe; missing keys have their defaults."""
    try:
        return to_toml(load_recipe(str(path))) == to_toml(recipe)
    except InputError:  # written by a later version, with unknown keys
        return False


def toml_value(value: Any) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def _apply_setting(table: dict[str, Any], setting: str) -> None:
    """Apply one `section.key=value` setting; the value is TOML, or a bare word."""
    key, equals, text = setting.partition("=")
    section, dot, name = key.strip().partition(".")
    if not equals or not (dot or section == "task"):
        raise InputError(f"--set {setting}: expected section.key=value, such as --set training.batch_size=32")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    if dot:
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputError(f'--set {setting}: "{section}" is not a section')
        inner[name] = value
    else:
        table[section] = value


def _merge(table: dict[str, Any], given: dict[str, Any]) -> None:
    """Override the values of a table by those of `--set`, in place."""
    for section, values in given.items():
        if not isinstance(values, dict):
            table[section] = values
            continue
        inner = table.setdefault(section, {})
        if not isinstance(inner, dict):
            raise InputError(f'--set {section}.{next(iter(values))}: "{section}" is not a section')
        inner |= values


def rename_keys(table: dict[str, Any], source: str) -> None:
    """Rename keys of version 0.2, in place, with one deprecation warning.

    Raises:
        InputError: a key is given under both names.
    """
    if renamed := _rename(table, source):
        _warn(renamed, source)


def _rename(table: dict[str, Any], source: str) -> list[str]:
    """Rename old keys in place; returns a description of each."""
    renamed = []
    for section, names in RENAMED.items():
        values = table.get(section)
        if not isinstance(values, dict):
            continue
        for old, new in names.items():
            if old in values:
                if new in values:
                    raise InputError(
                        f"{source}: {section}.{old} is the deprecated name of {section}.{new}; remove one of them"
                    )
                values[new] = values.pop(old)
                renamed.append(f"{section}.{old} is now {section}.{new}")
    if isinstance(table.get("encoder"), dict):
        try:
            table["encoder"], messages = rename_options(table["encoder"])
        except ValueError as error:
            raise InputError(f"{source}: [encoder]: {error}") from None
        renamed += [f"encoder.{message}" for message in messages]
    return renamed


def _warn(renamed: list[str], source: str) -> None:
    more = f" and {counted(len(renamed) - 3, 'more key')} of version 0.2" if len(renamed) > 3 else ""
    message = f"{source}: {', '.join(renamed[:3])}{more}; the old names will be removed in version 0.4"
    warn_deprecated(message)


def _dataclass_from(kind: type, table: dict[str, Any], source: str, section: str) -> Any:
    """A dataclass from a table, with checked keys and types."""
    hints = typing.get_type_hints(kind)
    values = {}
    for key, value in table.items():
        place = f"{section}.{key}" if section else key
        if key not in hints:
            what = "key" if section else "section or key"
            raise InputError(f'{source}: unknown {what} "{place}"; {nearest(key, hints)}')
        wanted = hints[key]
        if dataclasses.is_dataclass(wanted):
            if not isinstance(value, dict):
                raise InputError(f"{source}: {place} must be a section [{place}]")
            values[key] = _dataclass_from(wanted, value, source, place)  # type: ignore[arg-type]
        else:
            values[key] = _checked_value(wanted, value, source, place)
    return kind(**values)


def _checked_value(wanted: Any, value: Any, source: str, place: str) -> Any:
    kind = typing.get_origin(wanted) or wanted
    if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
        raise InputError(f"{source}: {place} is a number of {value.bit_length()} bits; it must be at most {_LARGEST_NUMBER:,}")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
    if kind is tuple and isinstance(value, list | tuple):
        inner = typing.get_args(wanted)[0]
        return tuple(_checked_value(inner, item, source, place) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{source}: {place} is {value}; it must be a finite number")
    if wrong:
        names = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
        raise InputError(
            f"{source}: {place} is {value!r}; it must be {names.get(kind, 'a list' if kind is tuple else 'a section')}"
        )
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, int):
                _checked_value(int if not isinstance(inner, bool) else bool, inner, source, f"{place}.{key}")
        return types.MappingProxyType(dict(value))
    return value

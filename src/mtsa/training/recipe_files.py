"""Recipes by name, from TOML files and from `--set`: strict, so that unknown keys and wrong types stop them."""

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
from mtsa.data.source import InputError
from mtsa.data.tasks import TASKS
from mtsa.names import nearest, one_line

from .recipe import Recipe
from .recipe_checks import check_names, check_recipe

_LARGEST = 1_000_000  # bytes of a recipe
_LARGEST_NUMBER = 2**53  # of a whole number: no setting means more, and floating-point numbers go astray beyond


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
        text, source = _text(Path(name)), name
    else:
        raise InputError(f'recipe "{name}" is neither a file nor a known name; {nearest(name, named_recipes())}')
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # no TOML, or a number of thousands of digits
        raise InputError(f"{source}: this is no TOML: {one_line(error)}") from None
    return make_recipe(table, settings or [], source)


def _text(path: Path) -> str:
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{path} has more than {_LARGEST:,} bytes; it is no recipe")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start + 1} is no UTF-8; a recipe is TOML in UTF-8") from None


def make_recipe(table: dict[str, Any], settings: list[str], source: str = "the recipe", *, whole: bool = True) -> Recipe:
    """A recipe from nested values; where it is not the whole of one, only names and types are checked.

    Raises:
        InputError: as `load_recipe`.
    """
    merged = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    for setting in settings:
        _put(merged, setting)
    task = merged.get("task")
    if isinstance(task, str) and task in TASKS and TASKS[task].translated:
        merged.setdefault("encoder", {"name": "mtsa"})
    recipe: Recipe = _made(Recipe, merged, source, "")
    check_names(recipe, source)
    if whole:
        check_recipe(recipe, source)
    return recipe


def to_toml(recipe: Recipe) -> str:
    """The recipe as TOML, every key written out."""
    lines = [f"task = {toml_value(recipe.task)}"]
    for section in dataclasses.fields(Recipe)[1:]:
        value = getattr(recipe, section.name)
        items = value.items() if isinstance(value, Mapping) else dataclasses.asdict(value).items()
        lines += ["", f"[{section.name}]", *(f"{key} = {toml_value(item)}" for key, item in items)]
    return "\n".join(lines) + "\n"


def same_recipe(path: Path, recipe: Recipe) -> bool:
    """Whether a recipe was written there before; keys that came since count as at their defaults."""
    try:
        return to_toml(load_recipe(str(path))) == to_toml(recipe)
    except InputError:  # of a later version, with keys that this one does not know
        return False


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
    except (ValueError, RecursionError):
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
    if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
        raise InputError(f"{source}: {place} is a number of {value.bit_length()} bits; it must be at most {_LARGEST_NUMBER:,}")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
    if kind is tuple and isinstance(value, list | tuple):
        inner = typing.get_args(wanted)[0]
        return tuple(_typed(inner, item, source, place) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{source}: {place} is {value}; it must be a finite number")
    if wrong:
        names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InputError(
            f"{source}: {place} is {value!r}; it must be {names.get(kind, 'a list' if kind is tuple else 'a section')}"
        )
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, int):
                _typed(int if not isinstance(inner, bool) else bool, inner, source, f"{place}.{key}")
        return types.MappingProxyType(dict(value))
    return value

"""Registry of tasks: those of this package, of installed plugins and of plugin modules."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from mtsa.errors import InputError
from mtsa.messages import nearest

if TYPE_CHECKING:
    from .base import Task

ENTRY_POINTS = "mtsa.tasks"
"""Entry point group by which an installed package provides tasks: NAME = "module:Class"."""

_BUILT_IN = {
    "classification": "mtsa.tasks.text:Classification",
    "multilabel": "mtsa.tasks.multilabel:MultiLabel",
    "regression": "mtsa.tasks.text:Regression",
    "pair": "mtsa.tasks.text:PairClassification",
    "similarity": "mtsa.tasks.text:Similarity",
    "tagging": "mtsa.tasks.tagging:Tagging",
    "srl": "mtsa.tasks.srl:SemanticRoles",
    "translation": "mtsa.tasks.translation:Translation",
}
_tasks: dict[str, Task] = {}  # those that have been imported or registered


def task_names() -> list[str]:
    """Return the names of all tasks."""
    plugins = [point.name for point in entry_points(group=ENTRY_POINTS)]
    return list(dict.fromkeys((*_BUILT_IN, *_tasks, *plugins)))


def register(task: type[Task]) -> type[Task]:
    """Register a task by its name in this process. Can be used as a decorator.

    Raises:
        ValueError: the name is already registered.
    """
    if task.name in task_names():
        raise ValueError(f'task "{task.name}" is already registered; choose another name')
    _tasks[task.name] = task()
    return task


def get_task(name: str) -> Task:
    """Return the task of a name.

    Raises:
        InputError: unknown name.
    """
    if name not in _tasks:
        _tasks[name] = _import(name)
    return _tasks[name]


def load_plugin(module: str) -> None:
    """Import a module that registers tasks or encoders.

    Raises:
        InputError: the module cannot be imported, or registers an existing name.
    """
    try:
        importlib.import_module(module)
    except (ImportError, ValueError) as error:
        raise InputError(f"plugin {module} cannot be imported: {error}") from None


def _import(name: str) -> Task:
    home = _BUILT_IN.get(name)
    if home is None:
        home = next((point.value for point in entry_points(group=ENTRY_POINTS) if point.name == name), None)
    if home is None:
        hint = nearest(name, task_names())
        raise InputError(f'unknown task "{name}"; {hint} (load custom tasks with --plugin MODULE)')
    module, _, kind = home.partition(":")
    task: Task = getattr(importlib.import_module(module), kind)()
    return task

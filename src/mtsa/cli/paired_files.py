"""Options with two values, such as `--train A.en A.de`, for tasks with two files per part."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

_OPTIONS = ("--train", "--dev", "--test")


class PairedFiles(TyperCommand):
    """A command whose options --train, --dev and --test take two files each, for tasks that need them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, repeat_options(args))


def repeat_options(args: list[str]) -> list[str]:
    """Return the arguments with the option repeated before each second file."""
    if _files_per_part(args) < 2:
        return args
    out: list[str] = []
    for place, argument in enumerate(args):
        second = place >= 2 and args[place - 2] in _OPTIONS and not args[place - 1].startswith("-")
        if second and not argument.startswith("-"):
            out.append(args[place - 2])
        out.append(argument)
    return out


def _files_per_part(args: list[str]) -> int:
    """Files of a part, for the task that the arguments name."""
    from mtsa.tasks.registry import get_task, task_names

    name = next((argument.partition("=")[2] for argument in args if argument.startswith("--task=")), None)
    if "--task" in args[:-1]:
        name = args[args.index("--task") + 1]
    return get_task(name).files if name in task_names() else 1

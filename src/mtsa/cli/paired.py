"""`--train A.en A.de`: two files after one option, where the task is translation."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

_OPTIONS = ("--train", "--dev", "--test")


class PairedFiles(TyperCommand):
    """A command whose options --train, --dev and --test take two files each with `--task translation`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, repeated(args))


def repeated(args: list[str]) -> list[str]:
    """The arguments with each second file given by an option of its own."""
    if not any(pair in (["--task", "translation"], ["--task=translation"]) for pair in _windows(args)):
        return args
    out: list[str] = []
    for place, argument in enumerate(args):
        second = place >= 2 and args[place - 2] in _OPTIONS and not args[place - 1].startswith("-")
        if second and not argument.startswith("-"):
            out.append(args[place - 2])
        out.append(argument)
    return out


def _windows(args: list[str]) -> list[list[str]]:
    return [args[place : place + 2] for place in range(len(args))] + [[argument] for argument in args]

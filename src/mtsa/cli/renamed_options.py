"""Options of version 0.2 that have other names now."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from .console import fail

RENAMED = {
    "evaluate": {"--beam": "--num-beams", "--picture": "--plot"},
    "predict": {"--beam": "--num-beams", "--keep": "--keep-columns"},
    "export": {"--most": "--max-texts"},
    "pretrain": {
        "--width": "--hidden-size", "--tokens": "--vocab-size", "--length": "--max-length", "--batch": "--batch-size",
        "--shared": "--distributed=fsdp", "--no-shared": "--distributed=ddp",
    },
    "get": {"--into": "--out"},
    "convert": {"--format": "--from"},
}  # fmt: skip
"""The old options of each command, with their new names, or with a new option and its value."""


class RenamedOptions(TyperCommand):
    """A command that accepts the options of version 0.2, with a deprecation warning."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, rename_options(args, RENAMED[self.name or ""]))


def rename_options(args: list[str], names: dict[str, str]) -> list[str]:
    """Return the arguments with the new names of options."""
    out = []
    for position, argument in enumerate(args):
        option, equals, value = argument.partition("=")
        if option not in names or "--" in args[:position]:
            out.append(argument)
            continue
        new = names[option]
        if any(other.partition("=")[0] == new.partition("=")[0] for other in args):
            fail(f"{option} is the deprecated name of {new}; use only {new}")
        typer.echo(f"warning: {option} is deprecated and will be removed in version 0.4; use {new}", err=True)
        out.append(f"{new}{equals}{value}")
    return out

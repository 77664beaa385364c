"""`mtsa recipes` and `mtsa encoders`: what is available."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from .shell import fail


def add_lists(app: typer.Typer) -> None:
    """Put the commands into the app."""
    for command in (recipes, encoders):
        app.command()(command)


def recipes(name: Annotated[str | None, typer.Argument(help="Print this one.")] = None) -> None:
    """The recipes that come with the package, or the text of one."""
    from importlib import resources

    from mtsa.names import nearest
    from mtsa.training.recipe_files import named_recipes

    known = named_recipes()
    if name is None:
        for found, about in known.items():
            typer.echo(f"{found:16} {about}")
    elif name in known:
        typer.echo(resources.files("mtsa.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8").rstrip())
    else:
        fail(f'recipe "{name}" is unknown; {nearest(name, known)}')


def encoders() -> None:
    """The context encoders, with their options and defaults."""
    from mtsa.encoders import encoder_names, find_encoder

    for name in encoder_names():
        entry = find_encoder(name)
        options = ", ".join(f"{key}={json.dumps(value)}" for key, value in entry.options.items())
        typer.echo(f"{name:22}{entry.summary}")
        if options:
            typer.echo(f"{'':22}{options}")
    typer.echo("\nDefaults are the paper's sizes; mtsa train without a recipe takes half of the width.")

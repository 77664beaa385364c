"""`mtsa recipes`."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import fail


def recipes(name: Annotated[str | None, typer.Argument(help="Name of a recipe to print.")] = None) -> None:
    """List the built-in recipes, or print one."""
    from importlib import resources

    from mtsa.messages import nearest
    from mtsa.training.recipe_files import named_recipes

    known = named_recipes()
    if name is None:
        for found, about in known.items():
            typer.echo(f"{found:16} {about}")
    elif name in known:
        typer.echo(resources.files("mtsa.recipes").joinpath(f"{name}.toml").read_text(encoding="utf-8").rstrip())
    else:
        fail(f'unknown recipe "{name}"; {nearest(name, known)}')

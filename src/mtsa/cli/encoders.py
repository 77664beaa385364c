"""`mtsa encoders`."""

from __future__ import annotations

import json

import typer


def encoders() -> None:
    """List the context encoders with their options and defaults."""
    from mtsa.encoders import encoder_names, find_encoder

    for name in encoder_names():
        entry = find_encoder(name)
        options = ", ".join(f"{key}={json.dumps(value)}" for key, value in entry.options.items())
        typer.echo(f"{name:22}{entry.summary}")
        if options:
            typer.echo(f"{'':22}{options}")
    typer.echo("\nDefaults: sizes of the paper. Without a recipe, mtsa train uses half of these widths.")

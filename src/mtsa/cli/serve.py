"""`mtsa serve`: serve models with a web page and a JSON API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import exit_on_error, fail


def serve(
    runs: Annotated[
        list[Path], typer.Argument(help="Run directories of trained models; several can be compared on the page.")
    ],
    errors: Annotated[
        Path | None, typer.Option(help="Show the mistakes of the first model: a file written by mtsa evaluate --errors.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 selects a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to bind to; the default is reachable from this machine only.")
    ] = "127.0.0.1",
) -> None:
    """Serve models with a web page (the explorer) and a JSON API."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        fail("mtsa serve requires packages that are not installed; install them with: pip install 'mtsa[serve]'")
    from mtsa.serve.served_model import open_models
    from mtsa.serve.server import serve as start

    with exit_on_error():
        start(open_models(runs, errors), host, port)

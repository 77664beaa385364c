"""The command line: read the arguments, call one function, print."""

from .app import app

__all__ = ["app"]

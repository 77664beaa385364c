"""The command line: read the arguments, call one function, print."""

from .main import app

__all__ = ["app"]

"""Log level of `transformers`: errors only, because this package has its own messages and progress bars."""

from __future__ import annotations


def silence_transformers() -> None:
    """Turn off log messages below errors, and progress bars."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()

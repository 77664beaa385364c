"""`transformers` speaks only of errors here: progress and remarks are this package's own."""

from __future__ import annotations


def silence_transformers() -> None:
    """Turn its remarks and progress bars off."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()

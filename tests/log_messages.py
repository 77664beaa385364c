"""The log of the package, for fixtures that cannot use caplog because they outlive a test."""

import contextlib
import logging


@contextlib.contextmanager
def logged():
    """The messages that mtsa logs inside the block."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("mtsa")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)

"""A clean stop: at SIGINT or SIGTERM the step under way ends, is saved, and training stops. A second signal does not wait."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import TrainerCallback, TrainerControl

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopper(TrainerCallback):
    """Ends training after the step in which it was asked to."""

    def __init__(self) -> None:
        self.asked = False

    def ask(self, *_: Any) -> None:
        """Stop soon; at the second time, at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def on_step_end(self, args: Any, state: Any, control: TrainerControl, **_: Any) -> TrainerControl:
        if self.asked and state.global_step < state.max_steps:
            control.should_save = control.should_training_stop = True
        return control


@contextmanager
def stopping() -> Iterator[Stopper]:
    """A stopper that hears signals, as long as the block runs; not of several processes, which torchrun stops together."""
    stopper = Stopper()
    heard = threading.current_thread() is threading.main_thread() and int(os.environ.get("WORLD_SIZE", "1")) == 1
    before = {number: signal.signal(number, stopper.ask) for number in _SIGNALS} if heard else {}
    try:
        yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

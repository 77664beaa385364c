"""Graceful interruption: after SIGINT or SIGTERM, the current step is finished and saved. A second signal stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether a signal has requested a stop."""

    def __init__(self) -> None:
        self.requested = False

    def request(self, *_: Any) -> None:
        """Request a stop after the current step; the second time, stop immediately."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Within the block, SIGINT and SIGTERM only set `requested`; only the main thread handles them."""
    stop = StopRequest()
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, stop.request) for number in _SIGNALS} if main else {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

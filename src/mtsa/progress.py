"""Progress of long work: whoever does the work reports to the bar that is open, if any.

    with progress("predicting", total=1000):
        advance(64)   # in any function called inside

Without a display, which the command line sets with `set_display`, nothing is shown. Bars do not nest: inside an open bar
another one is silent, unless it counts something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

Update = Callable[[int, str], None]  # (how much is done, a note)
Display = Callable[[str, int | None], AbstractContextManager[Update]]


class Bar:
    """One progress bar.

    Args:
        unit: what it counts; `advance` calls with another unit do not move it.
        update: shows (how much is done, a note).
    """

    def __init__(self, unit: str, update: Update) -> None:
        self.unit, self._update = unit, update
        self.done = 0

    def update(self, done: int, note: str = "") -> None:
        """Set how much is done."""
        self.done = done
        self._update(done, note)


_display: Display | None = None
_open: ContextVar[Bar | None] = ContextVar("open bar", default=None)


def set_display(display: Display | None) -> None:
    """Set how bars are shown, for the whole process; None for not at all."""
    global _display
    _display = display


@contextmanager
def progress(description: str, total: int | None = None, unit: str = "examples") -> Iterator[Bar]:
    """Open a bar while the block runs."""
    outer = _open.get()
    if _display is None or outer is not None:
        bar = Bar(unit, lambda done, note: None)
        token = _open.set(bar if outer is None else outer)
        try:
            yield bar
        finally:
            _open.reset(token)
        return
    with _display(description, total) as update:
        bar = Bar(unit, update)
        token = _open.set(bar)
        try:
            yield bar
        finally:
            _open.reset(token)


def advance(count: int, unit: str = "examples") -> None:
    """Report that so many more are done, to the open bar, if it counts them."""
    bar = _open.get()
    if bar is not None and bar.unit == unit:
        bar.update(bar.done + count)

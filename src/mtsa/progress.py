"""Progress reporting: functions report their progress to the active progress bar, if any.

    with progress("predicting", total=1000):
        advance(64)   # in any function called inside

Nothing is shown unless a display is set with `set_display`, as the command line does. Bars do not nest: inside an active bar
another one is not shown, unless it counts another unit.
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
        unit: what the bar counts; calls of `advance` with another unit are ignored.
        update: called with (amount done, note).
    """

    def __init__(self, unit: str, update: Update) -> None:
        self.unit, self._update = unit, update
        self.done = 0

    def update(self, done: int, note: str = "") -> None:
        """Set the amount done."""
        self.done = done
        self._update(done, note)


_display: Display | None = None
_open: ContextVar[Bar | None] = ContextVar("open bar", default=None)


def set_display(display: Display | None) -> None:
    """Set the display of progress bars for the whole process; None disables them."""
    global _display
    _display = display


@contextmanager
def progress(description: str, total: int | None = None, unit: str = "examples") -> Iterator[Bar]:
    """Show a progress bar within the block."""
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
    """Advance the active progress bar, if it counts this unit."""
    bar = _open.get()
    if bar is not None and bar.unit == unit:
        bar.update(bar.done + count)

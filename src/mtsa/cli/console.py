"""Error messages, exit codes and progress bars of the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

console = Console(stderr=True)


def fail(sentence: object) -> NoReturn:
    """Print a message for invalid input and exit with code 2."""
    typer.echo(" ".join(str(sentence).split()), err=True)
    raise typer.Exit(2)


def exit_stopped() -> NoReturn:
    """Print how to resume after a signal and exit with code 130."""
    typer.echo("interrupted; rerun the command to resume", err=True)
    raise typer.Exit(130)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn invalid input inside the block into a message and exit code 2."""
    from mtsa.errors import InputError

    try:
        yield
    except InputError as error:
        fail(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(f"{error.filename or 'file error'}: {error.strerror or error}")


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "")


@contextmanager
def progress_bar(note: str, total: int | None) -> Iterator[Callable[[int, str], None]]:
    """A progress bar on terminals; the callback takes (amount done, note)."""
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(note, total=total)
        yield lambda done, text: progress.update(task, completed=done, description=text or note)


@contextmanager
def step_counter(total: int | None, note: str = "measuring") -> Iterator[Callable[[str], None]]:
    """A progress bar that advances by one with each call."""
    with progress_bar(note, total) as move:
        done = 0

        def tick(text: str) -> None:
            nonlocal done
            done += 1
            move(done, text)

        yield tick

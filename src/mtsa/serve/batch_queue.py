"""The request queue: waiting questions are predicted in small batches.

One thread runs all models, so that no two requests use a model at the same time. Models take turns and batches are small, so
that large requests do not delay others; cancelled requests are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

_log = logging.getLogger("mtsa.serve")


class QueueFullError(Exception):
    """The queue is full."""


class BatchModel(Protocol):
    """A model that predicts answers to questions, in order; `size` is the length of a question."""

    def answers(self, questions: Sequence[Any]) -> list[Any]: ...

    def size(self, question: Any) -> int: ...


class _Request:
    """The answers of one request, which arrive one by one."""

    def __init__(self, count: int) -> None:
        self.answers: list[Any] = [None] * count
        self.left = count
        self.result: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def put(self, place: int, answer: Any, error: Exception | None) -> None:
        """Store one answer, or an error, which ends the request."""
        if self.result.done():  # cancelled
            return
        if error is not None:
            self.result.set_exception(error)
            return
        self.answers[place] = answer
        self.left -= 1
        if not self.left:
            self.result.set_result(self.answers)


@dataclass(frozen=True)
class _Item:
    """One question, or one other task, of a request."""

    request: _Request
    place: int
    question: Any = None
    work: Callable[[], Any] | None = None


class BatchQueue:
    """A queue with one worker; must be created in a running event loop.

    Args:
        waiting: maximum number of waiting questions.
        batch: maximum number of questions in a batch.
        characters: maximum number of characters in a batch; a longer question forms a separate batch.
    """

    def __init__(self, *, waiting: int, batch: int, characters: int) -> None:
        self._most, self._batch, self._characters = waiting, batch, characters
        self._lanes: dict[int, tuple[BatchModel | None, deque[_Item]]] = {}  # of each model, in the order of their turns
        self._there = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._closed = False
        self._worker = asyncio.create_task(self._work())

    async def ask(self, model: BatchModel, questions: Sequence[Any], seconds: float) -> list[Any]:
        """Return the answers to questions, within a time limit in seconds.

        Raises:
            QueueFullError: too many questions are waiting.
            TimeoutError: the time limit was exceeded.
        """
        request = _Request(len(questions))
        return await self._wait(model, [_Item(request, place, question) for place, question in enumerate(questions)], seconds)

    async def do(self, work: Callable[[], Any], seconds: float) -> Any:
        """Run another function in the worker thread and return its result."""
        return (await self._wait(None, [_Item(_Request(1), 0, work=work)], seconds))[0]

    @property
    def alive(self) -> bool:
        """Whether the worker is running."""
        return not self._worker.done()

    async def close(self) -> None:
        """Process the waiting questions, then stop; later requests are rejected."""
        self._closed = True
        self._there.set()
        await self._worker
        self._thread.shutdown()

    async def _wait(self, model: BatchModel | None, items: list[_Item], seconds: float) -> list[Any]:
        waiting = sum(len(lane) for _, lane in self._lanes.values())
        if self._closed or waiting + len(items) > self._most:
            raise QueueFullError
        self._lanes.setdefault(id(model), (model, deque()))[1].extend(items)
        self._there.set()
        return await asyncio.wait_for(items[0].request.result, seconds)  # cancelled when time is up, or when it is cancelled

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._there.wait()
            model, items = self._next()
            if items:
                for item, (answer, error) in zip(
                    items, await loop.run_in_executor(self._thread, _run_items, model, items), strict=True
                ):
                    item.request.put(item.place, answer, error)
            elif self._closed:
                return
            else:
                self._there.clear()

    def _next(self) -> tuple[BatchModel | None, list[_Item]]:
        """The model whose turn it is, and its next batch."""
        for key in list(self._lanes):
            model, lane = self._lanes.pop(key)
            taken: list[_Item] = []
            size = 0
            while lane and len(taken) < (1 if model is None else self._batch):
                if lane[0].request.result.done():  # cancelled
                    lane.popleft()
                    continue
                size += 0 if model is None else model.size(lane[0].question)
                if taken and size > self._characters:
                    break
                taken.append(lane.popleft())
            if lane:
                self._lanes[key] = (model, lane)
            if taken:
                return model, taken
        return None, []


def _run_items(model: BatchModel | None, items: Sequence[_Item]) -> list[tuple[Any, Exception | None]]:
    """Answers or errors; if a batch fails, each question is predicted separately, so that one does not affect the others."""
    if model is not None and len(items) > 1:
        try:
            answers = model.answers([item.question for item in items])
            if len(answers) == len(items):
                return [(answer, None) for answer in answers]
        except Exception:
            _log.warning("a batch of %d questions failed; each is retried separately", len(items), exc_info=True)
    return [_run_item(model, item) for item in items]


def _run_item(model: BatchModel | None, item: _Item) -> tuple[Any, Exception | None]:
    try:
        if item.work is not None:
            return item.work(), None
        assert model is not None
        (answer,) = model.answers([item.question])
        return answer, None
    except StopIteration:  # which futures do not support
        return None, RuntimeError("a model returned too few predictions")
    except Exception as error:
        return None, error

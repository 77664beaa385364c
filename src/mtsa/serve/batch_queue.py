"""The request queue: waiting inputs are predicted in small batches.

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
    """A model that returns predictions for inputs, in order; `size` is the length of an input."""

    def predict(self, inputs: Sequence[Any]) -> list[Any]: ...

    def size(self, item: Any) -> int: ...


class _Request:
    """The results of one request, which arrive one by one."""

    def __init__(self, count: int) -> None:
        self.results: list[Any] = [None] * count
        self.remaining = count
        self.future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def set(self, index: int, result: Any, error: Exception | None) -> None:
        """Store one result, or an error, which ends the request."""
        if self.future.done():  # cancelled
            return
        if error is not None:
            self.future.set_exception(error)
            return
        self.results[index] = result
        self.remaining -= 1
        if not self.remaining:
            self.future.set_result(self.results)


@dataclass(frozen=True)
class _Item:
    """One input, or one other task, of a request."""

    request: _Request
    index: int
    input: Any = None
    work: Callable[[], Any] | None = None


class BatchQueue:
    """A queue with one worker; must be created in a running event loop.

    Args:
        max_size: maximum number of waiting inputs.
        max_batch_size: maximum number of inputs in a batch.
        max_batch_chars: maximum number of characters in a batch; a longer input forms a separate batch.
    """

    def __init__(self, *, max_size: int, max_batch_size: int, max_batch_chars: int) -> None:
        self._max_size, self._max_batch_size, self._max_batch_chars = max_size, max_batch_size, max_batch_chars
        self._queues: dict[int, tuple[BatchModel | None, deque[_Item]]] = {}  # of each model, in the order of their turns
        self._ready = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._closed = False
        self._worker = asyncio.create_task(self._work())

    async def predict(self, model: BatchModel, inputs: Sequence[Any], seconds: float) -> list[Any]:
        """Return the predictions for inputs, within a time limit in seconds.

        Raises:
            QueueFullError: too many inputs are waiting.
            TimeoutError: the time limit was exceeded.
        """
        request = _Request(len(inputs))
        return await self._wait(model, [_Item(request, index, item) for index, item in enumerate(inputs)], seconds)

    async def run(self, work: Callable[[], Any], seconds: float) -> Any:
        """Run another function in the worker thread and return its result."""
        return (await self._wait(None, [_Item(_Request(1), 0, work=work)], seconds))[0]

    @property
    def alive(self) -> bool:
        """Whether the worker is running."""
        return not self._worker.done()

    async def close(self) -> None:
        """Process the waiting inputs, then stop; later requests are rejected."""
        self._closed = True
        self._ready.set()
        await self._worker
        self._thread.shutdown()

    async def _wait(self, model: BatchModel | None, items: list[_Item], seconds: float) -> list[Any]:
        waiting = sum(len(queue) for _, queue in self._queues.values())
        if self._closed or waiting + len(items) > self._max_size:
            raise QueueFullError
        self._queues.setdefault(id(model), (model, deque()))[1].extend(items)
        self._ready.set()
        return await asyncio.wait_for(items[0].request.future, seconds)  # cancels the future on timeout and on cancellation

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._ready.wait()
            model, items = self._next()
            if items:
                for item, (result, error) in zip(
                    items, await loop.run_in_executor(self._thread, _run_items, model, items), strict=True
                ):
                    item.request.set(item.index, result, error)
            elif self._closed:
                return
            else:
                self._ready.clear()

    def _next(self) -> tuple[BatchModel | None, list[_Item]]:
        """The model whose turn it is, and its next batch."""
        for key in list(self._queues):
            model, queue = self._queues.pop(key)
            batch: list[_Item] = []
            size = 0
            while queue and len(batch) < (1 if model is None else self._max_batch_size):
                if queue[0].request.future.done():  # cancelled
                    queue.popleft()
                    continue
                size += 0 if model is None else model.size(queue[0].input)
                if batch and size > self._max_batch_chars:
                    break
                batch.append(queue.popleft())
            if queue:
                self._queues[key] = (model, queue)
            if batch:
                return model, batch
        return None, []


def _run_items(model: BatchModel | None, items: Sequence[_Item]) -> list[tuple[Any, Exception | None]]:
    """Results or errors; if a batch fails, each input is predicted separately, so that one does not affect the others."""
    if model is not None and len(items) > 1:
        try:
            predictions = model.predict([item.input for item in items])
            if len(predictions) == len(items):
                return [(prediction, None) for prediction in predictions]
        except Exception:
            _log.warning("a batch of %d inputs failed; each is retried separately", len(items), exc_info=True)
    return [_run_item(model, item) for item in items]


def _run_item(model: BatchModel | None, item: _Item) -> tuple[Any, Exception | None]:
    try:
        if item.work is not None:
            return item.work(), None
        assert model is not None
        (prediction,) = model.predict([item.input])
        return prediction, None
    except StopIteration:  # which futures do not support
        return None, RuntimeError("a model returned too few predictions")
    except Exception as error:
        return None, error

"""The queue before the models: whatever is waiting when the model is free is answered together.

One thread does all the work of the models, so that no two requests ever touch one at the same time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol


class FullError(Exception):
    """There is no room in the queue."""


class Answering(Protocol):
    """A model: answers to questions, in order."""

    def answers(self, questions: Sequence[Any]) -> list[Any]: ...


class _Job:
    """Questions of one request, or a piece of other work, and where the answers are awaited."""

    def __init__(self, size: int, model: Answering | None, questions: Sequence[Any], work: Callable[[], Any] | None) -> None:
        self.size, self.model, self.questions, self.work = size, model, questions, work
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Line:
    """A queue with one worker; made inside a running event loop.

    Args:
        waiting: questions that may wait.
        batch: questions of one model that are answered together; a request with more is still answered at once.
    """

    def __init__(self, *, waiting: int, batch: int) -> None:
        self._most, self._batch = waiting, batch
        self._jobs: deque[_Job] = deque()
        self._waiting = 0
        self._there = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._closed = False
        self._worker = asyncio.create_task(self._work())
        self.batches = 0  # answered so far

    async def ask(self, model: Answering, questions: Sequence[Any], seconds: float) -> list[Any]:
        """Answers to questions, after at most so many seconds.

        Raises:
            FullError: too many are waiting.
            TimeoutError: it took longer.
        """
        answers: list[Any] = await self._wait(_Job(len(questions), model, questions, None), seconds)
        return answers

    async def do(self, work: Callable[[], Any], seconds: float) -> Any:
        """The result of other work with a model, done in turn, by itself."""
        return await self._wait(_Job(1, None, (), work), seconds)

    async def close(self) -> None:
        """Answer what is waiting, then stop; later requests are refused."""
        self._closed = True
        self._there.set()
        await self._worker
        self._thread.shutdown()

    async def _wait(self, job: _Job, seconds: float) -> Any:
        if self._closed or self._waiting + job.size > self._most:
            raise FullError
        self._jobs.append(job)
        self._waiting += job.size
        self._there.set()
        return await asyncio.wait_for(job.answer, seconds)  # cancels the answer when time is up: then nobody works for it

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._there.wait()
            jobs = self._next()
            if not jobs:
                if self._closed:
                    return
                self._there.clear()
                continue
            found = await loop.run_in_executor(self._thread, _done, jobs)
            self.batches += 1
            for job, (answer, error) in zip(jobs, found, strict=True):
                if job.answer.done():  # given up
                    continue
                if error is None:
                    job.answer.set_result(answer)
                else:
                    job.answer.set_exception(error)

    def _next(self) -> list[_Job]:
        """The jobs to do together: the first that is waiting, and others of its model, up to a batch."""
        taken: list[_Job] = []
        left: deque[_Job] = deque()
        size = 0
        while self._jobs:
            job = self._jobs.popleft()
            if job.answer.done():  # given up
                self._waiting -= job.size
            elif not taken or (job.work is None and job.model is taken[0].model and size + job.size <= self._batch):
                taken.append(job)
                size += job.size
                self._waiting -= job.size
                if job.work is not None:
                    break
            else:
                left.append(job)
        self._jobs.extendleft(reversed(left))
        return taken


def _done(jobs: Sequence[_Job]) -> list[tuple[Any, Exception | None]]:
    """Answers, or what went wrong, of each job; when a batch fails, each job is tried alone, so that one harms no other."""
    if jobs[0].work is None and len(jobs) > 1:
        assert jobs[0].model is not None
        try:
            answers = jobs[0].model.answers([question for job in jobs for question in job.questions])
        except Exception:
            return [_alone(job) for job in jobs]
        ends = [0]
        for job in jobs:
            ends.append(ends[-1] + job.size)
        return [(answers[start:stop], None) for start, stop in pairwise(ends)]
    return [_alone(job) for job in jobs]


def _alone(job: _Job) -> tuple[Any, Exception | None]:
    try:
        if job.work is not None:
            return job.work(), None
        assert job.model is not None
        return job.model.answers(job.questions), None
    except Exception as error:
        return None, error

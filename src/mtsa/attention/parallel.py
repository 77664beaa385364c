"""Independent shares of work on several cores, each share on one core.

A product of small matrices gains little from two cores, what one core has written the other must fetch, and an operation
on two cores waits for the slower one: next to another busy process a thousand such operations take many times as long. So
on a CPU whole shares of a call go to threads that each use one core. There are as many as `torch.get_num_threads()` says,
at most `_MOST`; beyond that each of them may use several cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")

_MOST = 8

_pool: ThreadPoolExecutor | None = None
_threads_of_pool = 0
_lock = threading.Lock()
_worker = threading.local()


def workers(device: torch.device) -> int:
    """How many shares of work can run side by side here; 1 inside a share."""
    if device.type != "cpu" or getattr(_worker, "inside", False):
        return 1
    return min(torch.get_num_threads(), _MOST)


def for_each(items: Sequence[Item], work: Callable[[Item], None], device: torch.device) -> None:
    """Call `work` once for each item, side by side where that can be. Errors come through."""
    if len(items) < 2 or workers(device) == 1:
        for item in items:
            work(item)
        return
    inference = torch.is_inference_mode_enabled()

    def call(item: Item) -> None:  # a thread of the pool starts with gradients on, whatever the caller's mode
        with torch.inference_mode(inference), torch.no_grad():
            work(item)

    list(_ready_pool().map(call, items))


def _ready_pool() -> ThreadPoolExecutor:
    global _pool, _threads_of_pool
    threads = torch.get_num_threads()
    with _lock:
        if _pool is None or _threads_of_pool != threads:
            if _pool is not None:
                _pool.shutdown(wait=False)
            count = min(threads, _MOST)
            started = threading.Barrier(count + 1)
            _pool = ThreadPoolExecutor(count, "mtsa", _start, (started, max(1, threads // count)))
            _threads_of_pool = threads
            for _ in range(count):
                _pool.submit(int)
            started.wait()
            torch.set_num_threads(threads)  # what a thread sets for itself is also what later threads begin with
        return _pool


def _start(started: threading.Barrier, threads: int) -> None:
    torch.set_num_threads(threads)
    _worker.inside = True
    started.wait()


def _forget_pool() -> None:
    global _pool, _threads_of_pool, _lock
    _pool, _threads_of_pool, _lock = None, 0, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)

"""Run blocking work in parallel. A disk merges fsyncs that wait at the same time."""

from __future__ import annotations

import contextlib
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# as many as may wait at once; a blocked thread costs little
THREADS = 32


def together(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Run `work` for each item in the calling thread and helper threads. Return when no thread is running it any more.

    After an error no further item is started, and the first error is raised. A single item uses no helper thread.
    Unlike `threading.Thread`, this does not wait for a thread to start: a late helper finds no item left.
    """
    if len(items) <= 1:
        for item in items:
            work(item)
        return

    todo = iter(items)
    lock = allocate_lock()
    errors: list[BaseException] = []
    at_work: list[LockType] = []
    is_over = False

    def go_on() -> None:
        try:
            while not errors:
                with lock:
                    item = next(todo, None)
                if item is None:
                    return
                work(item)
        except BaseException as error:
            errors.append(error)

    def help_out() -> None:
        me = allocate_lock()
        with lock:
            if is_over:
                return
            me.acquire()
            at_work.append(me)
        try:
            go_on()
        finally:
            me.release()

    try:
        with contextlib.suppress(RuntimeError):  # no more threads are available: the running ones do the work
            for _ in range(min(THREADS, len(items)) - 1):
                start_new_thread(help_out, ())
        go_on()
    except BaseException as error:
        errors.append(error)
    while True:
        try:
            with lock:
                is_over = True
            for helper in at_work:
                with helper:
                    pass
            break
        except BaseException as error:
            # on an interrupt, wait too: the threads use files that the caller is about to close
            errors.append(error)
    if errors:
        raise errors[0]

"""Work that waits, done at once: a disk joins the syncs that wait for it at the same time."""

from __future__ import annotations

import contextlib
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# as many as wait together; a thread that waits for a disk costs little
THREADS = 32


def together(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Do the work for each item, in the caller's thread and others, and return when none of them is at it any more.

    After an error no further item is begun, and the first error is raised. One item needs no thread. Nobody waits for a
    thread to begin, as `threading.Thread` would have it: one that comes late finds nothing left to do, and is not
    waited for at all.
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
        with contextlib.suppress(RuntimeError):  # no more threads to be had: those there are do the work
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
            # an interrupt waits too: the threads use what the caller is about to close
            errors.append(error)
    if errors:
        raise errors[0]

"""Work that waits, done at once: a disk joins the syncs that wait for it at the same time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# as many as wait together; a thread that waits for a disk costs little
THREADS = 32


def together(work: Callable[[T], None], items: Sequence[T]) -> None:
    """Do the work for each item, in the caller's thread and others, and return when none of them is at it any more.

    After an error no further item is begun, and the first error is raised. One item needs no thread.
    """
    if len(items) <= 1:
        for item in items:
            work(item)
        return

    import threading

    todo = iter(items)
    lock = threading.Lock()
    errors: list[BaseException] = []

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

    threads = [threading.Thread(target=go_on) for _ in range(min(THREADS, len(items)) - 1)]
    try:
        with contextlib.suppress(RuntimeError):  # no more threads to be had: those there are do the work
            for thread in threads:
                thread.start()
        go_on()
    except BaseException as error:
        errors.append(error)
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except BaseException as error:
                # an interrupt waits too: the threads use what the caller is about to close
                errors.append(error)
    if errors:
        raise errors[0]

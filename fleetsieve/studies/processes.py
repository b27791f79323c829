"""Worker processes of a study: they share one value, end with the study however it ends, and a lost one is reported."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Any

from fleetsieve.errors import FleetSieveError

THREADS = "OMP_NUM_THREADS"
_shared: list[Any] = []


def shared() -> Any:
    """In a worker: the value that the study gave to all of them."""
    return _shared[0]


@contextmanager
def workers(jobs: int, value: object, hint: str = "try fewer --jobs") -> Iterator[ProcessPoolExecutor]:
    """A pool of `jobs` processes that have `value` at hand (see `shared`), sent once and not with every task.

    Raises:
        FleetSieveError: when a process ended before its work was done; `hint` states what to try.
    """
    others = set(active_children())
    threads = os.environ.get(THREADS)
    os.environ.setdefault(
        THREADS, "1"
    )  # inherited: as many processes as cores, each with as many threads, slow each other down
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(value,)) as pool:
        try:
            yield pool
        except BrokenProcessPool as error:
            text = "a process of the study ended before its work was done"
            raise FleetSieveError(text, f"the system may be out of memory: {hint}") from error
        except BaseException:
            for process in set(active_children()) - others:  # a task takes up to minutes: nobody waits for its end
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            if threads is None:
                del os.environ[THREADS]


def _begin(value: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupted study ends its processes without a word of theirs
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _shared[:] = [value]


def _end_with_parent() -> None:
    """A process whose parent was killed would work on, and then wait for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

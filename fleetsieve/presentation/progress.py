"""How far long work is: a bar on a terminal, a plain line now and then without one; always on standard error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleetsieve.presentation.terminal import messages, say

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_STEPS = 10
"""Lines that a whole job prints without a terminal."""


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a callback that takes (done, total)."""
    console = messages()
    if not console.is_terminal:
        shown = -1

        def tell(done: int, total: int) -> None:
            nonlocal shown
            tenth = done * PLAIN_STEPS // total if total else PLAIN_STEPS
            if tenth > shown:
                shown = tenth
                say(console, f"{what}: {done} of {total}")

        yield tell
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


QUIET_S = 5.0
"""Work that takes no longer needs no word without a terminal."""


class Advancing:
    """Tells how far work is: a bar on a terminal, without one a plain line now and then where it takes long.

    It takes (done, total), from (0, total) to (total, total), for one work of a kind after the other.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: Progress | None = None
        self._spoken = 0.0

    def __call__(self, done: int, total: int) -> None:
        """How much is done."""
        console = messages()
        if not console.is_terminal:
            now = time.monotonic()
            if done == 0:
                self._spoken = now
            elif done < total and now - self._spoken >= QUIET_S:
                self._spoken = now
                say(console, f"{self._what}: {done} of {total}")
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        if self._bar is None:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.add_task(self._what, total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)
        if done == total:
            self._bar.stop()
            self._bar = None


@contextmanager
def working(what: str) -> Iterator[None]:
    """Shows that work of unknown length continues: a spinner on a terminal, one plain line when it takes long without one."""
    console = messages()
    if console.is_terminal:
        with console.status(what):
            yield
        return
    notice = threading.Timer(QUIET_S, say, (console, f"{what} ..."))
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()

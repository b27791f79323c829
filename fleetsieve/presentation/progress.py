"""How far long work is: a bar on a terminal, a plain line now and then without one; always on standard error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fleetsieve.presentation.terminal import messages, say

PLAIN_STEPS = 10
"""Lines that a whole job prints without a terminal."""


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a callback that takes (done, total)."""
    console = messages()
    if not console.is_terminal:
        told = -1

        def tell(done: int, total: int) -> None:
            nonlocal told
            tenth = done * PLAIN_STEPS // total if total else PLAIN_STEPS
            if tenth > told:
                told = tenth
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


@contextmanager
def working(what: str) -> Iterator[None]:
    """Says that work goes on whose length is not known: a spinner on a terminal, one plain line when it takes long without one."""
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

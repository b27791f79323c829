"""The two streams: results go to standard output, everything else to standard error; text from files is never markup."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from fleetsieve.errors import Fault, spelled_out

PLAIN_WIDTH = 160
"""Columns of output that goes to a file or a pipe, where there is no terminal to fit."""


def results() -> Console:
    """The console of results."""
    return _console(stderr=False)


def messages() -> Console:
    """The console of progress, warnings and errors."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False, width=width)


def literal(text: str, style: str = "") -> Text:
    """`text` as it is; control characters, which a terminal would obey, are spelled out."""
    return Text(spelled_out(text), style=style)


def say(console: Console, text: str, style: str = "") -> None:
    """One paragraph, as it is; only a terminal gets it wrapped."""
    console.print(literal(text, style), soft_wrap=not console.is_terminal)


def tell_suspicions(suspicions: Iterable[Fault]) -> None:
    """Values that can be, but look as if they were in another unit: told on standard error, never fatal."""
    for suspicion in suspicions:
        say(messages(), f"suspicion: {suspicion}", "yellow")

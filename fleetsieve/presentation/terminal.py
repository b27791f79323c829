"""The two streams: results go to standard output, everything else to standard error; text from files is never markup."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetsieve.errors import Fault, spelled_out
from fleetsieve.presentation.fitting import fit, row_blocks, wrapped

PLAIN_WIDTH = 160
"""Columns of output that goes to a file or a pipe, where there is no terminal to fit and COLUMNS is not set."""

WIDE = 120
"""From this many columns on, everything of a class is on one line."""


class _Stream(Console):
    """A console that leaves it to the command line what a reader that went away means; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Give on the BrokenPipeError that rich has just caught."""
        raise

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich; what a full disk refuses is an error that names the stream."""
        with self._named():
            super().print(*objects, **options)

    def end_capture(self) -> str:
        """As rich, and as `print`: rich writes here too."""
        with self._named():
            return super().end_capture()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = error.filename or ("standard error" if self.stderr else "standard output")
            raise


def results() -> Console:
    """The console of results."""
    return _console(stderr=False)


def messages() -> Console:
    """The console of progress, warnings and errors."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    stated = os.environ.get("COLUMNS", "")
    width = None if stream.isatty() or stated.isdigit() else PLAIN_WIDTH
    if stated.isdigit() and not int(stated):  # a terminal that does not know its width states 0
        width = shutil.get_terminal_size((PLAIN_WIDTH, 0)).columns if stream.isatty() else PLAIN_WIDTH
    return _Stream(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=False, width=width)


def is_wide(console: Console) -> bool:
    """Whether a line has room for everything of a class."""
    return console.width >= WIDE


def literal(text: str, style: str = "") -> Text:
    """`text` on one line as it is; control characters, which a terminal would obey, and line breaks are spelled out."""
    return Text(spelled_out(text).replace("\n", "\\n").replace("\t", "\\t"), style=style)


def say(console: Console, text: str, style: str = "") -> None:
    """One paragraph, as it is; only a terminal gets it wrapped."""
    say_text(console, literal(text, style))


def say_text(console: Console, text: Text) -> None:
    """As `say`, of a text with styles of its own."""
    for line in wrapped(text, console.width) if console.is_terminal else [text]:
        console.print(line, soft_wrap=True)  # rich would break a word that is longer than a line


def show_table(console: Console, table: Table) -> None:
    """A table as the console has room for it; where there is no terminal, without the blanks that fill its lines."""
    if not fit(console, table):
        for line in row_blocks(console, table):
            say_text(console, line)
        return
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    console.out("\n".join(line for line in lines if line), highlight=False)


def tell_suspicions(suspicions: Iterable[Fault]) -> None:
    """Values that can be, but look as if they were in another unit: reported on standard error, never fatal."""
    for suspicion in suspicions:
        say(messages(), f"warning: {suspicion}", "yellow")

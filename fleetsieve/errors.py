"""What can go wrong, stated to a person.

Every error that a user can cause or fix is a `FleetSieveError`: a message that names the wrong value and, where
there is one, a hint that states what would be right. The command line turns each kind into its exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def spelled_out(text: str) -> str:
    """`text` with its control characters spelled out: names come from files, and a terminal would obey them.

    >>> spelled_out("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


class FleetSieveError(Exception):
    """A failure that is reported to the person, without a traceback.

    `message` states what is wrong with which value, `hint` (optional) what would be right.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class UsageError(FleetSieveError):
    """A request that cannot be meant: a flag, an order of calls, a value out of range."""

    exit_code = 2


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One error of one file: where it is, what is there and what would be right.

    `line` is 1-based and counts the header as line 1; 0 means the file as a whole. `column` is the column's name, or ""
    where the error concerns the whole line. `severity` is "error" (the file cannot be used) or "warning" (it can, but
    a value looks as if it were in another unit). `count` is how many errors this one stands for: more than 1 only where a
    file has too many of one kind to print.
    """

    file: str
    line: int
    column: str
    message: str
    severity: str = "error"
    count: int = 1

    def __str__(self) -> str:
        place = self.file
        if self.line:
            place += f":{self.line}"
        if self.column:
            place += f" [{self.column}]"
        return f"{place}: {self.message}"


class InputError(FleetSieveError):
    """Files that cannot be used, with every error found in them."""

    exit_code = 2

    def __init__(self, faults: Sequence[Fault], hint: str | None = None) -> None:
        self.faults = tuple(faults)
        count = sum(fault.count for fault in self.faults)
        super().__init__(
            "\n".join([f"{count:,} error{'s' if count != 1 else ''}:", *(f"  {fault}" for fault in faults)]), hint
        )


class SolverMissing(FleetSieveError):
    """The solver or an engine is absent, too old, or fails its self-test."""

    exit_code = 3


class EngineMissing(FleetSieveError):
    """A program that a live run needs is not there: the server's command or the load generator."""

    exit_code = 3


class SolveFailed(FleetSieveError):
    """The solver ended without an answer that can be used, or its answer failed the exact re-check."""

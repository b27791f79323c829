"""What results print of themselves: a title and a few lines, however large the fleet."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import fields
from enum import Enum
from typing import Any

from fleetsieve.errors import spelled_out

MAX_CHARACTERS = 800
MAX_LINES = 6
_LINE, _VALUE = 108, 60


def summary(title: str, lines: Iterable[str] = ()) -> str:
    """A title and the first lines below it, each cut to one line of a screen.

    >>> print(summary("Plan of five", [f"class {n}" for n in range(8)]))
    Plan of five
      class 0
      class 1
      class 2
      class 3
      class 4
      class 5
      and 2 more
    """
    rows = list(lines)
    rest = [f"and {len(rows) - MAX_LINES} more"] if len(rows) > MAX_LINES else []
    return "\n  ".join(_cut(line, _LINE) for line in (title, *rows[:MAX_LINES], *rest))


def brief(value: Any) -> str:
    """A dataclass by its fields that are not left at their default: collections by their size, other values by their first line."""
    values = ((f, getattr(value, f.name)) for f in fields(value) if f.repr)
    shown = ", ".join(f"{f.name}={_short(one)}" for f, one in values if one is not None and one is not f.default)
    return _cut(f"{type(value).__name__}({shown})", MAX_CHARACTERS)


def counted(count: int, what: str) -> str:
    """A count with its noun: "1 cell", "2 cells", "3 classes"."""
    return f"{count:,} {what}{'' if count == 1 else 'es' if what.endswith('s') else 's'}"


def _short(value: Any) -> str:
    if isinstance(value, str | Enum):
        return _cut(str(value) if isinstance(value, Enum) else repr(value), _VALUE)
    if isinstance(value, Sized) and not hasattr(
        value, "_fields"
    ):  # a named tuple is a value, and has a text of its own
        return counted(len(value), "value")
    return _cut(str(value).partition("\n")[0], _VALUE)


def _cut(text: str, limit: int) -> str:
    flat = spelled_out(text.replace("\n", " ").replace("\t", " "))
    return flat if len(flat) <= limit else f"{flat[: limit - 3]}..."

"""A table in the columns that a screen has: no word and no number is broken; where that cannot be, rows are `name: value` lines."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

LONGEST_WORD = 40
"""Columns. A longer word, such as the name of a class, may be broken where the rest of the table fits."""

INDENT = 2
AMPLE = 100_000
"""More columns than any table needs."""


def fit(console: Console, table: Table) -> bool:
    """Set the widths of the columns so that the table fits the console; False where a word would have to be broken for that."""
    texts = [_texts(column) for column in table.columns]
    widths = [max(map(cell_len, _lines(column_texts)), default=0) for column_texts in texts]
    least = [
        width if column.no_wrap else min(LONGEST_WORD, max(map(cell_len, " ".join(column_texts).split()), default=0))
        for column, column_texts, width in zip(table.columns, texts, widths, strict=True)
    ]
    _set(table, widths)
    frame = console.measure(table, options=console.options.update(max_width=AMPLE)).maximum - sum(widths)
    room = console.width - frame
    if sum(least) > room:
        return False
    while (excess := sum(widths) - room) > 0:
        # The widest that can give way gives way to the next widest, so that columns of long sentences wrap first.
        loose = [place for place, width in enumerate(widths) if width > least[place]]
        widest = max(loose, key=lambda place: widths[place])
        below = max((widths[place] for place in loose if widths[place] < widths[widest]), default=0)
        widths[widest] -= min(excess, max(1, widths[widest] - max(below, least[widest])))
    _set(table, widths)
    return True


def row_blocks(console: Console, table: Table) -> list[Text]:
    """The table as lines: its title, then each row as `name: value`, the first not indented; empty values are left out."""
    names = [" ".join(_texts(column)[:1]) for column in table.columns]
    lines = wrapped(Text(_plain(table.title)), console.width) if table.title else []
    columns = [_texts(column)[1:] for column in table.columns]
    for row, values in zip(table.rows, zip(*columns, strict=True), strict=True):
        for place, (name, value) in enumerate(zip(names, values, strict=True)):
            if value:
                head = f"{name}{'' if name.endswith('?') else ':'} " if name else ""
                indent = 0 if place == 0 else INDENT
                text = Text(" " * indent + head + ", ".join(value.splitlines()), style=row.style or "")
                lines += wrapped(text, console.width, indent + INDENT)
    return lines


def wrapped(text: Text, width: int, indent: int = 0) -> list[Text]:
    """A text in lines of up to `width` columns, broken between words alone; a word that is longer has a line of its own.

    All lines but the first begin with `indent` blanks.
    """
    breaks, used = [], 0
    for word in re.finditer(r"\s*\S+", text.plain):
        length = cell_len(word.group())
        if used and used + length > width:
            breaks.append(word.start() + len(word.group()) - len(word.group().lstrip()))
            used = indent + cell_len(word.group().lstrip())
        else:
            used += length
    lines = list(text.divide(breaks))
    for line in lines:
        line.rstrip()
    return [lines[0], *(Text(" " * indent) + line for line in lines[1:])]


def _set(table: Table, widths: list[int]) -> None:
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width


def _texts(column: Column) -> list[str]:
    """The header of a column and its cells."""
    return [_plain(column.header), *map(_plain, column.cells)]


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _lines(texts: list[str]) -> list[str]:
    return [line for text in texts for line in text.splitlines()]

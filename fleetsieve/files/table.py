"""Rows of text -> columns of checked values, with an error for every invalid field, by line and column.

A numeric column becomes an array of doubles in which NaN stands for "absent". A wrong field becomes absent too, so that one
error is reported once and nothing is concluded from it.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from fleetsieve.files.csv_rows import open_rows
from fleetsieve.files.durations import duration
from fleetsieve.files.faults import FaultList, close_match
from fleetsieve.files.schema import FLAG_WORDS, LARGEST_INTEGER, Column, ColumnKind, number_text
from fleetsieve.files.spelling import respelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = frozenset({"nan", "inf", "infinity"})
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_WITH_UNIT = re.compile(r"([+-]?\d+\.?\d*)\s*(ms|s|sec|%|rps|req/s|gpus?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Table:
    """Checked columns of one file, all of one length.

    `lines` is the line on which each row starts; `text` holds TEXT, CHOICE and FLAG columns ("" is absent), `numbers` the
    others (NaN is absent). Every known column is there, also those that the file does not have; `given` names those it has.
    """

    lines: NDArray[np.int64]
    text: Mapping[str, list[str]]
    numbers: Mapping[str, NDArray[np.float64]]
    given: frozenset[str]

    def __len__(self) -> int:
        return len(self.lines)

    def respelled(self, column: str, known: Iterable[str]) -> Table:
        """The table with the names of a text column written as they are in `known`, where only the normalisation differs."""
        return replace(self, text={**self.text, column: respelled(self.text[column], known)})


def read_table(path: Path, known: Sequence[Column], faults: FaultList) -> Table | None:
    """The table of a CSV file, with its errors added to `faults`; None when it has no readable header."""
    import numpy as np

    rows = open_rows(path, known, faults)
    if rows is None:
        return None
    columns = [column for column in known if column.name in rows.names.values()]
    lines = array("q")
    text: dict[str, list[str]] = {column.name: [] for column in columns if not column.numeric}
    numbers: dict[str, array[float]] = {column.name: array("d") for column in columns if column.numeric}
    shared: dict[str, str] = {}  # one object for equal texts: a million rows repeat few names
    for chunk_lines, fields in rows.chunks():
        lines.extend(chunk_lines)
        for column in columns:
            raw = fields[column.name]
            if column.numeric:
                numbers[column.name].extend(_numbers(raw, column, chunk_lines, faults))
            else:
                text[column.name].extend(map(shared.setdefault, raw, raw))
    table_lines = np.frombuffer(lines, dtype=np.int64) if lines else np.zeros(0, dtype=np.int64)
    count = len(lines)
    values = {name: np.frombuffer(column) if count else np.zeros(0) for name, column in numbers.items()}
    for column in columns:
        if column.numeric:
            values[column.name] = _in_range(values[column.name], column, table_lines, faults)
        else:
            text[column.name] = _in_choices(text[column.name], column, table_lines, faults)
    absent = [column for column in known if column not in columns]
    return Table(
        table_lines,
        text | {column.name: [""] * count for column in absent if not column.numeric},
        values | {column.name: np.full(count, math.nan) for column in absent if column.numeric},
        frozenset(column.name for column in columns),
    )


def _numbers(raw: Sequence[str], column: Column, lines: Sequence[int], faults: FaultList) -> array[float]:
    """The numbers of a chunk. The quick way is float() on every field; it is left as soon as a field needs a closer look."""
    joined = "".join(raw)
    if not joined and not column.required:
        return array("d", [math.nan]) * len(raw)
    # float() also takes "1_000", digits of other scripts, "nan" and "inf": these go the careful way.
    if joined.isascii() and "_" not in joined and "n" not in joined and "N" not in joined:
        try:
            if "" not in raw:
                return array("d", map(float, raw))
            if not column.required:
                return array("d", [float(text) if text else math.nan for text in raw])
        except ValueError:
            pass
    return _careful_numbers(raw, column, lines, faults)


def _careful_numbers(raw: Sequence[str], column: Column, lines: Sequence[int], faults: FaultList) -> array[float]:
    texts = [text.strip() for text in raw]
    matches = list(map(_NUMBER.fullmatch, texts))
    values = array("d", [float(text) if match else math.nan for text, match in zip(texts, matches, strict=True)])
    faulty: dict[str, list[int]] = {"empty field": [], "not a finite number": [], "not a number": []}
    for i in [i for i, match in enumerate(matches) if match is None]:
        text = texts[i]
        if column.duration and (time := duration(text, column.duration)) is not None:
            values[i] = time
        elif not text:
            if column.required:
                faulty["empty field"].append(i)
        elif text[-1] not in "nNfFyY" or text.lower().lstrip("+-") not in _NOT_FINITE:  # the first test saves time
            faulty["not a number"].append(i)
        elif column.infinite and text[-1] not in "nN" and text[0] != "-":
            values[i] = math.inf
        else:
            faulty["not a finite number"].append(i)
    for kind, places in faulty.items():
        messages = (_number_fault(column, kind, raw[place]) for place in places)
        faults.add_all(column.name, kind, [lines[place] for place in places], messages)
    return values


def _number_fault(column: Column, kind: str, text: str) -> str:
    empty = "" if column.required else ", or leave it empty"
    if kind == "empty field":
        return f"{column.name} is empty; {column.remedy}"
    if kind == "not a finite number":
        return f"{text!r} is not a finite number; {column.remedy}{empty}"
    if comma := _comma_fault(column, text):
        return comma
    if unit := _WITH_UNIT.fullmatch(text.strip()):
        return f"{text!r} is not a number: leave out the unit {unit[2]!r}; {_converted(column, unit) or column.remedy}"
    return f"{text!r} is not a number; {column.remedy}{empty}"


def _converted(column: Column, stated: re.Match[str]) -> str:
    """What a number with a unit is in the unit of the column; "" where the two have nothing to do with each other."""
    number, unit = stated[1], stated[2].lower()
    if unit == "%" and column.range.most == 1.0:
        return f"{number} % is {number_text(float(Decimal(number).scaleb(-2)))}"
    if unit == "ms" and column.unit == "seconds":
        return f"{number} ms is {number_text(float(Decimal(number).scaleb(-3)))} s"
    return ""


def _comma_fault(column: Column, text: str) -> str:
    """The message about a number with a comma, which may stand for a decimal point or between thousands; "" for other texts."""
    number, whole = text.strip(), column.kind is ColumnKind.INTEGER
    as_thousands = number.replace(",", "") if _THOUSANDS.fullmatch(number) else ""
    as_decimal = number.replace(",", ".") if _DECIMAL_COMMA.fullmatch(number) and not whole else ""
    if as_thousands and as_decimal:
        fraction = number_text(float(as_decimal))
        return (
            f"{text!r} has a comma; write {as_thousands} if it stands between thousands, {fraction} if before decimals"
        )
    if as_thousands:
        return f"{text!r} has a comma between thousands; write {as_thousands}"
    return f"{text!r} has a decimal comma; write {as_decimal}" if as_decimal else ""


def _in_range(
    values: NDArray[np.float64], column: Column, lines: NDArray[np.int64], faults: FaultList
) -> NDArray[np.float64]:
    """The values with those outside the column's range (or not whole) reported and made absent."""
    import numpy as np

    whole = column.kind is ColumnKind.INTEGER
    with np.errstate(invalid="ignore"):
        bad = (values <= column.range.least) if column.range.above else (values < column.range.least)
        bad |= values > column.range.most
        if not column.infinite:
            bad |= np.isinf(values)
        if whole:
            bad |= (values != np.floor(values)) | (values > LARGEST_INTEGER)
            bad &= ~np.isnan(values)
    if not bad.any():
        return values
    outside = bad & ~((values >= column.range.least) & (values <= column.range.most) & ~np.isinf(values))
    percent = outside & (column.range.most == 1.0) & (values > 1.0) & (values <= 100.0)
    kinds = {
        "negative": outside & (values < 0.0),
        "percent": percent,
        "not a whole number": bad & ~outside & (values < LARGEST_INTEGER),
    }
    kinds["out of range"] = bad & ~(kinds["negative"] | percent | kinds["not a whole number"])
    for kind, rows in kinds.items():
        messages = (_range_fault(column, value) for value in values[rows].tolist())
        faults.add_all(column.name, kind, lines[rows].tolist(), messages)
    return np.where(bad, math.nan, values)


def _range_fault(column: Column, value: float) -> str:
    if math.isinf(value):
        return f"the number is too large for a double; {column.remedy}"
    if not column.range.holds(value):
        return column.range.fault(column.name, value)
    if value > LARGEST_INTEGER:
        return f"{value:g} is too large; {column.remedy} and <= {LARGEST_INTEGER}"
    return f"{value!r} is not a whole number; {column.remedy}"


def _in_choices(texts: list[str], column: Column, lines: NDArray[np.int64], faults: FaultList) -> list[str]:
    """The texts with those that the column does not admit reported and made absent."""
    if column.kind is ColumnKind.FLAG:
        texts = [text.strip().lower() for text in texts]
    allowed = set(FLAG_WORDS) if column.kind is ColumnKind.FLAG else set(column.choices)
    found = set(texts)
    if column.required and "" in found:
        empty = [int(lines[i]) for i, text in enumerate(texts) if not text]
        faults.add_all(column.name, "empty field", empty, repeat(f"{column.name} is empty; {column.remedy}"))
    unknown = found - allowed - {""} if column.kind is not ColumnKind.TEXT else set()
    if not unknown:
        return texts
    places = [i for i, text in enumerate(texts) if text in unknown]
    messages = (
        f"{texts[i]!r} is not a {column.name}" + (close_match(texts[i], allowed - {""}) or ";") + " " + column.remedy
        for i in places
    )
    faults.add_all(column.name, f"no {column.name}", [int(lines[i]) for i in places], messages)
    return ["" if text in unknown else text for text in texts]


def optional(values: NDArray[np.float64]) -> list[float | None]:
    """A numeric column as Python numbers, with None where it is absent."""
    numbers: list[float | None] = values.tolist()
    if math.isnan(values.sum()):  # some are absent (or bounds of both infinities meet, which costs only time)
        return [None if number != number else number for number in numbers]
    return numbers

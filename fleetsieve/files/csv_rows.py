"""A CSV file as rows of text with their line numbers, and what can be wrong before any field is understood."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from fleetsieve.files.faults import FaultList, close_match, listed_values
from fleetsieve.files.schema import Column

if TYPE_CHECKING:
    from _csv import Reader

CHUNK = 1_000
"""Rows read at a time: few enough that their text stays in the processor's cache (ten times more takes twice as long)."""

_DECIMAL_COMMA = re.compile(r"(?:^|[;\t])(-?\d+,\d+)(?=$|[;\t\r])", re.MULTILINE)
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


def utf8_bytes(path: Path, faults: FaultList) -> bytes | None:
    """The bytes of a text file in UTF-8 (with or without a byte-order mark), or None with the error; a .gz is unpacked."""
    try:
        # A pipe or device would be waited for: it is refused before it is opened.
        if not stat.S_ISREG(path.stat().st_mode):
            message = f"this is {_what_is(path)}, not a regular file; put the file itself here"
            faults.add(0, "", "not a regular file", message)
            return None
        data = path.read_bytes()
    except FileNotFoundError:
        message = f"the file is missing; every instance folder needs {path.name}"
        if path.is_symlink():
            message = f"this is a link to {os.readlink(path)!r}, which is not there; put the file itself here"
        faults.add(0, "", "missing file", message)
        return None
    except OSError as error:
        faults.add(0, "", "unreadable file", f"the file cannot be read: {error.strerror or error}")
        return None
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            faults.add(0, "", "gzip", f"the file is not a complete gzip file ({error}); pack it with gzip again")
            return None
    remedy = "save it as UTF-8"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        faults.add(1, "", "encoding", f"the file is UTF-16; {remedy}")
        return None
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(_LINE_BREAK.findall(data[: error.start].decode("latin-1"))) + 1
        byte = data[error.start]
        faults.add(line, "", "encoding", f"byte 0x{byte:02x} at offset {error.start:,} is not UTF-8; {remedy}")
        return None
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        faults.add(line, "", "encoding", f"a NUL byte at offset {data.index(0):,}: this is not UTF-8 text; {remedy}")
        return None
    return data


def _what_is(path: Path) -> str:
    """What is at `path` in place of a regular file."""
    if path.is_dir():
        return "a folder"
    return "a pipe" if path.is_fifo() else "a device or a socket"


@dataclass(slots=True)
class CsvRows:
    """The rows below a checked header.

    `names` holds the known name of each column that is used, by its place; unknown and repeated ones are left out.
    `missing` are the columns that the file must have and has not.
    """

    faults: FaultList
    width: int
    names: dict[int, str]
    missing: frozenset[str]
    _reader: Reader = field(repr=False)
    _next_line: int = 2

    def chunks(self) -> Iterator[tuple[Sequence[int], dict[str, tuple[str, ...]]]]:
        """The lines on which the rows of a chunk start, and the chunk's fields by column.

        Blank rows are ignored; a row with more or fewer fields than the header is an error and is left out.
        """
        ended = False
        while not ended:
            rows: list[list[str]] = []
            broken = None
            before = self._reader.line_num
            try:
                rows.extend(islice(self._reader, CHUNK))
            except csv.Error as error:
                broken = error
            ended = broken is not None or len(rows) < CHUNK
            lines = self._lines_of(rows, self._reader.line_num - before)
            if broken is not None:
                self.faults.add(
                    self._next_line,
                    "",
                    "quotes",
                    f'the row that starts here cannot be read ({broken}); is a quote (") open?',
                )
            if set(map(len, rows)) != {self.width} or not all(map(any, rows)):
                lines, rows = self._regular(lines, rows)
            if rows:
                columns = list(zip(*rows, strict=True))
                yield lines, {name: columns[place] for place, name in self.names.items()}

    def _lines_of(self, rows: list[list[str]], consumed: int) -> Sequence[int]:
        """The line on which each row starts: a quoted field may hold line breaks, so a row can span several lines."""
        if consumed == len(rows):
            self._next_line += consumed
            return range(self._next_line - consumed, self._next_line)
        lines = []
        for row in rows:
            lines.append(self._next_line)
            self._next_line += 1 + sum(len(_LINE_BREAK.findall(text)) for text in row)
        return lines

    def _regular(self, lines: Sequence[int], rows: list[list[str]]) -> tuple[list[int], list[list[str]]]:
        ragged = [(line, row) for line, row in zip(lines, rows, strict=True) if row and len(row) != self.width]

        messages = (_ragged(len(row), self.width) for _, row in ragged)
        self.faults.add_all("", "ragged row", [line for line, _ in ragged], messages)
        kept = [(line, row) for line, row in zip(lines, rows, strict=True) if len(row) == self.width and any(row)]
        return [line for line, _ in kept], [row for _, row in kept]


def _ragged(fields: int, width: int) -> str:
    cause = "quote a field that holds a comma, and write decimals with '.'"
    if fields < width:
        cause = "write the empty fields at the end of the row too"
    return f"the row has {fields} fields, the header has {width}; {cause}"


def open_rows(path: Path, known: Sequence[Column], faults: FaultList) -> CsvRows | None:
    """The rows of a CSV file with the `known` columns; None, with the error, when the file is no such table at all."""
    data = utf8_bytes(path, faults)
    if data is None:
        return None
    lines = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")
    first, line = "", 0
    for line, first in enumerate(lines, start=1):  # noqa: B007 - the header's line is wanted below
        if first.strip():
            break
    if not first.strip():
        faults.add(0, "", "empty file", f"the file is empty; its first line must name the columns: {_names(known)}")
        return None
    if _other_delimiter(first, data, known, faults):
        return None
    # skipinitialspace: people write "class, tp, load". strict: an open quote is an error instead of a swallowed file.
    reader = csv.reader(chain([first], lines), strict=True, skipinitialspace=True)
    try:
        header = next(reader)
    except csv.Error as error:
        faults.add(line, "", "quotes", f"the header cannot be read ({error})")
        return None
    span = 1 + sum(len(_LINE_BREAK.findall(name)) for name in header)
    names, missing = _check_header(header, line, known, faults)
    return CsvRows(faults, len(header), names, missing, reader, line + span)


def _other_delimiter(first: str, data: bytes, known: Sequence[Column], faults: FaultList) -> bool:
    """Whether the fields are separated by something else than a comma, reported as one error."""
    names = {column.name for column in known}
    commas = len(names & {part.strip().strip('"') for part in first.split(",")})
    for delimiter, word in ((";", "';'"), ("\t", "a tab"), ("|", "'|'")):
        found = len(names & {part.strip().strip('"') for part in first.split(delimiter)})
        if found > max(1, commas) or first.startswith(f"sep={delimiter}"):
            number = _DECIMAL_COMMA.search(data[:100_000].decode("utf-8-sig", errors="ignore"))
            comma = f" and a decimal comma (as in '{number[1]}')" if number else ""
            point = " and '.' in numbers" if delimiter == ";" else ""
            message = f"the file uses {word} between fields{comma}; save as CSV with ',' between fields{point}"
            faults.add(1, "", "delimiter", message)
            return True
    return False


def _names(known: Sequence[Column]) -> str:
    return listed_values((column.name for column in known), limit=len(known))


def _check_header(
    header: Sequence[str], line: int, known: Sequence[Column], faults: FaultList
) -> tuple[dict[int, str], frozenset[str]]:
    by_name = {column.name: column for column in known}
    places: dict[str, int] = {}
    listed_once = f"; the columns are {_names(known)}"
    for place, raw in enumerate(header):
        name = raw.strip()
        if name in places:
            message = f"column {name!r} appears twice, as field {places[name] + 1} and as field {place + 1}; keep one"
            faults.add(line, name, "duplicate column", message)
        elif name in by_name:
            places[name] = place
        elif not name:
            faults.add(
                line, "", "unnamed column", f"field {place + 1} of the header is empty; name it or remove the column"
            )
        else:
            meant = _meant(name, by_name)
            faults.add(line, name, "unknown column", f"unknown column {name!r}{meant or listed_once}")
            listed_once = listed_once if meant else ""
    missing = [column for column in known if (column.required or column.header) and column.name not in places]
    for column in missing:
        faults.add(line, column.name, "missing column", f"the column {column.name!r} is missing; {column.remedy}")
    return {place: name for name, place in places.items()}, frozenset(column.name for column in missing)


NEAR = 0.75
"""From this similarity on an unknown column is taken for a misspelt one: `demand` for `demand_rps`, not `workload` for `load`."""

_MILLISECONDS = re.compile(r"_(ms|msec|milliseconds)\b")


def _meant(name: str, by_name: dict[str, Column]) -> str:
    """Which column an unknown one may be meant for: another unit, another order of the same words, or a slip of the pen."""
    in_seconds = _MILLISECONDS.sub("_s", name)
    words = sorted(in_seconds.casefold().split("_"))
    same = [known for known in by_name if sorted(known.split("_")) == words]
    if same and in_seconds != name:
        return f"; did you mean {same[0]!r}? It is in seconds: divide by 1000"
    return f"; did you mean {same[0]!r}?" if same else close_match(name, by_name, NEAR)

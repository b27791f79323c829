"""Recorded traffic: when requests arrived, and how many tokens each had.

Formats, distinguished by the first line; a name that ends in .gz is unpacked:

    plain       arrival_s,input_tokens,output_tokens
    azure       TIMESTAMP,ContextTokens,GeneratedTokens (Azure LLM inference traces, 2023 and 2024)
    burstgpt    Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type (BurstGPT; seconds)
    mooncake    one JSON object a line: timestamp (milliseconds), input_length, output_length

Prompts are not in a trace; `hash_ids` of Mooncake traces, which state what prompts share, are not used.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fleetsieve.errors import InputError, UsageError
from fleetsieve.files.csv_rows import utf8_bytes
from fleetsieve.files.faults import FaultList
from fleetsieve.files.schema import NON_NEGATIVE, Column, ColumnKind, number_text
from fleetsieve.files.table import read_table
from fleetsieve.records import Floats

Ints = NDArray[np.int64]


def _tokens(name: str) -> Column:
    return Column(name, ColumnKind.INTEGER, required=True, range=NON_NEGATIVE, unit="tokens")


def _seconds(name: str) -> Column:
    return Column(name, ColumnKind.NUMBER, required=True, range=NON_NEGATIVE, unit="seconds")


CSV_FORMATS: Mapping[str, tuple[Column, ...]] = MappingProxyType(
    {
        "plain": (_seconds("arrival_s"), _tokens("input_tokens"), _tokens("output_tokens")),
        "azure": (
            Column("TIMESTAMP", ColumnKind.TEXT, required=True, unit="moment, such as 2023-11-16 18:17:03.97"),
            _tokens("ContextTokens"),
            _tokens("GeneratedTokens"),
        ),
        "burstgpt": (
            _seconds("Timestamp"),
            _tokens("Request tokens"),
            _tokens("Response tokens"),
            *map(Column, ("Model", "Total tokens", "Log Type", "Session ID", "Elapsed time")),
        ),
    }
)
"""The columns of each CSV format: arrival, input tokens and output tokens first, then those that are ignored."""

MOONCAKE = "mooncake"
FORMATS = (*CSV_FORMATS, MOONCAKE)


@dataclass(frozen=True, eq=False)
class Trace:
    """Arrivals in seconds from 0, in order, and the tokens of each request.

    `left_out` requests of the file are not here: they had no token in or out (failures of the recorded service), or too many
    for the server.

    Raises:
        UsageError: with fewer than two requests, all at one moment, out of order, or without tokens.
    """

    name: str
    arrival_s: Floats
    input_tokens: Ints
    output_tokens: Ints
    left_out: int = 0

    def __post_init__(self) -> None:
        count = len(self.arrival_s)
        if not count == len(self.input_tokens) == len(self.output_tokens):
            raise UsageError(f"trace {self.name}: the columns differ in length")
        if count < 2 or not self.arrival_s[-1] > 0.0:
            text = f"{count:,} request{'s' if count != 1 else ''}" + (" at one moment" if count > 1 else "")
            out = f" ({self.left_out:,} left out)" if self.left_out else ""
            raise UsageError(f"trace {self.name} has {text}{out}", "a rate needs two arrivals at different moments")
        if self.arrival_s[0] != 0.0 or np.any(np.diff(self.arrival_s) < 0.0):
            raise UsageError(f"trace {self.name}: the arrivals do not start at 0 or are not in order")
        if min(self.input_tokens.min(), self.output_tokens.min()) < 1:
            raise UsageError(f"trace {self.name} has a request without a token in or out")

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def rate_rps(self) -> float:
        """Mean arrivals per second as recorded."""
        return float((len(self) - 1) / self.arrival_s[-1])

    @property
    def mean_output_tokens(self) -> float:
        """The mean of the tokens out."""
        return float(self.output_tokens.mean())

    def fitting(self, max_total_tokens: int) -> Trace:
        """Without the requests whose input and output together exceed what a server admits (its maximum model length)."""
        return self._kept(self.input_tokens + self.output_tokens <= max_total_tokens)

    def shrunk(self, token_scale: float) -> Trace:
        """With all token counts multiplied by `token_scale` > 0 and rounded, at least 1: a small model's share of large traffic."""
        if not 0.0 < token_scale < np.inf:
            raise UsageError(f"a token scale of {token_scale:g}", "it is a factor above 0, such as 0.1")
        scaled = (
            np.maximum(1, np.rint(t * token_scale)).astype(np.int64) for t in (self.input_tokens, self.output_tokens)
        )
        return replace(self, input_tokens=next(scaled), output_tokens=next(scaled))

    def _kept(self, chosen: NDArray[np.bool_]) -> Trace:
        return _trace(
            self.name, self.arrival_s[chosen], self.input_tokens[chosen], self.output_tokens[chosen],
            self.left_out + int(np.count_nonzero(~chosen)),
        )  # fmt: skip


def _trace(name: str, arrival_s: Floats, inputs: Ints, outputs: Ints, left_out: int = 0) -> Trace:
    """A trace from arrivals in any order and from any moment on."""
    sendable = (inputs >= 1) & (outputs >= 1)
    left_out += int(np.count_nonzero(~sendable))
    arrival_s, inputs, outputs = arrival_s[sendable], inputs[sendable], outputs[sendable]
    order = np.argsort(arrival_s, kind="stable")
    start = arrival_s[order[0]] if len(order) else 0.0
    return Trace(name, arrival_s[order] - start, inputs[order], outputs[order], left_out)


def read_trace(path: str | Path, format: str | None = None) -> Trace:
    """The trace in the file `path`; `format` is one of FORMATS, None to know it from the first line.

    Rows may stand in any order; requests without a token in or out are left out and counted.

    Raises:
        InputError: with every error of the file, by line.
        UsageError: when there is no such file, no such format, or fewer than two requests that can be sent.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise UsageError(f"a trace format {format!r}", f"it is one of {', '.join(FORMATS)}")
    if not path.exists():
        raise UsageError(f"there is no trace {path}", "name a file of arrivals and token counts")
    faults = FaultList(str(path))
    chosen = format if format is not None else _detected(path, faults)
    if chosen is None:
        raise InputError(faults.errors)
    columns = _from_jsonl(path, faults) if chosen == MOONCAKE else _from_csv(path, chosen, faults)
    if columns is None or faults.errors:
        raise InputError(faults.errors)
    return _trace(path.name, *columns)


def _detected(path: Path, faults: FaultList) -> str | None:
    first = _first_line(path)
    if not first or first.startswith("{"):
        return (
            MOONCAKE if first else "plain"
        )  # what is wrong with a file that has no first line is reported when it is read
    names = {name.strip() for name in next(csv.reader([first]))}
    known = {format: {column.name for column in columns} for format, columns in CSV_FORMATS.items()}
    best = max(known, key=lambda format: len(names & known[format]))
    if names & known[best]:
        return best
    headers = "; ".join(",".join(column.name for column in columns[:3]) for columns in CSV_FORMATS.values())
    faults.add(
        1,
        "",
        "unknown format",
        f"no known trace format starts with {first[:80]!r}; write one of the headers {headers}",
    )
    return None


def _first_line(path: Path) -> str:
    """The first line that is not blank; "" where there is none or the file cannot be read."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig") as file
        ):
            return next((line.strip() for line in file if line.strip()), "")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error):
        return ""


def _from_csv(path: Path, format: str, faults: FaultList) -> tuple[Floats, Ints, Ints] | None:
    table = read_table(path, CSV_FORMATS[format], faults)
    if table is None or faults.errors:
        return None
    arrival, inputs, outputs = (column.name for column in CSV_FORMATS[format][:3])
    moments = _moments(table.text[arrival], table.lines, faults) if format == "azure" else table.numbers[arrival]
    return moments, table.numbers[inputs].astype(np.int64), table.numbers[outputs].astype(np.int64)


def _moments(texts: list[str], lines: Ints, faults: FaultList) -> Floats:
    """Seconds since the first of these moments; digits beyond the microsecond are cut."""
    moments: list[datetime] = []
    for line, text in zip(lines.tolist(), texts, strict=True):
        try:
            moments.append(datetime.fromisoformat(text.strip()))
        except ValueError:
            faults.add(line, "TIMESTAMP", "not a time", f"{text!r} is not a time; write it as 2023-11-16 18:17:03.97")
    zoned = {moment.tzinfo is not None for moment in moments}
    if len(zoned) == 2:
        faults.add(
            0, "TIMESTAMP", "time zones", "some times have a time zone and some have none; write it for all or none"
        )
    if faults.errors or not moments:
        return np.zeros(0)
    return np.array([(moment - moments[0]).total_seconds() for moment in moments])


def _from_jsonl(path: Path, faults: FaultList) -> tuple[Floats, Ints, Ints] | None:
    data = utf8_bytes(path, faults)
    if data is None:
        return None
    rows: list[tuple[float, int, int]] = []
    for line, text in enumerate(data.decode("utf-8-sig").split("\n"), start=1):
        if text.strip():
            _read_object(line, text, rows, faults)
    columns = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return columns[0] / 1e3, columns[1].astype(np.int64), columns[2].astype(np.int64)


def _read_object(line: int, text: str, rows: list[tuple[float, int, int]], faults: FaultList) -> None:
    try:
        row = json.loads(text)
    except ValueError as error:
        faults.add(line, "", "no JSON", f"the line is not JSON ({error}); write one object a line")
        return
    if not isinstance(row, dict):
        faults.add(
            line, "", "no object", f"the line is not a JSON object but {text.strip()[:40]!r}; write one object a line"
        )
        return
    values = [_number(line, name, row.get(name), whole, faults) for name, whole in _MOONCAKE_FIELDS]
    if None not in values:
        moment, inputs, outputs = (value for value in values if value is not None)
        rows.append((moment, int(inputs), int(outputs)))


_MOONCAKE_FIELDS = (("timestamp", False), ("input_length", True), ("output_length", True))


def _number(line: int, name: str, value: object, whole: bool, faults: FaultList) -> float | None:
    """The value of a field when it is a number >= 0 (and whole); else None, with the error."""
    what = "a whole number of tokens" if whole else "a number of milliseconds"
    if value is None:
        faults.add(line, name, "missing field", f"{name} is missing; write {what} >= 0")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        faults.add(line, name, "not a number", f"{json.dumps(value)} is not a number; write {what} >= 0")
    elif not 0.0 <= value < 1e15:
        faults.add(line, name, "out of range", f"{number_text(value)} is out of range; write {what} >= 0")
    elif whole and value != int(value):
        faults.add(line, name, "not a whole number", f"{value!r} is not a whole number; write {what} >= 0")
    else:
        return float(value)
    return None

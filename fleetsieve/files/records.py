"""A records/ folder: the requests of each measurement, one gzipped CSV file a measurement, written once and never rewritten."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from fleetsieve.errors import Fault, UsageError
from fleetsieve.files.faults import FaultList
from fleetsieve.files.replacing import replace_bytes
from fleetsieve.files.schema import NON_NEGATIVE, Column, ColumnKind, Range, number_text
from fleetsieve.files.table import Table, read_table
from fleetsieve.instance import DEFAULT_POOL, DEFAULT_VARIANT, CellKey, Measurement

if TYPE_CHECKING:
    from fleetsieve.records import RequestRecords

RECORDS = "records"
HIDDEN_RECORDS = "replay-records"
"""The records of a replay's hidden table, replay.csv, which must not lie among those of what was revealed."""

SUFFIX = ".csv.gz"
STATUSES = ("ok", "failed", "rejected", "timeout", "missing")
"""How a request ended. All but "ok" count against success; a "missing" one was due and not sent, or was never heard of again."""

LONGEST_STEM = 180
"""Characters of a file name before the seed: beyond them the rest is a digest (file systems take 255 bytes)."""

_MOMENT = Range(-1e9, 1e9)
_ROUNDING_S = 1e-6
COLUMNS = (
    Column("sent_at_s", ColumnKind.NUMBER, required=True, range=_MOMENT, unit="seconds since the start of the window"),
    Column("scheduled_at_s", ColumnKind.NUMBER, range=_MOMENT, unit="seconds since the start of the window"),
    Column("input_tokens", ColumnKind.INTEGER, range=NON_NEGATIVE, unit="tokens"),
    Column("output_tokens", ColumnKind.INTEGER, range=NON_NEGATIVE, unit="tokens"),
    Column("ttft_s", ColumnKind.NUMBER, range=NON_NEGATIVE, unit="seconds"),
    Column("e2e_s", ColumnKind.NUMBER, range=NON_NEGATIVE, unit="seconds", header=True),
    Column("status", ColumnKind.CHOICE, required=True, choices=STATUSES),
)


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request, as a load generator saw it; None where there is no value.

    Moments are seconds since the start of the measurement window, negative in the warm-up; `sent_at_s` of a request that was
    not sent is the moment when it was due. `ttft_s` and `e2e_s` count from `sent_at_s`; `status` is one of STATUSES.
    """

    sent_at_s: float
    scheduled_at_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    status: str = "ok"


def record_name(key: CellKey, seed: int) -> str:
    """The file name of the measurement `seed` at a cell: safe for any text in the key, and no two measurements share one.

    >>> record_name(CellKey("chat", 2, "c16"), 0), record_name(CellKey("a-b/c", 4, "r2.5", "h200"), 3)
    ('chat-tp2-c16-seed0.csv.gz', 'a%2Db%2Fc-tp4-r2.5-pool-h200-seed3.csv.gz')
    """
    return f"{_stem(key)}-seed{seed}{SUFFIX}"


def _stem(key: CellKey) -> str:
    # A hyphen inside a part is escaped: those that are left separate the parts, so different keys give different names.
    # So is a leading dot, which would hide the file.
    parts = (key.class_name, key.load, key.pool, key.variant)
    name, load, pool, variant = (quote(part, safe="").replace("-", "%2D") for part in parts)
    stem = f"{name}-tp{key.tp}-{load}" + (f"-pool-{pool}" if key.pool != DEFAULT_POOL else "")
    stem += f"-variant-{variant}" if key.variant != DEFAULT_VARIANT else ""
    stem = f"%2E{stem[1:]}" if stem[0] == "." else stem
    if len(stem) <= LONGEST_STEM:
        return stem
    return f"{stem[: LONGEST_STEM - 65]}-{hashlib.sha256(stem.encode()).hexdigest()}"


def records_folder(measured: Path) -> Path:
    """The folder of the records of a table: records/ beside it, or replay-records/ for the hidden table of a replay."""
    return measured.parent / (HIDDEN_RECORDS if measured.name == "replay.csv" else RECORDS)


def write_records(folder: str | Path, key: CellKey, seed: int, requests: Iterable[RequestRow]) -> Path:
    """Write the requests of one measurement to its file in `folder`/records and give the file's path; equal requests give equal
    bytes.

    A file that is there with these very bytes is left as it is: a measurement that was interrupted may be written again.

    Raises:
        UsageError: when the file is there with other requests, or a status is unknown.
        OSError: when it cannot be written.
    """
    rows = tuple(requests)
    if unknown := sorted({row.status for row in rows} - set(STATUSES)):
        raise UsageError(f"a request's status is {unknown[0]!r}", f"it is one of {', '.join(STATUSES)}")
    data = _packed(rows)
    path = Path(folder) / RECORDS / record_name(key, seed)
    if path.exists():
        if path.read_bytes() != data:
            raise UsageError(f"{path} holds other requests already", "raw records are never rewritten: take a new seed")
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_bytes(path, data)
    return path


def _packed(rows: Sequence[RequestRow]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(RequestRow))
    writer.writerows(map(astuple, rows))  # None is an empty field, and a float is written to its last digit
    return gzip.compress(text.getvalue().encode(), mtime=0)


def read_records(path: str | Path, window_s: float, faults: FaultList) -> RequestRecords | None:
    """The requests in one file of a records/ folder, for a window of `window_s` seconds; None, with the errors, when it has any."""
    import numpy as np

    from fleetsieve.records import RequestRecords

    table = read_table(Path(path), COLUMNS, faults)
    if table is None or faults.errors:
        return None
    if not len(table):
        faults.add(0, "", "no requests", "the file holds no request; remove it, or write what was sent")
        return None
    ok = np.array([status == "ok" for status in table.text["status"]], dtype=bool)
    _check(table, ok, window_s, faults)
    if faults.errors:
        return None
    sent, ttft, e2e, tokens = (table.numbers[name] for name in ("sent_at_s", "ttft_s", "e2e_s", "output_tokens"))
    return RequestRecords.from_requests(sent, ttft, e2e, tokens, ok, window_s, table.numbers["scheduled_at_s"])


def _check(table: Table, ok: object, window_s: float, faults: FaultList) -> None:
    """Errors that involve several fields of a row, or all rows."""
    import numpy as np

    good = np.asarray(ok, dtype=bool)
    sent, ttft, e2e = (table.numbers[name] for name in ("sent_at_s", "ttft_s", "e2e_s"))
    # A tail over those requests alone that tell their value would be too short: all that succeeded tell it, or none does.
    partly = good & np.isnan(ttft) if not np.isnan(ttft[good]).all() else np.zeros(len(table), dtype=bool)
    late = sent > window_s + _ROUNDING_S
    crossed = good & (ttft > e2e + _ROUNDING_S)
    for column, wrong, message in (
        ("e2e_s", good & np.isnan(e2e), "e2e_s is empty, and the request is ok; write its seconds"),
        ("ttft_s", partly, "ttft_s is empty here, and other ok requests have one; write it for all or none"),
    ):
        faults.add_all(column, "empty field", table.lines[wrong].tolist(), repeat(message))
    faults.add_all(
        "sent_at_s",
        "after the window",
        table.lines[late].tolist(),
        (
            f"{number_text(moment)} s is after the end of the window of {number_text(window_s)} s; leave the request out, "
            "or correct window_s in measurements.csv"
            for moment in sent[late].tolist()
        ),
    )
    faults.add_all(
        "ttft_s",
        "above e2e_s",
        table.lines[crossed].tolist(),
        (
            f"{number_text(first)} is above e2e_s {number_text(whole)}; the first token comes before the last"
            for first, whole in zip(ttft[crossed].tolist(), e2e[crossed].tolist(), strict=True)
        ),
    )


def attach_records(
    measured: Path,
    rows: Sequence[Measurement],
    cell_keys: Collection[CellKey],
    faults: FaultList,
    *,
    of_run: bool = False,
) -> tuple[tuple[Measurement, ...], tuple[Fault, ...], tuple[Fault, ...]]:
    """The rows of the file `measured`, each with its requests where the folder of its records (`records_of`) has them.

    Gives the rows, the errors and the warnings of the files in that folder; a row that lacks what its records need is an error
    in `faults`, those of `measured`. A file of no cell, or of a measurement without a row, is suspicious; in the folder of a run
    (`of_run`) the row may be to come.
    """
    folder = records_folder(measured)
    if not folder.is_dir():
        return tuple(rows), (), ()
    names = {name for name in os.listdir(folder) if not name.startswith(".")}
    attached, lists = [], []
    for row in rows:
        name = record_name(row.key, row.seed)
        if name not in names:
            attached.append(row)
            continue
        if not row.window_s:
            message = f"window_s is needed, for {folder.name}/{name} holds the requests of this measurement; write its seconds"
            faults.add(row.line, "window_s", "no window_s", message)
            continue
        faults_of_file = FaultList(str(folder / name))
        lists.append(faults_of_file)
        records = read_records(folder / name, row.window_s, faults_of_file)
        if records is not None and row.requests is not None and row.requests != records.sent:
            message = f"{measured.name} has {row.requests:,} requests in line {row.line}; {records.sent:,} are here"
            missing = row.requests - records.sent
            message += f"; the {missing:,} that are missing count as failures" if missing > 0 else ""
            faults_of_file.suspect(0, "", "other number of requests", message)
        attached.append(replace(row, records=records))
    read = {record_name(row.key, row.seed) for row in rows}
    strays = _strays(folder, names, set() if of_run else names - read, cell_keys)
    errors = chain.from_iterable(faults_of_file.errors for faults_of_file in lists)
    return (
        tuple(attached),
        tuple(errors),
        (*chain.from_iterable(faults_of_file.suspicions for faults_of_file in lists), *strays),
    )


def _strays(
    folder: Path, names: Collection[str], unread: Collection[str], cell_keys: Collection[CellKey]
) -> tuple[Fault, ...]:
    """Files that nobody would read: their name is that of no measurement of a cell, or no row has that look (those of `unread`)."""
    stems = {_stem(key): key for key in cell_keys}
    plain = {_plain(key): stem for stem, key in stems.items()}
    found: list[Fault] = []
    for name in sorted(names):
        stem, _, seed = name.removesuffix(SUFFIX).rpartition("-seed")
        faults = FaultList(str(folder / name))
        right = plain.get(unicodedata.normalize("NFC", unquote(stem)))
        if not name.endswith(SUFFIX) or stem not in stems or not seed.isdecimal() or seed != str(int(seed)):
            number = int(seed) if seed.isdecimal() else 0
            meant = f"{right}-seed{number}{SUFFIX}" if right else "chat-tp2-c16-seed0.csv.gz"
            message = f"the name belongs to no measurement, {'which is' if right else 'such as'} {meant}; the file is not read"
            faults.suspect(0, "", "no measurement", message)
        elif name in unread:
            message = (
                f"no row of {stems[stem]} has the seed {seed}; the file is not read until measurements.csv has one"
            )
            faults.suspect(0, "", "no row", message)
        found += faults.suspicions
    return tuple(found)


def _plain(key: CellKey) -> str:
    """A measurement's name as a person would write it, without escapes."""
    pool = f"-pool-{key.pool}" if key.pool != DEFAULT_POOL else ""
    variant = f"-variant-{key.variant}" if key.variant != DEFAULT_VARIANT else ""
    return unicodedata.normalize("NFC", f"{key.class_name}-tp{key.tp}-{key.load}{pool}{variant}")

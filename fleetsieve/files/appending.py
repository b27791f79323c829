"""Measured rows that are added to an instance folder one by one, each on the disk before the next is measured."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fleetsieve.errors import UsageError
from fleetsieve.files.csv_writing import header_columns, measurement_row, measurements_text
from fleetsieve.files.folder import MEASUREMENTS, STEPS
from fleetsieve.files.replacing import replace_file, write_synced
from fleetsieve.instance import Measurement


def append_measurement(folder: Path, row: Measurement, before: Iterable[Measurement]) -> None:
    """Add one row to measurements.csv of `folder`, which holds the rows `before`; it is on the disk when this returns.

    The row takes the columns of the file. One that lacks a column that the row needs is written again with all columns, its rows as
    they were; the table of a run is never, for its log holds digests of its rows.

    Raises:
        UsageError: when the table of a run lacks a column that the row needs.
        OSError: when it cannot be written; the file keeps its content, or a torn last line.
    """
    path = folder / MEASUREMENTS
    text = path.read_bytes() if path.exists() else b""
    columns = header_columns(text)
    try:
        line = measurement_row(row, columns)
    except UsageError:
        if (folder / STEPS).is_file():
            raise
        columns = ()
    if not columns or not text.endswith(b"\n"):
        replace_file(path, measurements_text([*before, row]))
        return
    with path.open("ab") as file:
        write_synced(file, line.encode() + b"\n")

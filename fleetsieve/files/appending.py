"""Measured rows that are added to an instance folder one by one, each on the disk before the next is measured."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fleetsieve.files.csv_writing import measurement_header, measurement_row, measurements_text
from fleetsieve.files.folder import MEASUREMENTS
from fleetsieve.files.replacing import replace_file
from fleetsieve.instance import Measurement


def append_measurement(folder: Path, row: Measurement, before: Iterable[Measurement]) -> None:
    """Add one row to measurements.csv of `folder`, which holds the rows `before`; it is on the disk when this returns.

    A file with other columns than `measurement_header` is written anew with all of them, its rows as they were.

    Raises:
        OSError: when it cannot be written; the file keeps its content, or a torn last line.
    """
    path = folder / MEASUREMENTS
    text = path.read_bytes() if path.exists() else b""
    header = measurement_header().encode()
    if text.split(b"\n", 1)[0] != header or not text.endswith(b"\n"):
        replace_file(path, measurements_text([*before, row]))
        return
    with path.open("ab") as file:
        file.write(measurement_row(row).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())

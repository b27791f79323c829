"""A run on disk: an instance folder that grows row by row, and a log of one line a step.

A killed run loses nothing that was measured. The order on disk is: the measured row, synced; then the step's line, synced. So a run
that stops anywhere has at most one row without its line, and at most one torn last line or row, which is cut off when the run goes
on, once it is known that it can. The loop is deterministic: the line that is missing is written as it would have been.

    run folder = instance.toml, classes.csv, cells.csv, measurements.csv, steps.jsonl,
                 records/ (the requests of measurements that have any), replay.csv and replay-records/ (the hidden table of a
                 replay), prior.csv (where a tool's predictions order the search), certificate.json, of a live run serve.toml (as
                 it was at the start), servers.jsonl (what was started), logs/ and load/

The log's first line holds the SHA-256 of the files that stay as they are, and each step's line that of its measured row: a run
whose files were edited is not resumed, for its steps would not be those of the files any more.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.files import (
    HIDDEN_RECORDS,
    RECORDS,
    header_columns,
    measurement_row,
    read_instance,
    read_measurements,
    record_name,
    replace_bytes,
)
from fleetsieve.files.replacing import write_synced
from fleetsieve.files.torn import whole_rows, whole_until
from fleetsieve.instance import Measurement
from fleetsieve.runs.layout import (
    CERTIFICATE,
    HIDDEN,
    MEASURED,
    PRIOR,
    STATED,
    STEPS,
    Line,
    digests_of,
    file_locks,
    json_line,
    lock,
    write_json,
)
from fleetsieve.runs.making import beside_of, scratch
from fleetsieve.runs.start import RunStart

_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class Journal:
    """An open run folder; only one process can hold it."""

    def __init__(self, folder: Path) -> None:
        """Open the run at `folder`; what a kill left torn is ignored, and nothing is changed before `mend`.

        Raises:
            UsageError: when the folder is no run, or another process holds it.
            FleetSieveError: when it cannot be opened, or the system has no file locks.
        """
        file_locks()
        self.folder = folder
        for name in (STEPS, MEASURED):
            if not (folder / name).is_file():
                raise UsageError(f"{folder} is not a run: it has no {name}")
        try:
            self._steps = _open(folder / STEPS)
            self._rows = _open(folder / MEASURED)
        except OSError as error:
            raise FleetSieveError(f"cannot open the run {folder}: {error.strerror or error}") from error
        try:
            lock(self._steps, folder)
            # Only under the lock: what looks torn may be a row that the holder is writing.
            self._whole = {name: _whole(folder / name) for name in (STEPS, MEASURED)}
            self._columns = header_columns(self._whole[MEASURED])
            self._row_digests = [_row_digest(text) for _, text in whole_rows(self._whole[MEASURED])]
            self._next_line = 1 + len(_LINE_BREAK.findall(self._whole[MEASURED].decode("utf-8")))
            logged = self._whole[STEPS].decode("utf-8").split("\n")[:-1]
            self.lines: list[Line] = [_line(text) for text in logged]
        except OSError as error:
            self.close()
            raise FleetSieveError(f"cannot open the run {folder}: {error.strerror or error}") from error
        except FleetSieveError:
            self.close()
            raise
        except ValueError as error:
            self.close()
            raise UsageError(f"{folder / STEPS} is damaged: {error}") from error
        if not self.lines:
            self.close()
            raise UsageError(f"{folder / STEPS} is empty: the run cannot be resumed")
        if beside_of(
            folder
        ).is_dir():  # a kill came between the making of the run and the removal of what it was made in
            with suppress(OSError, FleetSieveError), scratch(folder):
                pass

    @cached_property
    def start(self) -> RunStart:
        """What the run was started with.

        Raises:
            UsageError: when the first line is damaged.
        """
        return RunStart.read(self.lines[0])

    @property
    def prior_sha256(self) -> str | None:
        """The digest of the predictions that the run was started with; None where it has none."""
        return self.start.files.get(PRIOR)

    def mend(self) -> str:
        """Cut off what a kill left torn. A row that the log has and the table lost is revealed again, where the run is a replay.

        Gives the text of a row that was cut off and has all its fields, so that it may have been whole; "" where there is none.
        To be called before the first row or step is added. Nothing is changed before all of it is known to fit.

        Raises:
            UsageError: when rows are lost for good, or what is there was edited; every file is as it was.
            FleetSieveError: when a file cannot be written.
        """
        rows = whole_rows(self._whole[MEASURED])
        done, lost = len(self.lines) - 1, len(self.lines) - 1 - len(rows)
        torn = [name for name, whole in self._whole.items() if (self.folder / name).stat().st_size > len(whole)]
        if not torn and lost <= 0:
            return ""
        end = (self.folder / MEASURED).read_bytes()[len(self._whole[MEASURED]) :].decode("utf-8", errors="replace")
        if any(line.count(",") >= len(self._columns) - 1 > 0 for line in end.split("\n")[1:]):
            at = len(self._whole[MEASURED].splitlines()) + 1
            raise UsageError(
                f"{self.folder / MEASURED}:{at}: a quote is opened and not closed before the next rows",
                "close it, or remove the row; nothing was changed",
            )
        again = self._revealed_again() if lost == 1 else None
        if lost > 0 and again is None:
            raise UsageError(
                f"{self.folder}: the log has {done} steps, but only {len(rows)} rows are measured",
                f"restore {self.folder / MEASURED} (nothing was changed now), or start a new run",
            )
        self._refuse_edited_files()
        for number, ((at, text), line) in enumerate(zip(rows, self.lines[1:], strict=False), start=1):
            if line.get("row_sha256") not in (None, _row_digest(text)):
                raise self._edited(f"{self.folder / MEASURED}:{at}: the row of step {number}", "it was measured")
        try:
            for name in torn:
                os.truncate(self.folder / name, len(self._whole[name]))
        except OSError as error:
            raise FleetSieveError(f"cannot write {self.folder}: {error.strerror or error}") from error
        if again is not None:
            self.add_row(again)
        return end if end.count(",") >= len(self._columns) - 1 > 0 else ""

    def _revealed_again(self) -> Measurement | None:
        """The row of the log's last step, from the hidden table of a replay; None where it is not there, byte by byte."""
        if not (self.folder / HIDDEN).is_file():
            return None
        try:
            with tempfile.TemporaryDirectory() as beside:  # the instance alone, for the run's own table is torn
                for name in STATED:
                    shutil.copyfile(self.folder / name, Path(beside) / name)
                instance = read_instance(beside).instance
            table = read_measurements(self.folder / HIDDEN, instance)
        except (FleetSieveError, OSError):
            return None
        lost = self.lines[-1].get("row_sha256")
        return next((row for row in table if _row_digest(measurement_row(row, self._columns).encode()) == lost), None)

    def _edited(self, what: str, since: str) -> UsageError:
        hint = f"restore it, or start a new run from what is there: fleetsieve run {self.folder} --replay --out NEW"
        return UsageError(f"{what} was edited after {since}", hint)

    def _refuse_edited_files(self) -> None:
        stated = self.start.files
        for name, digest in digests_of(self.folder, stated).items():
            if digest != stated[name]:
                raise self._edited(f"{self.folder / name}", "the run was started")

    def refuse_edited(self, measured: Sequence[Measurement]) -> None:
        """Refuse a run whose files are not those of its log any more; `measured` are the rows of its measurements.csv.

        Raises:
            UsageError: when a file of the first line, or the row of a step, was edited; it is named.
        """
        self._refuse_edited_files()
        for number, (row, line) in enumerate(zip(measured, self.lines[1:], strict=False), start=1):
            # The bytes may differ where the row states the same: a spreadsheet writes 2.0 for 2.
            written = _row_digest(measurement_row(row, self._columns).encode())
            if line.get("row_sha256") not in (None, self.row_digest(number), written):
                what = f"{self.folder / MEASURED}:{row.line}: the row of step {number} ({row.key}, seed {row.seed})"
                raise self._edited(what, "it was measured")

    def row_digest(self, step: int) -> str:
        """SHA-256 of the measured row of a step, from 1, by its bytes on the disk."""
        return self._row_digests[step - 1]

    def add_row(self, row: Measurement) -> Measurement:
        """Store one measured row; it is on disk when this returns. Gives the row as it will be read back: with its line."""
        text = measurement_row(row, self._columns)
        self._reveal_records(row)
        line = self._next_line
        _append(self._rows, text + "\n")
        self._row_digests.append(_row_digest(text.encode()))
        self._next_line += len(_LINE_BREAK.findall(text + "\n"))
        return replace(row, line=line)

    def _reveal_records(self, row: Measurement) -> None:
        """The requests of a revealed measurement join those of the run before its row does."""
        name = record_name(row.key, row.seed)
        hidden = self.folder / HIDDEN_RECORDS / name
        if hidden.is_file():
            try:
                (self.folder / RECORDS).mkdir(exist_ok=True)
                replace_bytes(self.folder / RECORDS / name, hidden.read_bytes())
            except OSError as error:
                raise FleetSieveError(
                    f"cannot write {self.folder / RECORDS / name}: {error.strerror or error}",
                    "the run can continue with --resume",
                ) from error

    def add_step(self, line: Line) -> None:
        """Store the line of one step; it is on disk when this returns."""
        self.lines.append(line)
        _append(self._steps, json_line(line))

    def write_certificate(self, document: Mapping[str, Any]) -> None:
        """Store the certificate, replacing one of before."""
        write_json(self.folder / CERTIFICATE, document)

    def close(self) -> None:
        """Let go of the folder; what counts is on disk already, so a full disk is nothing to know here."""
        for file in (self._rows, self._steps):
            with suppress(OSError):
                file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _row_digest(row: bytes) -> str:
    return hashlib.sha256(row).hexdigest()


def _open(path: Path) -> TextIO:
    return path.open("a+", encoding="utf-8", newline="")


def _whole(path: Path) -> bytes:
    """The lines (of a table the rows, which may have several) that are whole."""
    content = path.read_bytes()
    return content[: whole_until(content, quoted=path.suffix == ".csv")]


def _line(text: str) -> Line:
    line = json.loads(text)
    if not isinstance(line, dict):
        raise ValueError(f"{text.strip()} is not a line of a log")
    return line


def _append(file: TextIO, text: str) -> None:
    try:
        write_synced(file, text)
    except OSError as error:
        raise FleetSieveError(
            f"cannot write {file.name}: {error.strerror or error}", "the run can continue with --resume"
        ) from error

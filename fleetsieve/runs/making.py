"""Make a run folder, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.files import HIDDEN_RECORDS, measurement_header, records_folder
from fleetsieve.runs.layout import (
    HIDDEN,
    MEASURED,
    PRIOR,
    SERVE,
    STATED,
    STEPS,
    digests_of,
    file_locks,
    json_line,
    lock,
)

_LOCK, _MADE = "lock", "run"


def create(
    source: Path,
    out: Path,
    start: Mapping[str, Any],
    *,
    hidden: Path | None,
    prior: Path | None = None,
    serve: Path | None = None,
    variants: bool = False,
) -> None:
    """Make a run folder at `out` from the instance folder `source`, all at once or not at all.

    `start` becomes the first line of the log (policy, seed and what else a resumed run must repeat), with the digests of the files
    added; `hidden` is the table of a replay, `prior` a file of predictions, `serve` the serve.toml of a live run; with `variants`
    the table gets the column of engine variants. Nothing is measured in a new run. What a kill left of an earlier creation is
    removed.

    Raises:
        UsageError: when `out` exists and is not an empty folder, or another process is making it.
        FleetSieveError: when the folder cannot be written.
    """
    _refuse_taken(out)
    file_locks()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with scratch(out) as made:
            _refuse_taken(out)  # another process may have made it until this one held the place
            made.mkdir()
            for name in STATED:
                shutil.copyfile(source / name, made / name)
            if hidden is not None:
                shutil.copyfile(hidden, made / HIDDEN)
                if records_folder(hidden).is_dir():
                    shutil.copytree(records_folder(hidden), made / HIDDEN_RECORDS, copy_function=shutil.copyfile)
            if prior is not None:
                shutil.copyfile(prior, made / PRIOR)
            if serve is not None:
                shutil.copyfile(serve, made / SERVE)
            (made / MEASURED).write_text(measurement_header(variants=variants) + "\n", encoding="utf-8", newline="")
            line = {**start, "files": digests_of(made, (*STATED, HIDDEN, HIDDEN_RECORDS, PRIOR))}
            (made / STEPS).write_text(json_line(line), encoding="utf-8", newline="")
            for path in made.rglob("*"):
                sync(path)
            sync(made)
            os.replace(made, out)
        sync(out.parent)
    except OSError as error:
        raise FleetSieveError(f"cannot write the run folder {out}: {error.strerror or error}") from error


def _refuse_taken(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        resumable = (out / STEPS).is_file()
        hint = f"continue it with --resume, or choose another --out than {out}" if resumable else "choose another --out"
        raise UsageError(f"{out} exists and is not empty", hint)


@contextmanager
def scratch(out: Path) -> Iterator[Path]:
    """The path of a folder to make beside `out`, held by this process alone; whatever is there afterwards is removed."""
    beside = beside_of(out)
    beside.mkdir(exist_ok=True)
    try:
        with (beside / _LOCK).open("a") as held:
            lock(held, out)
            _remove_made(beside)
            try:
                yield beside / _MADE
            finally:
                with suppress(OSError):
                    _remove_made(beside)
                    (beside / _LOCK).unlink()
    finally:
        with suppress(
            OSError
        ):  # it stays while another process holds its lock, or where somebody else put something in
            beside.rmdir()


def beside_of(out: Path) -> Path:
    """The folder in which the run folder `out` is made: always the same, so that what a kill left is found."""
    place = Path(os.path.abspath(out))
    return place.parent / f".{place.name}.new"


def _remove_made(beside: Path) -> None:
    """Remove a half-made run; only the files that `create` writes are touched, and anything else makes this fail."""
    made = beside / _MADE
    if made.is_dir() and not made.is_symlink():
        shutil.rmtree(made / HIDDEN_RECORDS, ignore_errors=True)
        for name in (*STATED, HIDDEN, PRIOR, SERVE, MEASURED, STEPS):
            (made / name).unlink(missing_ok=True)
        made.rmdir()


def sync(path: Path) -> None:
    """Wait until the content of a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

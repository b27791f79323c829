"""What a run folder holds: the names of its files, their digests, and the lock by which one process alone works on it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.files import RECORDS
from fleetsieve.files.folder import STEPS as STEPS
from fleetsieve.files.results import write_result

STATED = ("instance.toml", "classes.csv", "cells.csv")
MEASURED, HIDDEN, CERTIFICATE = "measurements.csv", "replay.csv", "certificate.json"
PRIOR, SERVE = "prior.csv", "serve.toml"
Line = dict[str, Any]


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files of an instance folder that a certificate covers, by name; records/ has one for all its files."""
    return digests_of(folder, (*STATED, MEASURED, RECORDS))


def digests_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of those of the files `names` in a folder that are there, by name."""
    return {name: _digest(folder / name) for name in names if (folder / name).exists()}


def _digest(path: Path) -> str:
    """SHA-256 of a file; of a folder, that of its files' names and digests; nothing of a pipe, which would be waited for."""
    if not path.is_dir():
        if not path.is_file():
            return ""
        return hashlib.sha256(path.read_bytes()).hexdigest()
    listed = "".join(
        f"{_digest(file)}  {file.name}\n" for file in sorted(path.iterdir()) if not file.name.startswith(".")
    )
    return hashlib.sha256(listed.encode()).hexdigest()


def json_line(line: Mapping[str, Any]) -> str:
    """One line of JSON with a newline; the same values always give the same bytes."""
    return json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(", ", ": ")) + "\n"


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document, whole or not at all; keys stay in their order.

    Raises:
        UsageError: when an instance is read from that file.
        FleetSieveError: when the file cannot be written.
    """
    write_result(path, json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def lock(file: TextIO, folder: Path) -> None:
    """Hold `file` until it is closed, so that no other process works on `folder`.

    Raises:
        UsageError: when another process holds it.
    """
    fcntl = file_locks()
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except FileNotFoundError:
        mine = False  # the holder finished between the opening and the locking, and removed it
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        mine = False
    if not mine:
        raise UsageError(f"another process is working on {folder}", "wait for it to end, or stop it first")


def file_locks() -> Any:
    """The module for file locks, loaded when a run is opened: other commands do without.

    Raises:
        FleetSieveError: when the system has none.
    """
    try:
        import fcntl
    except ImportError as error:
        raise FleetSieveError(
            "a run needs the file locks of Linux or macOS, which this system does not have",
            "on Windows, use its subsystem for Linux (WSL)",
        ) from error
    return fcntl

"""Files that a command is asked to write: where they may stand, and how they come there."""

from __future__ import annotations

import os
from pathlib import Path

from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.files.folder import CELLS, CLASSES, INSTANCE, MEASUREMENTS, STEPS
from fleetsieve.files.replacing import replace_bytes

READ = frozenset(
    {INSTANCE, CLASSES, CELLS, MEASUREMENTS, STEPS, "serve.toml", "servers.jsonl", "replay.csv", "prior.csv"}
)
"""What an instance or a run is read from."""


def check_result(path: Path) -> None:
    """Refuse a result that would take the place of a file that an instance or a run is read from.

    Raises:
        UsageError: when it would.
    """
    there = Path(os.path.realpath(path))
    if there.name in READ and (there.parent / INSTANCE).exists():
        raise UsageError(f"{path} is a file of the instance in {there.parent}", "give the result another name")


def write_result(path: Path, content: str | bytes) -> None:
    """Write a result, texts in UTF-8: in one step where a file is or none; through links, devices and pipes.

    Bytes of a file name that are not UTF-8, which a text may repeat, are spelled out.

    Raises:
        UsageError: as `check_result`.
        FleetSieveError: when it cannot be written; a file that was there keeps its content.
    """
    check_result(path)
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as stream:
                stream.write(data)
        else:
            replace_bytes(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise FleetSieveError(f"cannot write {path}: {error.strerror or error}") from error

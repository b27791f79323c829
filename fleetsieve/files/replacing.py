"""Files on the disk: replaced in one step, so that a reader sees the old content or the new one, or added to and synced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, AnyStr


def replace_file(path: Path, text: str) -> None:
    """Make `text` (in UTF-8) the content of `path` in one step, on the disk before this returns.

    Raises:
        OSError: when it cannot be written; the file keeps its content.
    """
    replace_bytes(path, text.encode())


def write_synced(file: IO[AnyStr], data: AnyStr) -> None:
    """Write `data` to an open file; it is on the disk when this returns.

    Raises:
        OSError: when it cannot be written; some of it may be there.
    """
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def replace_bytes(path: Path, data: bytes) -> None:
    """Make `data` the content of `path`, as `replace_file`.

    Raises:
        OSError: when it cannot be written, with the path; the file keeps its content.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            write_synced(file, data)
        beside.replace(path)
    except OSError as error:  # a full disk names no file
        error.filename = error.filename or str(path)
        raise
    finally:
        beside.unlink(missing_ok=True)

"""The end of what a program wrote."""

from __future__ import annotations

from pathlib import Path

KEPT_LINES = 20
"""Lines of the log of a failed program that an error shows."""

_TAIL_BYTES = 256 << 10
_WIDEST = 400


def last_lines(path: Path, count: int | None = None, *, since: int = 0) -> tuple[str, ...]:
    """The last `count` lines (None: all) of a log that state something, from byte `since` on; () when there are none.

    At most some hundred KiB are read, and lines are cut where nobody reads on; a progress bar's carriage returns end lines too.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(since, size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ()
    lines = [line.rstrip()[:_WIDEST] for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return tuple(lines if count is None else lines[-count:])

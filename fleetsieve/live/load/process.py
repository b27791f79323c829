"""A load generator's program: in a session of its own, watched, gone with its children when this returns or is killed."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleetsieve.errors import UsageError
from fleetsieve.live.processes.child import Child

POLL_S = 0.5
PARTING_S = 10.0
"""How long a program may take to write its records after it was interrupted, before it is killed."""

_GUARD = str(Path(__file__).with_name("guard.py"))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: `interrupted` names who ended it, "" when it ended by itself ("deadline", "enough").

    The exit code is None when it would not go even by SIGKILL.
    """

    exit_code: int | None
    interrupted: str
    wall_s: float
    cpu_s: float


def run_watched(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    deadline_s: float,
    enough: Callable[[float], bool],
) -> Ended:
    """Run `command` with its output in `log` until it ends, `enough(elapsed seconds)` holds, or `deadline_s` is over.

    It is interrupted as by Ctrl-C first, so that it writes what it has, and killed with all of its session after that.

    Raises:
        UsageError: when the command cannot be started.
    """
    if shutil.which(command[0]) is None:
        raise UsageError(f"there is no command {command[0]!r}", "install the load generator, or name its command")
    start, cpu_s, interrupted = time.monotonic(), 0.0, ""
    with log.open("wb") as output:
        child = Child([sys.executable, "-I", "-S", _GUARD, *command], output, environment)
    try:
        while child.alive():
            cpu_s = max(cpu_s, child.session.cpu_s())
            elapsed_s = time.monotonic() - start
            if elapsed_s >= deadline_s or enough(elapsed_s):
                interrupted = "deadline" if elapsed_s >= deadline_s else "enough"
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGINT)
                child.wait(PARTING_S)
                break
            child.wait(min(POLL_S, deadline_s - elapsed_s))
    finally:
        ending = child.end(0.0)
    return Ended(ending.exit_code, interrupted, time.monotonic() - start, cpu_s)

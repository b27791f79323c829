"""A load generator's program: in a session of its own, watched, gone with its children when this returns or is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleetsieve.errors import UsageError

POLL_S = 0.5
PARTING_S = 10.0
"""How long a program may take to write its records after it was interrupted, before it is killed."""

_GUARD = str(Path(__file__).with_name("guard.py"))
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: `interrupted` names who ended it, "" when it ended by itself ("deadline", "enough")."""

    exit_code: int
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
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _GUARD, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    try:
        while process.poll() is None:
            cpu_s = max(cpu_s, _session_cpu_s(process.pid))
            elapsed_s = time.monotonic() - start
            if elapsed_s >= deadline_s or enough(elapsed_s):
                interrupted = "deadline" if elapsed_s >= deadline_s else "enough"
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PARTING_S)
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(min(POLL_S, deadline_s - elapsed_s))
    finally:
        _end_session(process)
    return Ended(process.returncode, interrupted, time.monotonic() - start, cpu_s)


def last_lines(log: Path, count: int = 20) -> tuple[str, ...]:
    """The last lines of a log that say something."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            return tuple(deque((line.rstrip() for line in lines if line.strip()), count))
    except OSError:
        return ()


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the session that the program started, also what has a process group of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    giving_up = time.monotonic() + PARTING_S
    while (left := _session(process.pid)) and time.monotonic() < giving_up:
        for pid, _ in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        process.poll()
        time.sleep(0.01)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _session(leader: int) -> list[tuple[int, float]]:
    """The processes of a session with their CPU seconds so far; empty where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in parentheses may hold anything; the fields count from behind it: state, ppid, pgrp, session, ...
            after = entry.read_text(errors="replace").rpartition(")")[2].split()
            if int(after[3]) == leader and after[0] != "Z":
                found.append((int(entry.parent.name), (int(after[11]) + int(after[12])) / _TICKS_PER_S))
    return found


def _session_cpu_s(leader: int) -> float:
    return sum(cpu_s for _, cpu_s in _session(leader))

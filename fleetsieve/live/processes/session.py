"""Processes by an identity that survives PID reuse, and whole sessions of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

GONE_S = 10.0
"""How long a killed session may take to be empty; what stays longer hangs in the kernel (in a driver), and is reported."""

_POLL_S = 0.05
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def identity_of(pid: int) -> str | None:
    """A text that no other process on this machine ever has; None when there is no such process, or a zombie.

    On Linux the start in clock ticks since the boot, with the boot's id: a step of the wall clock does not change it. Elsewhere
    the start time.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        if not _BOOT.is_file():
            return f"{process.create_time():.3f}"
        # The second field is a name in brackets, which may hold blanks and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return f"{_BOOT.read_text(encoding='utf-8').strip()}:{fields[19]}"
    except (psutil.Error, OSError, IndexError):
        return None


def age_s(identity: str) -> float | None:
    """Seconds since the process with this identity started, whether or not it still lives; None after a new start of the machine.

    On Linux no step of the wall clock changes it.
    """
    boot, _, started = identity.rpartition(":")
    try:
        if not boot:
            return max(0.0, time.time() - float(started))
        if _BOOT.read_text(encoding="utf-8").strip() != boot:
            return None
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError):
        return None


class ProcessSession:
    """The processes of one session: a program and all that it started; `known` ones with their identities.

    The kernel keeps a session's number as long as a process of it lives. So one live process of a known identity shows that the
    session is still the one that is meant, and then all its members belong to it and become known themselves. `held` states that
    the caller holds the number: it is the parent of the leader and has not waited for it. Children that made a session of their
    own (compilers do) belong to it once `adopt` has seen them.
    """

    def __init__(self, number: int, known: Mapping[int, str], *, held: bool = False) -> None:
        self.number = number
        self.known = dict(known)
        self._held = held

    def members(self) -> tuple[int, ...]:
        """The live processes that belong to it."""
        inside = self._inside()
        return (
            *inside,
            *(pid for pid, identity in self.known.items() if pid not in inside and identity_of(pid) == identity),
        )

    def cpu_s(self) -> float:
        """The CPU seconds that its live processes have used so far."""
        used = 0.0
        for pid in self.members():
            with suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times()
                used += times.user + times.system
        return used

    def adopt(self) -> None:
        """Make the members' children known, whatever session they are in."""
        for pid in self.members():
            with suppress(psutil.Error):
                for child in psutil.Process(pid).children(recursive=True):
                    if identity := identity_of(child.pid):
                        self.known.setdefault(child.pid, identity)

    def end(self, stop_s: float) -> tuple[bool, tuple[int, ...]]:
        """SIGTERM to the leader's group, after `stop_s` SIGKILL to every member, until none is left.

        Gives whether SIGKILL was needed, and what is left after `GONE_S` all the same. When it is interrupted it kills at once.
        """
        try:
            self.adopt()
            killed = bool(self.members())
            if killed and stop_s > 0:
                if self._inside():
                    with suppress(OSError):
                        os.killpg(self.number, signal.SIGTERM)
                killed = not self._emptied(stop_s)
        finally:
            self._kill()
        self._emptied(GONE_S)
        return killed, self.members()

    def _inside(self) -> tuple[int, ...]:
        """The live processes of the session; none when its number may be somebody else's by now."""
        found = {pid: identity for pid in psutil.pids() if _is_in(pid, self.number) and (identity := identity_of(pid))}
        if not self._held and not any(self.known.get(pid) == identity for pid, identity in found.items()):
            return ()
        self.known |= found
        return tuple(found)

    def _emptied(self, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while self.members():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _kill(self) -> None:
        """SIGKILL to every member, again while new ones appear: a fork may be under way."""
        for _ in range(20):
            members = self.members()
            for pid in members:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not members:
                return
            time.sleep(0.01)


def _is_in(pid: int, session: int) -> bool:
    try:
        return pid > 0 and os.getsid(pid) == session
    except OSError:
        return False

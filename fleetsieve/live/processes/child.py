"""A program that runs in a session of its own until it is ended."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from fleetsieve.live.processes.session import ProcessSession, identity_of

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ChildEnding:
    """How a child ended: its exit code (None: it would not go), whether SIGKILL was needed, and the processes that are left."""

    exit_code: int | None
    killed: bool
    left: tuple[int, ...]


class Child:
    """A program in a session of its own, with a pipe as its standard input.

    Nobody waits for the process before `end`, so that its number, which is the session's too, is nobody else's until then.
    `identity` is None when it ended as soon as it started.
    """

    def __init__(self, command: Sequence[str], output: IO[bytes], environment: Mapping[str, str]) -> None:
        """Start `command` with its output in `output`.

        Raises:
            OSError: when it cannot be started.
        """
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self._process.pid
        self.session = ProcessSession(self.pid, {}, held=True)
        self.identity = identity_of(self.pid)
        if self.identity is not None:
            self.session.known[self.pid] = self.identity

    def send(self, line: bytes) -> None:
        """Write to its standard input; nothing happens when it does not read any more."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line)

    def close_input(self) -> None:
        """Close its standard input (idempotent)."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def alive(self) -> bool:
        """Whether the program itself lives; what it started may live longer."""
        return self.identity is not None and identity_of(self.pid) == self.identity

    def wait(self, within_s: float) -> bool:
        """Wait until the program itself has ended, at most `within_s`; whether it has."""
        deadline = time.monotonic() + within_s
        while self.alive():
            left_s = deadline - time.monotonic()
            if left_s <= 0.0:
                return False
            time.sleep(min(_POLL_S, left_s))
        return True

    def end(self, stop_s: float) -> ChildEnding:
        """SIGTERM to its group, after `stop_s` (0: at once) SIGKILL to all, until its session is empty.

        To be called again when it was interrupted.
        """
        killed, left = self.session.end(stop_s)
        code = None if self.pid in left else self._process.wait()
        self.close_input()
        return ChildEnding(code, killed, left)

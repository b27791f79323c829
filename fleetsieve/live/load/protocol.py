"""What a load generator is given and what it gives back, whichever program sends the requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from fleetsieve.files.records import RequestRow
from fleetsieve.live.load.schedule import Schedule


class GeneratorEnding(StrEnum):
    """How the sending ended."""

    DONE = "done"
    """The program ended by itself, or was stopped when every request of the window had ended."""
    STOPPED = "stopped"
    """Whoever watched asked for it."""
    DEADLINE = "deadline"
    """It was ended at its deadline."""
    FAILED = "failed"
    """The program ended with an error, or without a single record."""


@dataclass(frozen=True, slots=True)
class Flow:
    """How the sending goes, for whoever watches: seconds since the program started, requests that ended, what they brought.

    `window_at_s` is where the moment lies in the window: negative in the warm-up, None before the first request has ended.
    """

    elapsed_s: float
    window_at_s: float | None = None
    ended: int = 0
    succeeded: int = 0
    output_tokens: int = 0


Watch = Callable[[Flow], bool]
"""Called about twice a second while requests are sent; True stops the sending."""


@dataclass(frozen=True, slots=True)
class Heard:
    """All answers of a measurement, those after the window too: what a server's own counters are to be held against.

    `succeeded` requests were answered well, with these means; `unheard` more may have been, unrecorded, when the sending was cut.
    `recorded` are all of which there is a record, those that failed too.
    """

    succeeded: int = 0
    ttft_mean_s: float | None = None
    e2e_mean_s: float | None = None
    unheard: int = 0
    recorded: int = 0


@dataclass(frozen=True)
class Sent:
    """What came of a schedule.

    `rows` has one row for every request that was due, or in a closed loop was sent, before the end of the window; the warm-up's
    too. Moments count from the start of the window, `started_unix_s` on the wall clock (None when nothing was sent), and the
    window was `window_s` long.

    `send_error_p50_s` and `send_error_p99_s` state how late the window's requests were sent, against the one that was sent most
    on time (open loop); `in_flight` how many were in flight on average in the window (closed loop). `warnings` are the reasons
    why the load was not sent as asked; with none it was. `unheld` explains why the window lacks requests that were due in it, ""
    where it does not. `failures` counts the reasons of the window's requests that failed. `cut` states how the sending ended
    before all was recorded, "" where it ended as planned or as whoever watched asked for.
    """

    rows: tuple[RequestRow, ...]
    window_s: float
    started_unix_s: float | None
    ending: GeneratorEnding
    exit_code: int | None
    wall_s: float
    client_cpu_s: float
    send_error_p50_s: float | None = None
    send_error_p99_s: float | None = None
    in_flight: float | None = None
    warnings: tuple[str, ...] = ()
    failures: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    last_lines: tuple[str, ...] = ()
    heard: Heard = Heard()
    unheld: str = ""
    cut: str = ""

    @property
    def as_asked(self) -> bool:
        """Whether the load was sent as the schedule states."""
        return not self.warnings


class LoadGenerator(Protocol):
    """Sends a schedule to one server."""

    @property
    def name(self) -> str:
        """What it is called in a configuration and in the source of a measurement."""
        ...

    def send(
        self, schedule: Schedule, url: str, model: str, folder: Path, deadline_s: float, watch: Watch | None = None
    ) -> Sent:
        """Send `schedule` to the OpenAI-compatible server at `url` ("http://127.0.0.1:8000") and wait for what comes of it.

        `folder` is a new folder for the program's own files and log. `deadline_s` seconds after the start the program is ended,
        whatever it is doing; no process of it is left when this returns or raises.

        Raises:
            UsageError: when the program is not there, or cannot send such a schedule.
        """
        ...


@dataclass(frozen=True, slots=True)
class GeneratorKind:
    """A load generator as a configuration knows it.

    `make(command, request_timeout_s)` gives one that is started by `command`; `program` is the command where serve.toml states
    none, and answers --version. `install` states how a person gets it. One that `holds_concurrency` can keep a number of requests
    in flight for a given time.
    """

    name: str
    make: Callable[[tuple[str, ...], float], LoadGenerator]
    program: tuple[str, ...]
    install: str
    holds_concurrency: bool = True

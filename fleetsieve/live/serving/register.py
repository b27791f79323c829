"""The run's own record of the servers that it started, and the end of those that a dead run left.

    RUN/servers.jsonl   {"event": "started", "pid", "identity", "command", "port", "tp", "gpus", "log", "at_unix_s", "owner",
                         "by_hand"}
                        {"event": "members", "pid", "processes": [[pid, identity], ...], "held_s"}
                        {"event": "ready", "pid", "held_s"}
                        {"event": "stopped", "pid", "held_s"}
                        {"event": "left", "pid"}

The line "started" is on disk before the server's command runs (the process waits for it), so no server is ever without one. The
leader's number is that of its session too. "members" names the engine and the workers: they are found when the leader is dead.
"held_s" counts from the start command: times the GPUs it is what the server has cost, whether or not a row was charged with it.
"owner" is the process of the run, [pid, identity]. A run folder that is copied while its run continues has a record of servers that
are not its own: they are left to their owner ("left"), and what they hold is no cost of the copy. "by_hand" states that the owner
was no run, but `fleetsieve measure`, whose rows are added by hand. Older records have neither.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fleetsieve.errors import FleetSieveError
from fleetsieve.files.replacing import write_synced
from fleetsieve.live.processes.session import ProcessSession, age_s, identity_of

NAME = "servers.jsonl"
ORPHAN_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Started:
    """A server as the record has it. `known` are its processes with their identities, the leader first.

    `started_unix_s` is None and `tp` 0 where the record does not show them; `ready_s` is None where it never was ready, `held_s`
    what was reported last. `owner` is the process whose server it is, with its identity, and `by_hand` states that it was no run;
    both are None where the record does not show them.
    """

    pid: int
    command: tuple[str, ...]
    port: int
    tp: int = 0
    gpus: tuple[str, ...] = ()
    log: str = ""
    known: Mapping[int, str] = field(default_factory=dict)
    started_unix_s: float | None = None
    ready_s: float | None = None
    held_s: float = 0.0
    stopped: bool = False
    owner: tuple[int, str] | None = None
    by_hand: bool | None = None

    @property
    def of_another(self) -> bool:
        """Whether a process that lives, and is not this one, owns it: then it is no orphan."""
        return self.owner is not None and self.owner[0] != os.getpid() and _lives(dict([self.owner]))

    @property
    def width(self) -> int:
        """The GPUs that it occupied: those that it was given, or its TP where the engine chose."""
        return len(self.gpus) or self.tp


@dataclass(frozen=True, slots=True)
class Orphan:
    """A server of a dead run that was found: how it was stopped, and the processes that would not go."""

    server: Started
    killed: bool
    left: tuple[int, ...]


class Register:
    """Writes the record of the run folder `folder`; each line is on disk when the call returns.

    `by_hand`: the servers are not started by the run itself.

    Raises (each method):
        FleetSieveError: when the record cannot be written: then nothing may be started.
    """

    def __init__(self, folder: Path, *, by_hand: bool = False) -> None:
        self._path, self._by_hand = folder / NAME, by_hand

    def started(self, server: Started) -> None:
        """The process `server.pid` is there; it may run its command when this returns."""
        line = {"event": "started", "pid": server.pid, "identity": server.known[server.pid], "command": server.command}
        place = {"port": server.port, "tp": server.tp, "gpus": server.gpus, "log": server.log}
        owner = (os.getpid(), identity_of(os.getpid()))
        whose = {"at_unix_s": server.started_unix_s, "owner": owner, "by_hand": self._by_hand}
        self._add({**line, **place, **whose})

    def members(self, pid: int, known: Mapping[int, str], held_s: float) -> None:
        """The processes that the server of the leader `pid` has by now, `held_s` after its start."""
        self._add({"event": "members", "pid": pid, "processes": sorted(known.items()), "held_s": round(held_s, 3)})

    def ready(self, pid: int, held_s: float) -> None:
        """The server of the leader `pid` can be measured, `held_s` after its start."""
        self._add({"event": "ready", "pid": pid, "held_s": round(held_s, 3)})

    def stopped(self, pid: int, held_s: float) -> None:
        """Nothing of the server of the leader `pid` is left, `held_s` after its start."""
        self._add({"event": "stopped", "pid": pid, "held_s": round(held_s, 3)})

    def left(self, pid: int) -> None:
        """The server of the leader `pid` is of a run that continues elsewhere: it is not of this record any more."""
        self._add({"event": "left", "pid": pid})

    def _add(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False) + "\n"
        try:
            with self._path.open("a+b") as file:
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # a kill, or a full disk, tore the last line
                        text = "\n" + text
                write_synced(file, text.encode())
        except OSError as error:
            raise FleetSieveError(
                f"cannot write {self._path}: {error.strerror or error}", "the run can continue with --resume"
            ) from error


def servers(folder: Path) -> tuple[Started, ...]:
    """The servers that the run at `folder` started, in their order, as in its record.

    Torn or strange lines are ignored: what they would have reported was never used.
    """
    found: list[Started] = []
    last: dict[int, int] = {}
    try:
        text = (folder / NAME).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    for line in text.splitlines():
        try:
            event = json.loads(line)
            pid, kind = int(event["pid"]), event["event"]
            if kind == "started":
                started = _started(pid, event)
                last[pid] = len(found)
                found.append(started)
            elif pid in last and not found[last[pid]].stopped:
                found[last[pid]] = _later(found[last[pid]], kind, event)
        except (ValueError, KeyError, TypeError):
            continue
    return tuple(found)


def _started(pid: int, event: Mapping[str, Any]) -> Started:
    at_unix_s, owner = event.get("at_unix_s"), event.get("owner")
    return Started(
        pid,
        tuple(map(str, event["command"])),
        int(event["port"]),
        int(event.get("tp", 0)),
        tuple(map(str, event["gpus"])),
        str(event["log"]),
        {pid: str(event["identity"])},
        None if at_unix_s is None else float(at_unix_s),
        owner=None if owner is None else (int(owner[0]), str(owner[1])),
        by_hand=event.get("by_hand"),
    )


def _later(server: Started, kind: str, event: Mapping[str, Any]) -> Started:
    """What is known of a server after one more line of its record."""
    held_s = max(server.held_s, float(event.get("held_s", 0.0)))
    if kind == "left":
        return replace(server, stopped=True, held_s=0.0)
    if kind == "members":
        more = {int(number): str(identity) for number, identity in event["processes"]}
        return replace(server, known={**server.known, **more}, held_s=held_s)
    if kind == "ready":
        return replace(server, ready_s=float(event["held_s"]), held_s=held_s)
    return replace(server, stopped=True, held_s=held_s) if kind == "stopped" else server


def unfinished(folder: Path) -> tuple[Started, ...]:
    """The servers of the run at `folder` that were started and not stopped, whether or not they still live."""
    return tuple(server for server in servers(folder) if not server.stopped)


@dataclass(frozen=True, slots=True)
class GpuSeconds:
    """GPU-seconds of a run folder: of the run itself, and of what was measured or written into it by hand.

    `by_hand` is None where the two are not distinguished (the record of an older version): then all are in `by_run`.
    """

    by_run: float = 0.0
    by_hand: float | None = 0.0

    @property
    def total(self) -> float:
        """Both together."""
        return self.by_run + (self.by_hand or 0.0)

    def beyond(self, paid: GpuSeconds) -> float:
        """What is held beyond what is `paid`; what a row by hand is stated to have cost pays for nothing that the run held."""
        if self.by_hand is None or paid.by_hand is None:
            return max(0.0, self.total - paid.total)
        return max(0.0, self.by_run - paid.by_run) + max(0.0, self.by_hand - paid.by_hand)


def held_gpu_s(folder: Path) -> GpuSeconds:
    """What the servers of the run at `folder` have held, of all its processes so far; live ones until now."""
    found = servers(folder)
    held = [(server.by_hand, (server.held_s if server.stopped else _held_s(server)) * server.width) for server in found]
    if any(by_hand is None for by_hand, _ in held):
        return GpuSeconds(sum(gpu_s for _, gpu_s in held), None)
    return GpuSeconds(*(sum(gpu_s for by_hand, gpu_s in held if by_hand is who) for who in (False, True)))


def measured_starts_s(folder: Path) -> Mapping[int, float]:
    """The mean seconds from the start command until ready, for each TP of which a server of the run at `folder` was ready."""
    by_tp: dict[int, list[float]] = {}
    for server in servers(folder):
        if server.ready_s is not None and server.tp:
            by_tp.setdefault(server.tp, []).append(server.ready_s)
    return {tp: sum(found) / len(found) for tp, found in by_tp.items()}


def living(folder: Path) -> tuple[Started, ...]:
    """The servers of `unfinished` of which a process still lives, recognised by its identity and not by its number alone."""
    return tuple(server for server in unfinished(folder) if _lives(server.known))


def leave_others(folder: Path) -> tuple[Started, ...]:
    """The servers of `unfinished` that another process owns, which lives: the record is a copy. They are taken out of it.

    Raises:
        FleetSieveError: when the record cannot be written.
    """
    found = tuple(server for server in unfinished(folder) if server.of_another)
    for server in found:
        Register(folder).left(server.pid)
    return found


def stop_orphans(folder: Path, stop_s: float = ORPHAN_STOP_S) -> tuple[Orphan, ...]:
    """Stop what a dead run left at `folder`: the whole session of each of its servers, and nothing of anybody else.

    Only for a caller that holds the run folder: a living run's servers are no orphans, nor are those whose owner lives.

    Raises:
        FleetSieveError: when the record cannot be written.
    """
    register, found = Register(folder), []
    for server in unfinished(folder):
        if server.of_another:
            continue
        held_s = None
        if _lives(server.known):
            killed, left = ProcessSession(server.pid, server.known).end(stop_s)
            found.append(Orphan(server, killed, left))
            if left:
                continue
            held_s = age_s(server.known[server.pid])
        register.stopped(server.pid, _held_s(server) if held_s is None else held_s)
    return tuple(found)


def _held_s(server: Started) -> float:
    """How long a server that was not stopped has held its GPUs: until now while it lives, else until its last sign of life.

    That is the last that its record or its log shows: nobody knows when it ended, and its GPUs may have been another's since.
    """
    age = age_s(server.known[server.pid])
    if age is not None and _lives(server.known):
        return age
    seen_s = server.held_s
    if server.started_unix_s is not None:
        with suppress(OSError):
            seen_s = max(seen_s, os.stat(server.log).st_mtime - server.started_unix_s)
    return seen_s if age is None else min(seen_s, age)


def _lives(known: Mapping[int, str]) -> bool:
    return any(identity_of(pid) == identity for pid, identity in known.items())

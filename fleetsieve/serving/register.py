"""The run's own record of the servers that it started, and the end of those that a dead run left.

    RUN/servers.jsonl   {"event": "started", "pid", "identity", "command", "port", "gpus", "log"}
                        {"event": "members", "pid", "processes": [[pid, identity], ...]}
                        {"event": "stopped", "pid"}

The line "started" is on disk before the server's command runs (the process waits for it), so no server is ever without one. The
leader's number is that of its session too. "members" names the engine and the workers: they are found when the leader is dead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fleetsieve.errors import FleetSieveError
from fleetsieve.processes.session import Session, identity_of

NAME = "servers.jsonl"
ORPHAN_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Started:
    """A server as it was started. `known` are its processes with their identities, the leader first."""

    pid: int
    command: tuple[str, ...]
    port: int
    gpus: tuple[str, ...] = ()
    log: str = ""
    known: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Orphan:
    """A server of a dead run that was found: how it was stopped, and the processes that would not go."""

    server: Started
    killed: bool
    left: tuple[int, ...]


class Register:
    """Writes the record of the run folder `folder`; each line is on disk when the call returns.

    Raises (each method):
        FleetSieveError: when the record cannot be written: then nothing may be started.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def started(self, server: Started) -> None:
        """The process `server.pid` is there; it may run its command when this returns."""
        line = {"event": "started", "pid": server.pid, "identity": server.known[server.pid], "command": server.command}
        self._add({**line, "port": server.port, "gpus": server.gpus, "log": server.log})

    def members(self, pid: int, known: Mapping[int, str]) -> None:
        """The processes that the server of the leader `pid` has by now."""
        self._add({"event": "members", "pid": pid, "processes": sorted(known.items())})

    def stopped(self, pid: int) -> None:
        """Nothing of the server of the leader `pid` is left."""
        self._add({"event": "stopped", "pid": pid})

    def _add(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False) + "\n"
        try:
            with self._path.open("a+b") as file:
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # a kill, or a full disk, tore the last line
                        text = "\n" + text
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as fault:
            raise FleetSieveError(
                f"cannot write {self._path}: {fault.strerror or fault}", "the run can go on with --resume"
            ) from fault


def unfinished(folder: Path) -> tuple[Started, ...]:
    """The servers of the run at `folder` that were started and not stopped, whether or not they still live.

    Torn or strange lines are passed over: what they would have told was never used.
    """
    open_: dict[int, Started] = {}
    try:
        text = (folder / NAME).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    for line in text.splitlines():
        try:
            event = json.loads(line)
            pid = int(event["pid"])
            if event["event"] == "started":
                known = {pid: str(event["identity"])}
                command, gpus = tuple(map(str, event["command"])), tuple(map(str, event["gpus"]))
                open_[pid] = Started(pid, command, int(event["port"]), gpus, str(event["log"]), known)
            elif event["event"] == "members" and pid in open_:
                more = {int(number): str(identity) for number, identity in event["processes"]}
                open_[pid] = replace(open_[pid], known={**open_[pid].known, **more})
            elif event["event"] == "stopped":
                open_.pop(pid, None)
        except (ValueError, KeyError, TypeError):
            continue
    return tuple(open_.values())


def living(folder: Path) -> tuple[Started, ...]:
    """The servers of `unfinished` of which a process still lives, told by its identity and not by its number alone."""
    return tuple(server for server in unfinished(folder) if _lives(server.known))


def stop_orphans(folder: Path, stop_s: float = ORPHAN_STOP_S) -> tuple[Orphan, ...]:
    """Stop what a dead run left at `folder`: the whole session of each of its servers, and nothing of anybody else.

    Only for a caller that holds the run folder: a living run's servers are no orphans.

    Raises:
        FleetSieveError: when the record cannot be written.
    """
    register, found = Register(folder), []
    for server in unfinished(folder):
        left: tuple[int, ...] = ()
        if _lives(server.known):
            killed, left = Session(server.pid, server.known).end(stop_s)
            found.append(Orphan(server, killed, left))
        if not left:
            register.stopped(server.pid)
    return tuple(found)


def _lives(known: Mapping[int, str]) -> bool:
    return any(identity_of(pid) == identity for pid, identity in known.items())

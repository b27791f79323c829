"""A server that this run starts, in a session of its own, and stops with everything that it started."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from fleetsieve.errors import EngineMissing, FleetSieveError, UsageError
from fleetsieve.instance import Status
from fleetsieve.keys import ServerKey
from fleetsieve.live.processes.child import Child
from fleetsieve.live.processes.log import last_lines
from fleetsieve.live.processes.session import identity_of
from fleetsieve.live.serving.command import command_of, environment_of, refuse_impossible, valid_tps, why_not_run
from fleetsieve.live.serving.config import PREFIX_CACHE, ServeConfig
from fleetsieve.live.serving.endpoint import CALL_S, RESET_S, Endpoint
from fleetsieve.live.serving.failures import About, Failure, death, start_failure
from fleetsieve.live.serving.listeners import listeners
from fleetsieve.live.serving.metrics import Scrape
from fleetsieve.live.serving.register import Register, Started
from fleetsieve.live.serving.replica import Stopped

_POLL_S = 0.2
_NOTE_S = 2.0
_LOOPBACK = ("127.", "::1", "::ffff:127.")

_WAITING_SHELL = 'read -r go && exec "$@" < /dev/null'
"""Runs the command once a line comes in; when this process dies before it has sent one, the input ends and nothing is run."""


class Server:
    """A server of this run. Its GPU-seconds count from the start command to the end of its last process."""

    def __init__(self, config: ServeConfig, server: ServerKey, gpus: Sequence[str], port: int, log: Path) -> None:
        self.tp, self.variant = server.tp, server.variant
        self.gpus, self.port, self.log = tuple(gpus), port, log
        host = f"[{config.host}]" if ":" in config.host else config.host
        self.endpoint = Endpoint(f"http://{host}:{port}", config.served_name)
        self.ready_s: float | None = None
        self._config = config
        self._noted = 1
        self._stopped: Stopped | None = None

    @classmethod
    def start(
        cls, config: ServeConfig, wanted: ServerKey | int, gpus: Sequence[str], port: int, log: Path, register: Register
    ) -> Server:
        """Start the server `wanted` (or one with that TP) on `gpus` that will listen on `port` and write to `log`.

        Without `gpus` the engine chooses them.

        It is in `register`, on disk, before its command runs.

        Raises:
            UsageError: when it cannot start with a TP that does not fit.
            EngineMissing: when its command is not there.
            FleetSieveError: when the log or the record cannot be written, or no process can be made. Nothing is left.
        """
        server_key = wanted if isinstance(wanted, ServerKey) else ServerKey(wanted)
        config, tp = config.of(server_key.variant), server_key.tp
        refuse_impossible(config, tp)
        if gpus and len(gpus) < tp:
            raise UsageError(f"TP {tp} needs {tp} GPUs, and the server gets {len(gpus)} ({', '.join(gpus)})")
        command = command_of(config, tp, port)
        environment = environment_of(config, tp, gpus)
        if shutil.which(command[0], path=environment.get("PATH")) is None:
            raise EngineMissing(why_not_run(command[0]), "give it with its path: [serve] command = [...]")
        server = cls(config, server_key, gpus, port, log)
        server._launch(command, environment, register)
        return server

    def _launch(self, command: tuple[str, ...], environment: dict[str, str], register: Register) -> None:
        inherited = {name: value for name, value in os.environ.items() if name != "VLLM_API_KEY"}
        try:
            with self.log.open("ab") as log:
                log.write(f"# {shlex.join(command)}\n".encode())
                log.flush()
                self._log_start = log.tell()
                self._started_s = time.monotonic()
                words = ["/bin/sh", "-c", _WAITING_SHELL, "fleetsieve-server", *command]
                self._child = Child(words, log, inherited | environment)
        except OSError as error:
            raise FleetSieveError(
                f"cannot start a server with its log {self.log}: {error.strerror or error}"
            ) from error
        pid, identity = self._child.pid, self._child.identity
        self.pid, self._session, self._register = pid, self._child.session, register
        try:
            if identity is None:
                raise FleetSieveError(f"the process {pid} of a server ended as soon as it started")
            log_path, started_unix_s = os.path.abspath(self.log), time.time() - self.held_s
            register.started(
                Started(pid, command, self.port, self.tp, self.gpus, log_path, {pid: identity}, started_unix_s)
            )
            self._child.send(b"go\n")  # where it was killed meanwhile, `wait_ready` shows
            self._child.close_input()
        except BaseException:
            self._child.end(0.0)
            raise

    @property
    def width(self) -> int:
        """The GPUs that it occupies: those that it was given, or its TP where the engine chooses."""
        return len(self.gpus) or self.tp

    @property
    def held_s(self) -> float:
        """Seconds from the start command until now, or until the last process was gone."""
        return (time.monotonic() if self._stopped is None else self._ended_s) - self._started_s

    @property
    def gpu_s(self) -> float:
        """GPU-seconds so far, start-up and stop included."""
        return self.held_s * self.width

    def alive(self) -> bool:
        """Whether its leading process lives; an engine that died may leave it (`failure` shows)."""
        return self._stopped is None and self._child.alive()

    def wait_ready(self, deadline_s: float | None = None, each: Callable[[], None] = lambda: None) -> Failure | None:
        """Wait until it answers, it is our own process that does, and it serves our model; `deadline_s` counts from its start.

        Default: `ready_s` of serve.toml. On a failure the server is stopped, with all that it started.

        Raises:
            FleetSieveError: when the record cannot be written; the server is stopped.
        """
        allowed_s, noted_s = self._config.ready_s if deadline_s is None else deadline_s, self.held_s
        try:
            while True:
                each()
                if not self.alive():
                    return self._failed_start(None)
                if self.endpoint.health(min(CALL_S, max(0.5, allowed_s - self.held_s))) == 200:
                    found = listeners(self.port)  # once: a busy machine has thousands of sockets
                    members = self._session.members()  # after the sockets: what was forked meanwhile is in it
                    failure = self._not_ours(found, members)
                    if failure is not None:
                        self.stop()
                        return failure
                    ours = any(pid in members for _, pid in found)
                    if ours and (served := self.endpoint.served()) is not None:
                        if self.endpoint.served_name in served:
                            break
                        self.stop()
                        return self._strange_model(served)
                if self.held_s >= allowed_s:
                    return self._failed_start(allowed_s)
                if self.held_s >= noted_s + _NOTE_S:
                    noted_s = self.held_s
                    self._note_members()
                time.sleep(_POLL_S)
            self.ready_s = self.held_s
            self._note_members()
            self._register.ready(self.pid, self.ready_s)
        except BaseException:
            self.stop(0.0)
            raise
        return None

    def reset_cache(self) -> str | None:
        """Empty the prefix cache; why it could not, None when it is empty or serve.toml asks for none."""
        if self._config.reset != PREFIX_CACHE:
            return None
        return self.endpoint.reset_cache(RESET_S, self.alive)

    def scrape(self) -> Scrape | None:
        """What its /metrics reports now."""
        return self.endpoint.scrape()

    def failure(self) -> Failure | None:
        """What has become of it since it was ready: None while it lives.

        An exit with any code is a death: vLLM ends with 0 when its engine is killed. A server that is busy and answers late lives.
        """
        if self.alive():
            status = self.endpoint.health()
            if status is None or status < 500:
                return None
            return death(None, self.log_lines(), status)
        return death(self.stop().exit_code, self.log_lines())

    def log_lines(self) -> tuple[str, ...]:
        """The last lines that it wrote."""
        return last_lines(self.log, since=self._log_start)

    def stop(self, stop_s: float | None = None) -> Stopped:
        """SIGTERM, after `stop_s` (default: of serve.toml; 0 is at once) SIGKILL to all, until its session is empty."""
        if self._stopped is None:
            began_s = time.monotonic()
            ending = self._child.end(self._config.stop_s if stop_s is None else stop_s)
            self._ended_s = time.monotonic()
            self._stopped = Stopped(ending.exit_code, ending.killed, ending.left, self._ended_s - began_s)
            if not ending.left:
                with suppress(FleetSieveError):  # a full disk: without the line, its identities tell that it is gone
                    self._register.stopped(self.pid, self.held_s)
        return self._stopped

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _failed_start(self, waited_s: float | None) -> Failure:
        code = self.stop().exit_code
        valid = valid_tps(self._config)
        return start_failure(code if waited_s is None else None, self.log_lines(), waited_s=waited_s, valid_tps=valid)

    def _note_members(self) -> None:
        """Put the processes that it has by now on record: a start takes minutes, and a run can be killed in it."""
        self._session.adopt()
        if len(self._session.known) > self._noted:
            self._register.members(self.pid, self._session.known, self.held_s)
            self._noted = len(self._session.known)

    def _not_ours(self, found: Sequence[tuple[str, int | None]], members: Collection[int]) -> Failure | None:
        """Why those `found` to listen on our port are not the `members` of our server alone; None when they are."""
        for address, pid in found:
            if pid is not None and identity_of(pid) is None:
                continue  # it is gone meanwhile
            if pid not in members:
                who = "a process of another user" if pid is None else f"process {pid} ({_name(pid)})"
                return Failure(Status.CRASHED, f"{who} answers on our port {self.port}", True, self.log_lines()[-5:])
            if not address.startswith(_LOOPBACK):
                reason = f"the server listens on {address}, open to others; it must respect --host {self._config.host}"
                return Failure(Status.FAILED_START, reason, False, self.log_lines()[-5:], About.CONFIGURATION)
        return None

    def _strange_model(self, served: Sequence[str]) -> Failure:
        reason = f"the server names {', '.join(served) or 'no model'}, not {self.endpoint.served_name}"
        return Failure(Status.FAILED_START, reason, False, self.log_lines()[-5:], About.CONFIGURATION)


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "gone by now"

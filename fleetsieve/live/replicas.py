"""The servers of a live run: at most so many at once, each kept up while cells of its TP follow, and what they cost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fleetsieve.errors import FleetSieveError
from fleetsieve.keys import ServerKey
from fleetsieve.live.serving.config import ServeConfig
from fleetsieve.live.serving.endpoint import Endpoint
from fleetsieve.live.serving.external import ExternalServer
from fleetsieve.live.serving.failures import Failure
from fleetsieve.live.serving.gpus import FREE_SHARE, GpuMemory, occupied, pick, read_memory, refuse_same, wait_freed
from fleetsieve.live.serving.locks import Locks
from fleetsieve.live.serving.register import GpuSeconds, Register, held_gpu_s, stop_orphans
from fleetsieve.live.serving.replica import Replica
from fleetsieve.live.serving.server import Server

LOGS = "logs"
FREED_S = 60.0
"""How long a driver may take to give the memory of a stopped server back."""

SHOWN_GPU_S = 1.0
"""Less than this is not worth a word."""


class Replicas:
    """At most `most` servers at once, of `config` or those at `endpoints` (by TP), which are measured and left as they are.

    `run` is the run's folder: it gets the record of the servers and, in logs/, what they write. `paid` gives what the rows that
    the run has already were charged with (None: it is measured by hand); it is asked at the first charge. What servers held
    beyond that, of a process that was killed or interrupted, is charged with the next row. `tell` is called with what a person
    should know.
    Used as a context: whatever happens inside, no server is left.

    Raises:
        UsageError: when a GPU is another run's, or is not there.
    """

    def __init__(
        self,
        config: ServeConfig,
        run: Path,
        *,
        endpoints: Mapping[int, str] | None = None,
        most: int = 1,
        paid: Callable[[], GpuSeconds] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._config, self._run, self._most, self.tell = config, run, most, tell
        self._endpoints = {tp: Endpoint(url, config.served_name) for tp, url in (endpoints or {}).items()}
        self._register = Register(run, by_hand=paid is None)
        self._up: list[Replica] = []
        self._busy: set[int] = set()
        self._charged: dict[int, float] = {}
        self._uncharged_gpu_s = 0.0
        self._held_before, self._paid = held_gpu_s(run), paid
        self._memory: dict[str, GpuMemory] = {}
        self._changing = threading.RLock()
        self._locks = Locks(run)
        try:
            if config.gpus and not self._endpoints:
                self._locks.hold_gpus(config.gpus)
                self._memory = read_memory(config.gpus) or {}
                refuse_same(self._memory)
        except BaseException:
            self._locks.close()
            raise

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        left_gpu_s = self.close()
        if left_gpu_s >= SHOWN_GPU_S:
            self.tell(f"{left_gpu_s:,.0f} GPU-seconds more, until the last server was gone, stand in no row")

    @property
    def most(self) -> int:
        """Servers at once."""
        return self._most

    def fits(self, tps: Sequence[int]) -> bool:
        """Whether servers of these TPs can be busy at once."""
        if len(tps) > self._most:
            return False
        if self._endpoints:
            return len(set(tps)) == len(tps)
        return not self._config.gpus or sum(tps) <= len(self._config.gpus)

    def take(self, server: ServerKey, each: Callable[[], None] = lambda: None) -> Replica | Failure:
        """A server of this TP and variant, started where none is up; it is this caller's until `give_back`.

        `each` is called while it is waited for. What the start cost is charged to the next `charge`, also when it failed.

        Raises:
            UsageError: when such a server cannot be started at all.
        """
        with self._changing:
            for replica in self._up:
                if (replica.tp, replica.variant) == (server.tp, server.variant) and id(replica) not in self._busy:
                    self._busy.add(id(replica))
                    return replica
            while len(self._up) >= self._most or not self.fits([*(replica.tp for replica in self._up), server.tp]):
                self.drop(next(replica for replica in self._up if id(replica) not in self._busy))
            replica = self._started(server)
            self._up.append(replica)
            self._busy.add(id(replica))
            self._charged[id(replica)] = 0.0
        try:
            failure = replica.wait_ready(each=each)
        except BaseException:
            self.drop(replica, at_once=True)
            raise
        if failure is not None:
            self.drop(replica)
            return replace(failure, log=str(replica.log)) if isinstance(replica, Server) else failure
        return replica

    def give_back(self, replica: Replica) -> None:
        """The caller measures it no more; it stays up for the next cell of its TP."""
        with self._changing:
            self._busy.discard(id(replica))

    def drop(self, replica: Replica, *, at_once: bool = False) -> None:
        """Stop a server (idempotent)."""
        with self._changing:
            if replica not in self._up:
                return
            self._up.remove(replica)
            self._busy.discard(id(replica))
            try:
                stopped = replica.stop(0.0 if at_once else None)
            except KeyboardInterrupt:  # the second Ctrl-C
                replica.stop(0.0)
                raise
            finally:
                self._uncharged_gpu_s += replica.gpu_s - self._charged.pop(id(replica), 0.0)
                if isinstance(replica, Server):
                    self._locks.release_port(replica.port)
            if stopped.left:
                self.tell(f"processes of a server could not be stopped: {', '.join(map(str, stopped.left))}")
            if isinstance(replica, Server) and not at_once:
                for sentence in wait_freed({g: self._memory[g] for g in replica.gpus if g in self._memory}, FREED_S):
                    self.tell(sentence)

    def charge(self, replica: Replica | None) -> float:
        """GPU-seconds of `replica` since they were charged last, those of servers that ended since, and what was owed before."""
        with self._changing:
            owed_gpu_s = self._owed_gpu_s()
            if owed_gpu_s >= SHOWN_GPU_S:
                text = "that servers held before the run went on, in no row until now, are in the cost of this one"
                self.tell(f"{owed_gpu_s:,.0f} GPU-seconds {text}")
            return owed_gpu_s + self._spent_gpu_s(replica)

    def _owed_gpu_s(self) -> float:
        """What servers held before, in no row yet; 0 from the second time on."""
        paid, self._paid = self._paid, None
        return 0.0 if paid is None else self._held_before.beyond(paid())

    def _spent_gpu_s(self, replica: Replica | None) -> float:
        spent, self._uncharged_gpu_s = self._uncharged_gpu_s, 0.0
        if replica is not None and id(replica) in self._charged:
            now = replica.gpu_s
            spent += now - self._charged[id(replica)]
            self._charged[id(replica)] = now
        return spent

    def close(self, *, at_once: bool = False) -> float:
        """Stop every server; gives the GPU-seconds that no row was charged with."""
        try:
            for replica in tuple(self._up):
                self.drop(replica, at_once=at_once)
        finally:
            for replica in tuple(self._up):
                with suppress(Exception):
                    replica.stop(0.0)
            self._up.clear()
            with suppress(FleetSieveError):  # a full disk
                stop_orphans(self._run, 0.0)  # one that an interrupt kept from the list above
            self._locks.close()
        return self._owed_gpu_s() + self._spent_gpu_s(None)

    def _started(self, server: ServerKey) -> Replica:
        tp = server.tp
        if self._endpoints:
            return ExternalServer(self._endpoints[tp], tp, reset=self._config.reset)
        in_use = {gpu for replica in self._up if isinstance(replica, Server) for gpu in replica.gpus}
        gpus = pick(self._config.gpus, tp, in_use) or () if self._config.gpus else ()
        if self._memory:
            now = read_memory(gpus) or {}
            for sentence in occupied(now, FREE_SHARE):
                self.tell(sentence)
            self._memory.update(now)
        port = self._locks.free_port(self._config.host, self._config.ports)
        logs = self._run / LOGS
        logs.mkdir(exist_ok=True)
        try:
            return Server.start(self._config, server, gpus, port, self._log(logs, tp), self._register)
        except BaseException:
            self._locks.release_port(port)
            raise

    @staticmethod
    def _log(logs: Path, tp: int) -> Path:
        number = 1 + sum(1 for _ in logs.glob(f"server-tp{tp}-*.log"))
        return logs / f"server-tp{tp}-{number}.log"

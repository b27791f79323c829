"""Measures cells on live servers: one server of the right TP, the class's load on it, the requests of the window, and the cost.

A measurement: a server (kept from the cell before where the TP is the same), its prefix cache emptied, the load sent, the
server's own counters held against what the client saw, the requests written to records/, and the row. Whatever goes wrong is a
row too, with its status and its reason. The GPU-seconds of a row run from the end of the row before, so starts and stops of
servers are in it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from weakref import WeakSet

from fleetsieve.bounds.statistics import why_not_counted
from fleetsieve.bounds.statistics.counting import HELD_LOOP
from fleetsieve.errors import FleetSieveError
from fleetsieve.files import RECORDS, record_name, write_records
from fleetsieve.instance import Cell, CellKey, Instance, LoadKind, Measurement, Status
from fleetsieve.live.beside import Load, disturbance
from fleetsieve.live.load import warnings
from fleetsieve.live.load.outcome import measured
from fleetsieve.live.load.protocol import Flow, GeneratorEnding, LoadGenerator, Sent
from fleetsieve.live.load.schedule import Schedule, Source, closed_loop, look_seed, open_loop
from fleetsieve.live.load.unrecorded import why_unrecorded
from fleetsieve.live.replicas import Replicas
from fleetsieve.live.serving.external import ExternalServer
from fleetsieve.live.serving.failures import Failure
from fleetsieve.live.serving.metrics import (
    HIT_SHARE,
    ClientMeans,
    ServerDeltas,
    contradictions,
    deltas,
    mean_differences,
)
from fleetsieve.live.serving.register import servers
from fleetsieve.live.serving.replica import Replica
from fleetsieve.live.serving.starts import Starts
from fleetsieve.loop.cost import expected_window_s

LOAD = "load"
GENERATOR_START_S = 180.0
"""How long a load generator may take to send its first request and to write its last record."""

ASK_EVERY_S = 5.0
"""How often the server is asked whether it is well, and for the requests in flight."""

LAST_ASKED_S = 1.0
"""So long before its deadline it is asked at every turn: what it holds when the load generator is ended, that generator sent."""

HOPELESS_AFTER = 50
"""Requests that may fail, with none that succeeds, before the rest is not sent."""

SPOILED_TRIES = 2
"""How often a measurement is made again of which the client did not hold the load."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What a live measurement is doing: "start", "load" or "done", for how long, of how many seconds that are expected (None:
    unknown).

    `in_flight` are the requests in the server as it reported last; `notes` the warnings about a measurement that is done.
    """

    key: CellKey
    name: str
    elapsed_s: float
    expected_s: float | None = None
    flow: Flow | None = None
    in_flight: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sending:
    """How load is sent: the generator, where each class's requests come from, and the limits of a request and of a measurement.

    `token_ids` are the first id of prompts and the one after the last. `run_deadline_s` None follows from the window.
    `fresh_warmup_s` is added to the warm-up of the first look at a server: what it does for the first time takes it longer.
    """

    generator: LoadGenerator
    sources: Mapping[str, Source]
    token_ids: tuple[int, int]
    request_timeout_s: float = 60.0
    run_deadline_s: float | None = None
    fresh_warmup_s: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Spoiled:
    """A measurement of which the client did not hold the load, and why: nothing of it counts."""

    why: str


class Cancelled(FleetSieveError):
    """A measurement that was ended from outside; nothing of it counts."""


class Live:
    """A probe of live servers; `cells` are those that it can measure, `measured` the rows that the run has already.

    `way_on` is the command that continues when an error has ended the run, for messages.
    """

    def __init__(
        self,
        instance: Instance,
        replicas: Replicas,
        sending: Sending,
        run: Path,
        *,
        cells: Iterable[Cell],
        measured: Iterable[Measurement] = (),
        tell: Callable[[Phase], None] = lambda _: None,
        way_on: str = "fleetsieve run RUN --resume",
    ) -> None:
        self._instance, self._replicas, self._sending, self._run, self._tell = instance, replicas, sending, run, tell
        self._cells, self._way_on = tuple(cells), way_on
        ever_ready = any(server.ready_s is not None for server in servers(run))
        self._starts = Starts(ever_ready=ever_ready, tell=replicas.tell)
        self._cancelled = threading.Event()
        self._silent_looks = 0
        self._loads: list[Load] = []
        self._warm: WeakSet[Replica] = WeakSet()
        self._taken = {(row.key, row.seed) for row in measured}

    @property
    def most(self) -> int:
        """Cells at once: as many as servers."""
        return self._replicas.most

    def fits(self, keys: Sequence[CellKey]) -> bool:
        """Whether there are servers and GPUs for these cells at once."""
        return self._replicas.fits([key.tp for key in keys])

    def cancel(self) -> None:
        """End the measurements under way: their `measure` raises `Cancelled`."""
        self._cancelled.set()

    @property
    def looks(self) -> Mapping[CellKey, int]:
        """As often as the instance allows, for each cell that can be measured."""
        return dict.fromkeys((cell.key for cell in self._cells), self._instance.measure.max_looks)

    def measure(self, key: CellKey, look: int) -> Measurement:
        """The `look`-th measurement of a cell, from 0. Its requests are on disk when this returns.

        Raises:
            UsageError: when the cell's load or server cannot be what the files state, or a server refuses its configuration.
            EngineMissing: when the command of a server cannot be run.
        """
        cell = self._instance.cell_by_key[key]
        row = Measurement(key, self._free_seed(key, look), started_at=datetime.now(UTC).isoformat(timespec="seconds"))
        began_s = time.monotonic()

        def starting() -> None:
            self._go_on()
            self._tell(Phase(key, "start", time.monotonic() - began_s, self._instance.measure.startup_s or None))

        replica = self._starts.started(key.server, lambda: self._replicas.take(key.server, starting), self._way_on)
        if isinstance(replica, Failure):
            row = _failed(row, replica)
        else:
            try:
                row = self._held(cell, replica, row)
            finally:
                self._replicas.give_back(replica)
        charged = self._replicas.charge(None if isinstance(replica, Failure) else replica)
        return replace(row, cost_gpu_s=charged)

    def schedule(self, cell: Cell, seed: int, fresh: bool = False) -> Schedule:
        """What the measurement with the seed `seed` at a cell sends, to a `fresh` server or to one that has been measured.

        Raises:
            UsageError: when the cell has no load that can be sent.
        """
        settings, source = self._instance.measure, self._sending.sources[cell.key.class_name]
        drawn = look_seed(self._sending.seed, cell.key, seed)
        window_s = expected_window_s(settings, cell)
        warmup_s = settings.warmup_s + (self._sending.fresh_warmup_s if fresh else 0.0)
        if cell.load_kind is LoadKind.RATE:
            return open_loop(
                source,
                cell.offered or 0.0,
                warmup_s=warmup_s,
                window_s=window_s,
                cooldown_s=self._sending.request_timeout_s,
                seed=drawn,
                token_ids=self._sending.token_ids,
            )
        return closed_loop(
            source,
            round(cell.offered or 0.0),
            warmup_s=warmup_s,
            window_s=window_s,
            seed=drawn,
            token_ids=self._sending.token_ids,
            min_requests=settings.min_requests,
            max_window_s=settings.max_window_s,
        )

    def _go_on(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled("the measurement was cancelled")

    def _free_seed(self, key: CellKey, look: int) -> int:
        """The first seed from `look` on that neither a row nor a file has.

        A measurement that was cut short leaves its place in load/ and perhaps its requests in records/: its prompts may be in the
        cache of a server that lives on, so they are not sent again.
        """
        seed = look
        while (key, seed) in self._taken or self._was_cut_short(key, seed):
            seed += 1
        self._taken.add((key, seed))
        return seed

    def _was_cut_short(self, key: CellKey, seed: int) -> bool:
        files = self._files(key, seed)
        if files.is_dir():
            shutil.rmtree(files, ignore_errors=True)
            files.mkdir(exist_ok=True)  # what was sent is of no use, that it was sent is
            return True
        return (self._run / RECORDS / record_name(key, seed)).exists()

    def _files(self, key: CellKey, seed: int) -> Path:
        """Where the load generator of a measurement works."""
        return self._run / LOAD / record_name(key, seed).removesuffix(".csv.gz")

    def _held(self, cell: Cell, replica: Replica, row: Measurement) -> Measurement:
        """The first measurement whose load the client held, each with its own prompts; after SPOILED_TRIES the next as it is."""
        spoiled: list[str] = []
        while True:
            made = self._look(cell, replica, row, may_be_again=len(spoiled) < SPOILED_TRIES)
            if isinstance(made, Measurement):
                break
            spoiled.append(made.why)
            row = replace(row, seed=self._free_seed(cell.key, row.seed + 1))
        if not spoiled:
            return made
        times = "once" if len(spoiled) == 1 else f"{len(spoiled)} times"
        return replace(made, source=f"{made.source}; repeated {times}: {spoiled[-1]}")

    def _look(self, cell: Cell, replica: Replica, row: Measurement, *, may_be_again: bool) -> Measurement | Spoiled:
        notes = [] if (why := replica.reset_cache()) is None else [f"the prefix cache was not emptied: {why}"]
        schedule = self.schedule(cell, row.seed, fresh=replica not in self._warm)
        longest_s = schedule.warmup_s + max(schedule.window_s, schedule.max_window_s or 0.0)
        deadline_s = self._sending.run_deadline_s or longest_s + self._sending.request_timeout_s + GENERATOR_START_S
        files = self._files(cell.key, row.seed)

        asked_s, in_flight, ill = 0.0, None, False

        def watch(flow: Flow) -> bool:
            nonlocal asked_s, in_flight, ill
            if flow.elapsed_s - asked_s >= ASK_EVERY_S or flow.elapsed_s >= deadline_s - LAST_ASKED_S:
                asked_s = flow.elapsed_s
                ill = (replica.endpoint.health() or 0) >= 500
                scraped = replica.scrape()
                in_flight = (
                    sum(number for number, _ in scraped.in_flight)
                    if scraped is not None and scraped.in_flight
                    else None
                )
            self._tell(Phase(cell.key, "load", flow.elapsed_s, longest_s, flow, in_flight))
            hopeless = flow.ended >= HOPELESS_AFTER and not flow.succeeded
            return hopeless or ill or self._cancelled.is_set() or not replica.alive()

        before = replica.scrape()
        with self._loading(cell.key) as load:
            sent = self._sending.generator.send(
                schedule, replica.endpoint.url, replica.endpoint.served_name, files, deadline_s, watch
            )
        self._go_on()
        after = replica.scrape()
        counted, others = deltas(before, after), isinstance(replica, ExternalServer)
        failure = replica.failure()
        never = self._never_sent(sent, failure, files, reached=not others and bool(counted.requests))
        row = measured(row, sent)
        refused, by_client = never, bool(never)
        if failure is None and not never:
            self._warm.add(replica)
            silent = before is not None and after is None  # it lives, and answers nothing
            lost = "" if silent else why_unrecorded(sent, in_flight or 0.0)
            refused, by_client = (lost, True) if lost else self._refused(cell, row, sent)
            if not refused and not others and (contradicted := self._contradictions(cell, sent, counted)):
                refused, by_client = "; ".join(contradicted), True
        if by_client and (may_be_again or never):
            self._tell(Phase(cell.key, "done", sent.wall_s, notes=(f"repeated with other prompts: {refused}",)))
            return Spoiled(refused)
        if any(request.sent_at_s < sent.window_s for request in sent.rows):
            write_records(self._run, cell.key, row.seed, sent.rows)
        notes += [*sent.warnings, *_disagreements(sent, counted)]
        if others and self._contradictions(cell, sent, counted):
            notes.append("others may use that endpoint too, so this measurement still counts")
        if beside := disturbance(sent, load, self._loads):
            notes.append(beside)
        how = f"{self._sending.generator.name}, {schedule.origin}"
        if failure is not None:
            self._replicas.drop(replica)
            row = _failed(row, failure)
        elif counted.prefix_hit_share is not None and counted.prefix_hit_share > HIT_SHARE:
            why = "not valid: prompts came from the prefix cache (another --seed gives others)"
            row = replace(row, status=Status.REJECTED, source=f"{how}; {why}")
        elif refused:
            row = replace(row, status=Status.REJECTED, source=f"{how}; not valid: {refused}")
        else:
            reasons = "; ".join(f"{count} x {reason}" for reason, count in list(sent.failures.items())[:3])
            row = replace(row, source="; ".join(filter(None, [how, reasons and f"failed requests: {reasons}"])))
        if row.status is Status.TIMEOUT:
            self._replicas.drop(replica)  # it may be stuck with these requests: whoever is next gets another
        if notes:
            row = replace(row, source=f"{row.source}; warning: {'; '.join(notes)}")
        elif row.status is Status.OK:
            shutil.rmtree(files, ignore_errors=True)  # what remains of value is in records/
        self._tell(Phase(cell.key, "done", sent.wall_s, notes=tuple(notes)))
        return row

    def _refused(self, cell: Cell, row: Measurement, sent: Sent) -> tuple[str, bool]:
        """Why a measurement does not count, "" when it does; and whether that is the client's doing: another try may be better.

        Answers of another length are the server's doing; so are places of a closed loop that stay empty because requests fail,
        where so many failed that they would have filled them.
        """
        workload = self._instance.class_by_name[cell.key.class_name]
        why = sent.unheld if row.status is Status.OK else ""
        why = why or why_not_counted(cell, row, workload)
        if cell.load_kind is LoadKind.CONCURRENCY and sent.in_flight is not None and row.status is Status.OK:
            places = cell.offered or 0.0
            filled = sent.in_flight + warnings.places_of_failures(sent.rows, sent.window_s)
            not_held = f"the load was not held: {sent.in_flight:.3g} requests were in flight, of {places:g}"
            return (why, False) if filled >= HELD_LOOP * places else (why or not_held, True)
        if not why or row.records is None:
            return why, False
        any_length = replace(row, records=replace(row.records, output_tokens=None))
        return why, bool(sent.unheld or why_not_counted(cell, any_length, workload))

    def _contradictions(self, cell: Cell, sent: Sent, counted: ServerDeltas) -> list[str]:
        slo = self._instance.class_by_name[cell.key.class_name].slo
        return contradictions(_client(sent), counted, slo.max_ttft_p99_s, slo.max_e2e_p99_s)

    def _never_sent(self, sent: Sent, failure: Failure | None, files: Path, *, reached: bool) -> str:
        """Why nothing was sent, "" where something was; `reached`: requests reached the server, recorded or not.

        That shows nothing about a cell. A load generator that fails so again ends the run: no cell can be measured with it.
        """
        silent = (
            sent.ending is GeneratorEnding.FAILED and sent.started_unix_s is None and failure is None and not reached
        )
        self._silent_looks = self._silent_looks + 1 if silent else 0
        if self._silent_looks > 1:
            words = f": {sent.last_lines[-1].strip()[:200]}" if sent.last_lines else ""
            raise FleetSieveError(
                f"the load generator failed twice in a row before it sent a request{words}",
                f"its log is in {files}; fix the cause, then continue with: {self._way_on}",
            )
        return f"the load generator failed before it sent a request (exit code {sent.exit_code})" if silent else ""

    @contextmanager
    def _loading(self, key: CellKey) -> Iterator[Load]:
        """Remembers when load was on a server, for those that are measured beside it."""
        load = Load(key, time.time())
        self._loads.append(load)
        try:
            yield load
        finally:
            load.until_unix_s = time.time()


def _failed(row: Measurement, failure: Failure) -> Measurement:
    return replace(row, status=failure.status, source=failure.reason)


def _disagreements(sent: Sent, counted: ServerDeltas) -> list[str]:
    """What client and server disagree on."""
    return mean_differences(_client(sent), counted) if sent.heard.succeeded else []


def _client(sent: Sent) -> ClientMeans:
    heard = sent.heard
    return ClientMeans(heard.succeeded, heard.ttft_mean_s, heard.e2e_mean_s, heard.unheard, heard.recorded)

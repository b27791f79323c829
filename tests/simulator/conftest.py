"""Ways to put a server under load, and the bundled simulations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

import pytest
from small_machine import ENGINE, INSTANCES, machine

from fleetsieve.simulator import Simulation, read_spec
from fleetsieve.simulator.batching import Request, Served, SimulatedServer
from fleetsieve.simulator.hardware import EngineSpec, ReplicaSpec

Serve = Callable[..., tuple[Served, list[Request]]]


@pytest.fixture
def serve() -> Serve:
    """Run a server; gives what it served and the requests sent inside the window [10 s, 10 s + window_s)."""

    def run(
        sends: list[float],
        lengths: object = (200, 100),
        *,
        on: ReplicaSpec | None = None,
        engine: EngineSpec = ENGINE,
        closed: bool = False,
        window_s: float = 200.0,
        timeout_s: float = 1e4,
        kind: type[SimulatedServer] = SimulatedServer,
    ) -> tuple[Served, list[Request]]:
        stream = repeat(lengths) if isinstance(lengths, tuple) else lengths
        server = kind(
            on or machine(engine=engine),
            engine,
            sends,
            iter(stream),  # type: ignore[call-overload]
            closed=closed,
            window_start_s=10.0,
            window_end_s=10.0 + window_s,
            timeout_s=timeout_s,
        )
        served = server.run()
        return served, [r for r in served.requests if 10.0 <= r.sent_s < 10.0 + window_s]

    return run


@pytest.fixture(scope="session")
def chat_code() -> Simulation:
    return read_spec(INSTANCES / "sim-chat-code-16gpu")


@pytest.fixture(scope="session")
def four_class() -> Simulation:
    return read_spec(INSTANCES / "sim-four-class-64gpu")

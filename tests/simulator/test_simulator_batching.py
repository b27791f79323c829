"""Laws that any server with a queue obeys, and what the scheduler promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from small_machine import ENGINE, machine

from fleetsieve.errors import UsageError
from fleetsieve.simulator.batching import Request, Served, SimulatedServer
from fleetsieve.simulator.traffic import Lengths, length_pairs, segment_arrivals

Serve = Callable[..., tuple[Served, list[Request]]]
MIXED = (Lengths(300, 0.8, 8, 2000), Lengths(80, 0.8, 1, 400))


def mixed(seed: int = 0) -> object:
    rng = np.random.default_rng(seed)
    return length_pairs(*MIXED, rng, rng)


def bursty(rate: float, until: float = 260.0, cv: float = 2.0, seed: int = 1) -> list[float]:
    return segment_arrivals(np.random.default_rng(seed), 0.0, until, rate, cv)


def e2e(requests: list[Request]) -> list[float]:
    return [r.ended_s - r.sent_s for r in requests if r.ended_s is not None]


class StepByStep(SimulatedServer):
    """The same server, one iteration at a time."""

    def _decode(self, *, one: bool) -> None:
        super()._decode(one=True)


def test_a_lone_request_takes_its_iterations(serve: Serve) -> None:
    on = machine()
    _, (request,) = serve([20.0], (1500, 50), on=on)
    prefill = on.iteration_s(1024, 1, 0, 0.0) + on.iteration_s(476, 1, 1024, 0.0)
    decode = sum(on.iteration_s(1, 1, 1500 + j) for j in range(1, 50))
    assert request.first_token_s == pytest.approx(20.0 + prefill)
    assert request.ended_s == pytest.approx(20.0 + prefill + decode)


@pytest.mark.parametrize("policy", ["recompute", "reserve"])
@pytest.mark.parametrize("kv_tokens", [None, 6000])
@pytest.mark.parametrize("closed", [False, True])
def test_skipping_ahead_changes_nothing(serve: Serve, policy: str, kv_tokens: int | None, closed: bool) -> None:
    engine = replace(ENGINE, kv_policy=policy)
    on = machine(engine=engine, kv_tokens=kv_tokens)
    sends = [0.0] * 40 if closed else bursty(5.0, 110.0)
    runs = [
        serve(sends, mixed(), on=on, engine=engine, closed=closed, window_s=60.0, timeout_s=15.0, kind=kind)
        for kind in (SimulatedServer, StepByStep)
    ]
    (fast, fast_requests), (slow, slow_requests) = runs
    assert fast.preemptions == slow.preemptions
    assert [r.status for r in fast_requests] == [r.status for r in slow_requests]
    assert e2e(fast_requests) == pytest.approx(e2e(slow_requests), abs=1e-6)


def test_littles_law_in_a_closed_loop(serve: Serve) -> None:
    _, requests = serve([0.0] * 24, mixed(), closed=True, window_s=400.0)
    assert len(requests) / 400.0 * np.mean(e2e(requests)) == pytest.approx(24, rel=0.03)


def test_wait_of_a_single_server_matches_pollaczek_and_khinchine(serve: Serve) -> None:
    """M/D/1: mean wait ρ s / (2 (1 - ρ)) with service time s and utilisation ρ."""
    engine = replace(ENGINE, max_num_seqs=1)
    _, (alone,) = serve([20.0], (100, 20), engine=engine)
    service = e2e([alone])[0]
    window = 40_000 * service
    sends = bursty(0.7 / service, window + 10.0, cv=1.0, seed=3)
    _, requests = serve(sends, (100, 20), engine=engine, window_s=window)
    waits = np.array(e2e(requests)) - service
    assert waits.mean() == pytest.approx(0.7 * service / (2 * 0.3), rel=0.08)
    assert waits.min() == pytest.approx(0.0, abs=1e-9)


def test_no_wait_when_arrivals_are_even_and_slower_than_service(serve: Serve) -> None:
    engine = replace(ENGINE, max_num_seqs=1)
    _, (alone,) = serve([20.0], (100, 20), engine=engine)
    service = e2e([alone])[0]
    _, requests = serve(bursty(0.9 / service, cv=0.0), (100, 20), engine=engine)
    assert max(e2e(requests)) == pytest.approx(service)


@pytest.mark.parametrize("policy", ["recompute", "reserve"])
def test_the_kv_cache_and_the_batch_never_overflow(serve: Serve, policy: str) -> None:
    engine = replace(ENGINE, kv_policy=policy, max_num_seqs=20)
    served, requests = serve([0.0] * 30, mixed(), on=machine(engine=engine, kv_tokens=5000), engine=engine, closed=True)
    assert served.peak_kv_tokens <= 5000
    assert served.peak_sequences <= 20
    assert (served.preemptions > 0) == (policy == "recompute")
    assert {r.status for r in requests} == {"ok"}


def test_every_token_is_produced_in_spite_of_evictions(serve: Serve) -> None:
    served, _ = serve([0.0] * 30, mixed(), on=machine(kv_tokens=3000), closed=True)
    ended = [r for r in served.requests if r.status == "ok"]
    assert served.preemptions > 0
    assert all(r.generated == r.output_tokens for r in ended)


def test_nothing_stays_unfinished_and_nobody_is_kept_past_the_timeout(serve: Serve) -> None:
    served, requests = serve(bursty(12.0), mixed(), timeout_s=8.0)
    counts = {status: sum(r.status == status for r in requests) for status in ("ok", "timeout", "")}
    assert counts["ok"] + counts["timeout"] == len(requests)
    assert min(counts["ok"], counts["timeout"]) > 0
    longest_iteration = machine().iteration_s(1024, 64, 64 * 2400)
    assert max(e2e(requests)) <= 8.0 + 2 * longest_iteration
    assert served.ended_at_s <= 210.0 + 8.0 + 2 * longest_iteration


def test_first_come_first_served(serve: Serve) -> None:
    _, requests = serve(bursty(8.0), (200, 50))
    firsts = [r.first_token_s for r in requests if r.first_token_s is not None]
    assert firsts == sorted(firsts)


def test_a_request_longer_than_the_cache_is_told(serve: Serve) -> None:
    with pytest.raises(UsageError, match=r"200 \+ 100 tokens cannot fit a KV cache of 250"):
        serve([20.0], on=machine(kv_tokens=250))


def test_an_idle_server_ends() -> None:
    server = SimulatedServer(
        machine(), ENGINE, [], iter(()), closed=False, window_start_s=0.0, window_end_s=9.0, timeout_s=1.0
    )
    assert server.run().requests == []

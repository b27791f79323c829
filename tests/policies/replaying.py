"""Whole replays of a policy on a table, and the state before one choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from strategies import Situation as Drawn

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.standing import candidates
from fleetsieve.certificate import certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.instance import CellKey, Instance, Measurement, Reading
from fleetsieve.loop.cost import cost_gpu_s
from fleetsieve.loop.policies import Choice, Situation, policy_named
from fleetsieve.loop.sieve import Sieve
from fleetsieve.probes import Replay
from fleetsieve.studies.judging import engine_of


def replayed(instance: Instance, table: Sequence[Measurement], policy: str, seed: int = 0) -> Sieve:
    """The finished run; no run may be longer than its table."""
    probe = Replay(table)
    engine = engine_of(Envelope.of(instance))
    sieve = Sieve.start(instance, policy=policy_named(policy), engine=engine, seed=seed, looks=probe.looks)
    while not sieve.finished:
        asked = sieve.ask()
        assert asked.key in sieve.candidates
        assert set(asked.scores) in (set(), set(sieve.candidates))
        sieve = sieve.tell(probe.measure(asked.key, asked.look))
    assert len(sieve.measurements) <= len(table)
    return sieve


def exact_table(drawn: Drawn) -> tuple[Measurement, ...]:
    """The truth of a drawn situation as one exact row a cell; a capacity of 0 as hardly any, which a success can show."""
    truth = drawn.truth
    return tuple(
        Measurement(key, throughput_rps=Reading(c or 1e-12), ttft_p99_s=Reading(0.5 if truth.usable[key] else 2.0))
        for key, c in truth.capacity_rps.items()
    )


def situation(
    instance: Instance, rows: Iterable[Measurement] = (), costs: dict[CellKey, float] | None = None
) -> Situation:
    """What a policy sees after these rows; `costs` replaces the GPU-seconds of some candidates."""
    envelope = Envelope.of(instance, rows)
    waiting = candidates(envelope)
    expected = {key: cost_gpu_s(instance, instance.cell_by_key[key], None) for key in waiting}
    return Situation(envelope, certify(envelope, Frontier()), waiting, expected | (costs or {}), 0, 0)


def choice(policy: str, asked: Situation) -> Choice:
    """What a policy answers, twice the same."""
    first = policy_named(policy).choose(asked)
    assert first == policy_named(policy).choose(asked)
    assert first.key in asked.candidates
    return first


def demanding(instance: Instance, factor: float) -> Instance:
    """The same fleet with other demands."""
    return replace(instance, classes=tuple(replace(c, demand_rps=factor * c.demand_rps) for c in instance.classes))

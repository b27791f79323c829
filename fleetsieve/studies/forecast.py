"""What a run may cost before anything is measured: simulated runs, each on draws from the belief."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from fleetsieve.bounds.statistics import KnownCell
from fleetsieve.instance import CellKey, Measurement, Reading
from fleetsieve.interval import Interval
from fleetsieve.loop.policies.lookahead import Lookahead
from fleetsieve.loop.sieve import Sieve
from fleetsieve.loop.steps import OneByOne, steps

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
MAX_MEASUREMENTS = 200


def forecast_gpu_s(start: Sieve, draws: int, seed: int = 0) -> tuple[float, ...]:
    """GPU-seconds of `draws` simulated runs from the state `start` to their end, the cheapest first.

    Each measurement gives one of the outcomes that the policies weigh, drawn with its probability and taken as exact. The belief
    before any measurement is weak, so the result is an order of magnitude.
    """
    exact = replace(start, instance=replace(start.instance, noise={}))
    return tuple(sorted(_simulated(exact, np.random.default_rng([seed, draw])) for draw in range(draws)))


def _simulated(sieve: Sieve, generator: np.random.Generator) -> float:
    """The GPU-seconds of one run whose measurements the belief draws."""

    def measure(key: CellKey, look: int) -> Measurement:
        c = sieve.certificate
        lookahead = Lookahead(sieve.envelope, c.eta, c.epsilon, sieve.prior)
        outcomes = list(lookahead.belief(key.class_name).outcomes(sieve.envelope[key], QUANTILES))
        weights = np.array([outcome.probability for outcome in outcomes])
        drawn = outcomes[int(generator.choice(len(outcomes), p=weights / weights.sum()))]
        return _measured(key, look, drawn.known)

    for step in islice(steps(sieve, OneByOne(measure)), max(0, MAX_MEASUREMENTS - len(sieve.measurements))):
        sieve = step.sieve
    return sieve.spent_gpu_s


def _measured(key: CellKey, look: int, known: KnownCell) -> Measurement:
    def value(interval: Interval | None) -> Reading:
        return Reading() if interval is None else Reading((interval.lo + interval.hi) / 2.0)

    tails: Mapping[str, Reading] = {m: value(known.tail_s(m)) for m in ("ttft", "e2e", "tpot")}
    return Measurement(
        key,
        look,
        throughput_rps=value(known.capacity_rps),
        success_rate=Reading(1.0),
        ttft_p99_s=tails["ttft"],
        e2e_p99_s=tails["e2e"],
        tpot_p99_s=tails["tpot"],
    )

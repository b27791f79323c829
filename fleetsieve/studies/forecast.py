"""What a run may cost before anything was measured: runs on what the belief imagines, drawn anew for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fleetsieve.bounds.statistics import KnownCell
from fleetsieve.instance import CellKey, Measurement, Reading
from fleetsieve.interval import Interval
from fleetsieve.loop.policies.lookahead import Lookahead
from fleetsieve.loop.sieve import Sieve

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
MOST_LOOKS = 200


def forecast_gpu_s(start: Sieve, draws: int, seed: int = 0) -> tuple[float, ...]:
    """GPU-seconds of `draws` imagined runs from the state `start` to their end, the cheapest first.

    Each look shows one of the outcomes that the policies weigh, drawn with its probability and taken as exact. The belief before
    any measurement is weak, so this tells an order of magnitude.
    """
    exact = replace(start, instance=replace(start.instance, noise={}))
    return tuple(sorted(_imagined(exact, np.random.default_rng([seed, draw])) for draw in range(draws)))


def _imagined(sieve: Sieve, generator: np.random.Generator) -> float:
    while not sieve.finished and len(sieve.measurements) < MOST_LOOKS:
        asked = sieve.ask()
        c = sieve.certificate
        look = Lookahead(sieve.envelope, c.eta, c.epsilon, sieve.prior)
        outcomes = list(look.belief(asked.key.class_name).outcomes(sieve.envelope[asked.key], QUANTILES))
        weights = np.array([outcome.probability for outcome in outcomes])
        chosen = outcomes[int(generator.choice(len(outcomes), p=weights / weights.sum()))]
        sieve = sieve.tell(_shown(asked.key, asked.look, chosen.known))
    return sieve.spent_gpu_s


def _shown(key: CellKey, look: int, known: KnownCell) -> Measurement:
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

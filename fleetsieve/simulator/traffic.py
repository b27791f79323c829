"""Who asks for what, and when: token lengths, open-loop arrivals, seeds.

Arrivals are a renewal process with Gamma gaps of a given coefficient of variation (the "burstiness" of vLLM's
benchmark is 1 / cv²). As that benchmark does, the gaps are rescaled so that a segment of time gets the number of
requests that was asked for; at cv = 1 this is a Poisson process given its count, so nothing is lost but the noise of
the count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

LENGTHS_PER_DRAW = 1024


@dataclass(frozen=True, slots=True)
class Lengths:
    """Token counts: log-normal with `median` and `sigma` (of the logarithm), rounded and clipped to [least, most].

    sigma = 0 gives `median` every time. 1 <= least <= most. A cap on the output is what `max_tokens` does in practice.
    """

    median: float
    sigma: float
    least: int
    most: int

    @property
    def mean(self) -> float:
        """E[min(max(X, least), most)] of the log-normal X, in tokens (rounding left out).

        With z(a) = (ln a - μ) / σ:  least Φ(z(least)) + most (1 - Φ(z(most)))
        + exp(μ + σ²/2) (Φ(z(most) - σ) - Φ(z(least) - σ)).
        """
        if self.sigma == 0.0:
            return min(max(self.median, float(self.least)), float(self.most))
        low = math.log(self.least / self.median) / self.sigma
        high = math.log(self.most / self.median) / self.sigma
        body = _phi(high - self.sigma) - _phi(low - self.sigma)
        body *= self.median * math.exp(self.sigma**2 / 2)
        return self.least * _phi(low) + self.most * (1.0 - _phi(high)) + body

    def draw(self, rng: np.random.Generator, count: int) -> list[int]:
        """`count` token counts."""
        raw = self.median * np.exp(self.sigma * rng.standard_normal(count))
        return [int(value) for value in np.clip(np.rint(raw), self.least, self.most)]


def _phi(z: float) -> float:
    return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))


def cell_generators(seed: int, class_index: int, tp: int, load_index: int, repeat: int) -> list[np.random.Generator]:
    """Three independent generators (arrivals, input lengths, output lengths) of one cell, all indices from 0.

    They depend on these five numbers alone, so a cell's result does not depend on which others are simulated.
    """
    sequence = np.random.SeedSequence((seed, class_index, tp, load_index, repeat))
    return [np.random.Generator(np.random.PCG64(child)) for child in sequence.spawn(3)]


def length_pairs(
    inputs: Lengths, outputs: Lengths, input_rng: np.random.Generator, output_rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """An endless stream of (input tokens, output tokens), the two independent."""
    while True:
        yield from zip(
            inputs.draw(input_rng, LENGTHS_PER_DRAW), outputs.draw(output_rng, LENGTHS_PER_DRAW), strict=True
        )


def segment_arrivals(rng: np.random.Generator, start_s: float, end_s: float, rate_rps: float, cv: float) -> list[float]:
    """floor(rate x length) send times inside [start_s, end_s), in seconds to the microsecond, in order.

    cv >= 0 is the coefficient of variation of the gaps: 0 evenly spaced, 1 Poisson given the count, above 1 bursty.
    """
    count = math.floor(rate_rps * (end_s - start_s) + 1e-9)
    if count == 0:
        return []
    gaps = np.ones(count + 1) if cv == 0.0 else rng.standard_gamma(1.0 / cv**2, count + 1)
    places = np.cumsum(gaps)[:-1] / gaps.sum()
    times = np.floor((start_s + places * (end_s - start_s)) * 1e6) / 1e6
    return [float(value) for value in times]

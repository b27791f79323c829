"""Looks drawn around a known truth: each figure of a run is its long-run value times exp(σ ε), ε standard normal."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from fleetsieve.errors import UsageError
from fleetsieve.instance import NOISE_KEYS, NOTHING_READ, THROUGHPUT, CellKey, Measurement, Reading, Status


class Noisy:
    """A probe that draws: measurement k of a cell is the same in any order, and independent of every other measurement."""

    def __init__(
        self, truth: Iterable[Measurement], spread: Mapping[str, float], *, seed: int, trial: int, looks: int
    ) -> None:
        """`truth` has one row a cell (see `long_run`); `spread` maps "ttft", "e2e", "tpot", "throughput" to σ >= 0.

        Every cell of the truth can be measured `looks` times. `seed` and `trial` are >= 0.

        Raises:
            UsageError: when `spread` names another quantity, or a σ is negative or not finite.
        """
        self._rows = {row.key: row for row in truth}
        for quantity, sigma in spread.items():
            if quantity not in NOISE_KEYS or not (math.isfinite(sigma) and sigma >= 0.0):
                raise UsageError(
                    f"a spread of {sigma:g} for {quantity!r}",
                    f"a finite number >= 0 for one of {', '.join(NOISE_KEYS)}",
                )
        self._spread, self._origin, self._looks = dict(spread), (seed, trial), looks

    @property
    def looks(self) -> Mapping[CellKey, int]:
        """How often each cell of the truth can be measured."""
        return MappingProxyType(dict.fromkeys(self._rows, self._looks))

    def measure(self, key: CellKey, look: int) -> Measurement:
        """The `look`-th draw of the cell; how it ended and its success are those of the truth."""
        row = replace(self._rows[key], seed=look)
        if row.status is not Status.OK:
            return row
        epsilon = look_generator(*self._origin, key, look).standard_normal(len(NOISE_KEYS))
        factor = {
            quantity: math.exp(self._spread.get(quantity, 0.0) * float(one))
            for quantity, one in zip(NOISE_KEYS, epsilon, strict=True)
        }
        return replace(
            row,
            throughput_rps=_times(row.throughput_rps, factor[THROUGHPUT]),
            ttft_p99_s=_times(row.ttft_p99_s, factor["ttft"]),
            e2e_p99_s=_times(row.e2e_p99_s, factor["e2e"]),
            tpot_p99_s=_times(row.tpot_p99_s, factor["tpot"]),
        )


def look_generator(seed: int, trial: int, key: CellKey, look: int) -> np.random.Generator:
    """The generator of one measurement: the same for the same arguments on every machine."""
    name = int.from_bytes(hashlib.sha256("\0".join(map(str, key.parts)).encode()).digest()[:8], "big")
    return np.random.default_rng([seed, trial, name, look])


def long_run(table: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One row a cell: the long-run values that its rows stand for, as points.

    Geometric means of tails and throughput and the mean success over the rows that succeeded; where none did, the last row.
    """
    rows: dict[CellKey, list[Measurement]] = {}
    for row in table:
        rows.setdefault(row.key, []).append(row)
    return tuple(_merged(of_cell) for of_cell in rows.values())


def _merged(rows: list[Measurement]) -> Measurement:
    good = [row for row in rows if row.status is Status.OK]
    if not good:
        return rows[-1]
    return replace(
        good[0],
        throughput_rps=_mean([row.throughput_rps for row in good], geometric=True),
        success_rate=_mean([row.success_rate for row in good], geometric=False),
        ttft_p99_s=_mean([row.ttft_p99_s for row in good], geometric=True),
        e2e_p99_s=_mean([row.e2e_p99_s for row in good], geometric=True),
        tpot_p99_s=_mean([row.tpot_p99_s for row in good], geometric=True),
        records=None,
    )


def _times(reading: Reading, factor: float) -> Reading:
    return reading if reading.value is None else Reading(reading.value * factor)


def _mean(readings: list[Reading], *, geometric: bool) -> Reading:
    """The mean of the values that are there; bounds alone show nothing about a long-run value."""
    values = [reading.value for reading in readings if reading.value is not None]
    if not values:
        return NOTHING_READ
    if len(values) == 1:
        return Reading(values[0])
    if geometric and min(values) > 0.0:
        return Reading(math.exp(math.fsum(map(math.log, values)) / len(values)))
    return Reading(math.fsum(values) / len(values))

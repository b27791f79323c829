"""Two classes measured request by request: a cell of chat straddles its SLO for good, code has none that it can commit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fleetsieve.bounds.statistics import Rules
from fleetsieve.bounds.statistics.intervals import requests_for_upper_p99
from fleetsieve.instance import (
    Cell,
    CellKey,
    CertificateSettings,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    MeasureSettings,
    Pool,
    Reading,
    Slo,
    WorkloadClass,
)
from fleetsieve.records import RequestRecords

CHAT, WIDE_CHAT = (CellKey("chat", tp, "c8") for tp in (1, 2))
CODE, OTHER_CODE = (CellKey("code", 1, f"c{n}") for n in (4, 8))
CELLS = tuple(
    Cell(key, key.tp, LoadKind.CONCURRENCY, float(key.load[1:])) for key in (CHAT, WIDE_CHAT, CODE, OTHER_CODE)
)
INSTANCE = Instance(
    "recorded",
    Fleet((Pool("default", 8),)),
    (WorkloadClass("chat", 8.0, Slo(1.0)), WorkloadClass("code", 8.0, Slo(1.0))),
    CELLS,
    certificate=CertificateSettings(0.05),
    measure=MeasureSettings(warmup_s=30.0, window_s=270.0, startup_s=100.0, max_looks=4),
)
MISSING = 46


def requests(count: int, rate_rps: float, concurrency: float, seed: int, ttft_s: float = 0.5) -> RequestRecords:
    """So many requests that succeeded, `concurrency` in flight, none with a TTFT above `ttft_s`."""
    drawn = np.random.default_rng(seed)
    window_s = count / rate_rps
    ttft = drawn.uniform(0.2 * ttft_s, ttft_s, count)
    sent = np.linspace(0.0, window_s, count, endpoint=False)
    e2e = np.full(count, concurrency / rate_rps)
    return RequestRecords(sent, ttft, e2e, np.full(count, np.nan), np.full(count, True), window_s)


def looked(key: CellKey, count: int, seed: int = 0, rate_rps: float = 1.0) -> Measurement:
    """One measurement of a cell by `count` requests."""
    row = Measurement(key, seed, throughput_rps=Reading(rate_rps), ttft_p99_s=Reading(0.5))
    return replace(row, records=requests(count, rate_rps, float(key.load[1:]), seed))


def too_few() -> int:
    """Requests of one measurement that lack MISSING of an upper bound of the p99."""
    return requests_for_upper_p99(Rules.of(INSTANCE).spent(1)) - MISSING


def stuck(key: CellKey, capacity_rps: float) -> Measurement:
    """Bounds that straddle the SLO, from elsewhere: nothing narrows them."""
    return Measurement(key, throughput_rps=Reading(capacity_rps), ttft_p99_s=Reading(lo=0.5, hi=2.0))


ROWS = (
    Measurement(CHAT, throughput_rps=Reading(0.5), ttft_p99_s=Reading(0.5)),
    stuck(WIDE_CHAT, 4.0),
    looked(CODE, too_few()),
    looked(OTHER_CODE, too_few(), rate_rps=1.5),
)

"""Point values of one measurement: what its row shows beside the requests that decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fleetsieve.instance import NOTHING_READ, Measurement, Reading
from fleetsieve.records import Floats, RequestRecords


def point_row(row: Measurement, records: RequestRecords) -> Measurement:
    """The row with the point values of `records` and without them.

    A p99 is the least latency that 99 % of the requests do not exceed: the quantile that order statistics bound.
    """
    return replace(
        row,
        throughput_rps=Reading(float(np.mean(records.batch_rates_rps(1)))),
        success_rate=Reading(records.succeeded / records.sent) if records.sent else NOTHING_READ,
        ttft_p99_s=_p99(records, "ttft"),
        e2e_p99_s=_p99(records, "e2e"),
        tpot_p99_s=_p99(records, "tpot"),
        requests=records.sent,
        records=None,
        line=0,
    )


def quantile(values: Floats, fraction: float) -> float | None:
    """The least of the values that `fraction` of them do not exceed; None when there are none."""
    return float(np.quantile(values, fraction, method="inverted_cdf")) if len(values) else None


def _p99(records: RequestRecords, metric: str) -> Reading:
    value = quantile(records.latencies_s(metric), 0.99)
    return NOTHING_READ if value is None else Reading(value)

"""The figures of a measurement, from what came of its schedule: the row of measurements.csv with the requests that decide.

Nothing is computed here that is computed elsewhere: a row shows the point values that `statistics` takes from the records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from fleetsieve.bounds.statistics.points import point_row, quantile
from fleetsieve.files.records import RequestRow
from fleetsieve.instance import Measurement, Status
from fleetsieve.live.load.protocol import Sent
from fleetsieve.records import RequestRecords


def request_records(rows: Sequence[RequestRow], window_s: float) -> RequestRecords:
    """The records of requests that are in memory: what reading their file gives."""
    columns = [(row.sent_at_s, row.scheduled_at_s, row.ttft_s, row.e2e_s, row.output_tokens) for row in rows]
    sent, scheduled, ttft, e2e, tokens = np.array(columns, dtype=np.float64).reshape(-1, 5).T
    ok = np.array([row.status == "ok" for row in rows], dtype=bool)
    return RequestRecords.from_requests(sent, ttft, e2e, tokens, ok, window_s, scheduled)


def measured(row: Measurement, sent: Sent) -> Measurement:
    """The row with the figures, the status and the requests of a measurement; a cost and a source are whoever measured's to add.

    Without a single success in the window the measurement failed, as most of its requests did (`status_of`).
    """
    records = request_records(sent.rows, sent.window_s)
    return replace(
        point_row(row, records),
        status=status_of(sent.rows),
        ttft_p50_s=quantile(records.latencies_s("ttft"), 0.5),
        e2e_p50_s=quantile(records.latencies_s("e2e"), 0.5),
        window_s=sent.window_s,
        records=records,
    )


_SHORT = "short"
"""Failed, and yet answered with some tokens."""


def status_of(rows: Iterable[RequestRow]) -> Status:
    """How a measurement ended, by its window's requests.

    A server whose answers are shorter than asked for has not crashed: it has "rejected" the load. It is "crashed" where requests
    ended in errors, or have no record.
    """
    counts = Counter(_SHORT if row.status == "failed" and row.output_tokens is not None else row.status
                     for row in rows if row.sent_at_s >= 0.0)  # fmt: skip
    if counts["ok"]:
        return Status.OK
    ended = {status: count for status, count in counts.items() if status != "missing"}  # a hopeless load is cut short
    commonest = max(ended, key=lambda status: ended[status], default="")
    return {"timeout": Status.TIMEOUT, "rejected": Status.REJECTED, _SHORT: Status.REJECTED}.get(
        commonest, Status.CRASHED
    )

"""Whether measurements that were made side by side disturbed each other, judged from the requests of one measurement.

Its window's requests are parted into those that were sent while another measurement's load ran and those that were not. Servers on
GPUs of their own should not notice each other; they do through what they share: host memory, PCIe, CPU cores, power.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fleetsieve.files import RequestRow
from fleetsieve.instance import CellKey
from fleetsieve.live.load.protocol import Sent

LEAST_REQUESTS = 20
"""Requests that each part needs before the two are compared."""

LEAST_CHANGE = 0.05
ALPHA = 0.01


@dataclass
class Load:
    """Load on one server, from and until a moment on the wall clock (None: it continues)."""

    key: CellKey
    since_unix_s: float
    until_unix_s: float | None = None


def disturbance(sent: Sent, mine: Load, loads: Iterable[Load]) -> str | None:
    """A sentence when the measurement `mine` was disturbed by others, or when that is not known; None when it was alone or
    undisturbed.

    The requests' time per token is compared by Welch's t test on its logarithm, at an error of ALPHA, and reported from
    LEAST_CHANGE on.
    """
    others = [load for load in loads if load is not mine and load.since_unix_s < (mine.until_unix_s or math.inf)
              and (load.until_unix_s or math.inf) > mine.since_unix_s]  # fmt: skip
    if not others or sent.started_unix_s is None:
        return None
    good = [row for row in sent.rows if row.status == "ok" and row.sent_at_s >= 0.0 and _per_token_s(row) > 0.0]
    moments = [sent.started_unix_s + row.sent_at_s for row in good]
    beside = np.array(
        [any(o.since_unix_s <= at < (o.until_unix_s or math.inf) for o in others) for at in moments], dtype=bool
    )
    names = ", ".join(sorted({str(load.key) for load in others}))
    if min(beside.sum(), (~beside).sum()) < LEAST_REQUESTS:
        if not beside.any():
            return None
        return f"measured beside {names} for most of the window: whether that disturbed it is unknown"
    from scipy import stats

    logs = np.log([_per_token_s(row) for row in good])
    change = math.exp(float(logs[beside].mean() - logs[~beside].mean())) - 1.0
    chance = float(stats.ttest_ind(logs[beside], logs[~beside], equal_var=False).pvalue)
    if abs(change) < LEAST_CHANGE or chance > ALPHA:
        return None
    return f"disturbed by {names}: {change:+z.0%} time per token while both were measured"


def _per_token_s(row: RequestRow) -> float:
    """Seconds per output token, 0 where it is not known."""
    return (row.e2e_s or 0.0) / row.output_tokens if row.output_tokens else 0.0

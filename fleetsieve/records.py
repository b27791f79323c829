"""What every request of one measurement showed: raw records, from which intervals are derived and never the other way round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetsieve.brief import brief
from fleetsieve.errors import UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RequestRecords:
    """One row per request that was sent, in any order.

    `sent_at_s` counts from the start of the measurement window, which is `window_s` long. A request of the warm-up has a negative
    one: it counts for the throughput when it completes inside the window, and for nothing else. `ttft_s`, `e2e_s` and `tpot_s`
    are seconds, NaN where there is none (a failed request; no TPOT with fewer than two output tokens). `ok` shows success.
    `scheduled_at_s` is when a request was due, `output_tokens` its tokens; NaN, or None for all, where that is not known.

    Raises:
        UsageError: when the columns differ in length, or the window is not positive.
    """

    sent_at_s: Floats
    ttft_s: Floats
    e2e_s: Floats
    tpot_s: Floats
    ok: NDArray[np.bool_]
    window_s: float
    scheduled_at_s: Floats | None = None
    output_tokens: Floats | None = None

    def __repr__(self) -> str:
        return brief(self)

    def __post_init__(self) -> None:
        columns = ("sent_at_s", "ttft_s", "e2e_s", "tpot_s", "ok", "scheduled_at_s", "output_tokens")
        lengths = {name: len(column) for name in columns if (column := getattr(self, name)) is not None}
        if len(set(lengths.values())) != 1:
            text = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise UsageError(f"the columns of a look's records differ in length: {text}")
        if not self.window_s > 0.0:
            raise UsageError(f"a measurement window of {self.window_s:g} s")

    @classmethod
    def from_requests(
        cls,
        sent_at_s: Floats,
        ttft_s: Floats,
        e2e_s: Floats,
        output_tokens: Floats,
        ok: NDArray[np.bool_],
        window_s: float,
        scheduled_at_s: Floats | None = None,
    ) -> RequestRecords:
        """Records of requests with their output tokens, NaN where a value is absent; a failed one keeps no latency.

        TPOT is (e2e - ttft) / (output tokens - 1), as in vLLM, and absent for fewer than two output tokens.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            tpot = np.where(output_tokens >= 2.0, (e2e_s - ttft_s) / (output_tokens - 1.0), np.nan)
        ttft, e2e, tpot = (np.where(ok, values, np.nan) for values in (ttft_s, e2e_s, tpot))
        return cls(sent_at_s, ttft, e2e, tpot, ok, window_s, scheduled_at_s, output_tokens)

    @property
    def sent(self) -> int:
        """Requests sent inside the window."""
        return int(np.count_nonzero(self.sent_at_s >= 0.0))

    @property
    def succeeded(self) -> int:
        """Requests sent inside the window that succeeded."""
        return int(np.count_nonzero((self.sent_at_s >= 0.0) & self.ok))

    @property
    def until_served_s(self) -> float:
        """From the start of the window until all that was sent inside it and succeeded had been answered: the window at least."""
        ended = (self.sent_at_s + self.e2e_s)[(self.sent_at_s >= 0.0) & self.ok & np.isfinite(self.e2e_s)]
        return max(self.window_s, float(ended.max())) if len(ended) else self.window_s

    def latencies_s(self, metric: str) -> Floats:
        """The latencies in seconds of "ttft", "e2e" or "tpot": successful requests sent inside the window, where they have one."""
        values: Floats = {"ttft": self.ttft_s, "e2e": self.e2e_s, "tpot": self.tpot_s}[metric]
        kept: Floats = values[(self.sent_at_s >= 0.0) & self.ok & np.isfinite(values)]
        return kept

    def batch_rates_rps(self, batches: int) -> Floats:
        """Successful completions per second in each of `batches` equal parts of the window."""
        ended = (self.sent_at_s + self.e2e_s)[self.ok & np.isfinite(self.e2e_s)]
        counts, _ = np.histogram(ended, bins=batches, range=(0.0, self.window_s))
        rates: Floats = counts * (batches / self.window_s)
        return rates

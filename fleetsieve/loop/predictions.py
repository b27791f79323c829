"""What some tool predicts of cells before anything is measured. It orders the search and never enters a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetsieve.instance import CellKey


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted values of one cell, each > 0; None where the tool predicts nothing."""

    throughput_rps: float | None = None
    ttft_p99_s: float | None = None
    e2e_p99_s: float | None = None
    tpot_p99_s: float | None = None

    def value(self, quantity: str) -> float | None:
        """The prediction of "capacity" (requests/s of one replica), "ttft", "e2e" or "tpot" (p99 in seconds)."""
        return {
            "capacity": self.throughput_rps,
            "ttft": self.ttft_p99_s,
            "e2e": self.e2e_p99_s,
            "tpot": self.tpot_p99_s,
        }[quantity]


Predictions = Mapping[CellKey, Prediction]
"""The predictions of a tool; cells without a prediction are absent."""

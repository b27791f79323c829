"""`grid`: a fixed order, by tensor-parallel degree and then by load; what a sweep over all cells does."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleetsieve.loop.policies.protocol import Choice, Situation


@dataclass(frozen=True)
class Grid:
    """A sweep that stops as soon as the certificate fires."""

    name: str = "grid"
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """The candidate that comes first by (TP, load, name)."""
        cells = situation.envelope.instance.cell_by_key
        offered = {key: cells[key].offered for key in situation.candidates}
        first = min(offered, key=lambda key: (key.tp, math.inf if (n := offered[key]) is None else n, key))
        return Choice(first, f"the first of {len(offered)} in the order of TP and load", {})

"""`voi`: value of information, the expected improvement of what the committed plan achieves, per GPU-second.

The value of A- is min fulfilment + goodput / Σλ - shortfall, under θ-. Our reading: the paper gives this baseline one line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleetsieve.instance import CellKey
from fleetsieve.loop.policies.lookahead import Lookahead
from fleetsieve.loop.policies.protocol import Choice, Situation, best


@dataclass(frozen=True)
class Voi:
    """`quantiles` are those of the capacity belief that stand for its spread."""

    quantiles: tuple[float, ...] = (0.15, 0.5, 0.85)
    name: str = "voi"
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """The candidate with the greatest expected improvement per GPU-second; ties go to the cheaper, then by name."""
        c = situation.certificate
        look = Lookahead(situation.envelope, c.eta, c.epsilon, situation.prior)
        now = look.value(look.parts)

        def score(key: CellKey) -> float:
            gain = math.fsum(p * max(0.0, look.value(parts) - now) for p, parts in look.outcomes(key, self.quantiles))
            return gain / situation.cost_gpu_s[key] if situation.cost_gpu_s[key] > 0.0 else gain

        scores = situation.weigh(score)
        key = best(scores, situation.cost_gpu_s)
        gain = scores[key] * situation.cost_gpu_s[key]
        return Choice(key, f"expected to improve the committed plan by {gain:.3g}", scores)

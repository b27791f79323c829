"""`paper`: the rule of arXiv:2608.19659 in our reading: the largest expected reduction of the gap between the two decisions.

The prior of the interior knee bounds what the policy expects, never the certificate. GPU-seconds only break ties. The gap is the
sum of the stage gaps: the paper compares decisions lexicographically but gives no formula for an expected reduction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fleetsieve.bounds.assumptions.interior_knee import InteriorKnee
from fleetsieve.loop.policies.lookahead import Lookahead
from fleetsieve.loop.policies.protocol import Choice, Situation, best


@dataclass(frozen=True)
class Paper:
    """`quantiles` are those of the capacity belief that stand for its spread, `knee` the prior."""

    quantiles: tuple[float, ...] = (0.15, 0.5, 0.85)
    knee: InteriorKnee = field(default_factory=InteriorKnee)
    name: str = "paper"
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """The candidate with the largest expected gap reduction; ties go to the cheaper, then to the first by name."""
        envelope = situation.envelope
        if all(a.name != self.knee.name for a in envelope.assumptions):
            envelope = envelope.assuming((*envelope.assumptions, self.knee))
        look = Lookahead(envelope, situation.certificate.eta, situation.certificate.epsilon)
        now = look.total_gap(look.parts)
        scores = situation.weigh(
            lambda key: math.fsum(p * (now - look.total_gap(parts)) for p, parts in look.outcomes(key, self.quantiles))
        )
        key = best(scores, situation.cost_gpu_s)
        return Choice(key, f"expected to reduce a gap of {now:.3g} by {scores[key]:.3g}", scores)

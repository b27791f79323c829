"""`decision-gap`: the cell that is expected to shrink the gap between the two decisions most per GPU-second.

    score(e) = E[max(0, Γ - Γ') | e] / cost(e)^ω,   Γ = 0 if certified, else the stage gaps + Σ_classes (Σ_arms φ_a)^κ
    φ_a = 1 / (λ_i K) Σ_{k=1..K} max(0, F_a+(k) - F_i-(k)),     K = G - #classes + 1,     F(k) = max_q min(λ_i, c_q floor(k / g_q))

F_a+ runs over the cells of arm a that are not ruled out, at upper capacities; F_i- over the committable cells of class i: φ_a is
how much arm a could still add, averaged over the GPUs that the class may get. The gaps alone are zero for most candidates (two
cells must be resolved together), so φ gives the plateau a slope; κ < 1 makes it steeper towards a class that is settled, and ω < 1
lets a dear measurement that settles more come before cheap ones that would have to be followed by it.

The expectation runs over the outcomes of the belief, each propagated through the assumptions before Γ is computed again. An outcome
that would contradict an assumption may raise Γ: it counts as no gain, or what must be known would be left to the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleetsieve.instance import CellKey
from fleetsieve.loop.policies.lookahead import Lookahead
from fleetsieve.loop.policies.protocol import Choice, Situation, best

PLATEAU = 1e-3
"""Weight of what a cell could add alone. Where an assumption was dropped several cells of an arm must be resolved before Γ moves at
all; without this term the cheapest cells would come first then, whether or not they can matter."""


@dataclass(frozen=True)
class DecisionGap:
    """The default policy; `quantiles` are those of the capacity belief that stand for its spread."""

    quantiles: tuple[float, ...] = (0.15, 0.5, 0.85)
    omega: float = 0.9
    name: str = "decision-gap"
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """The candidate with the greatest score; ties go to the cheaper, then to the first by name."""
        c = situation.certificate
        look = Lookahead(situation.envelope, c.eta, c.epsilon, situation.prior)
        now = look.gamma(look.parts)
        gains: dict[CellKey, float] = {}

        def score(key: CellKey) -> float:
            gain = math.fsum(p * max(0.0, now - look.gamma(parts)) for p, parts in look.outcomes(key, self.quantiles))
            gains[key] = gain + PLATEAU * look.potential(key)
            cost_gpu_s = situation.cost_gpu_s[key]
            return gains[key] / cost_gpu_s**self.omega if cost_gpu_s > 0.0 else gains[key]

        scores = situation.weigh(score)
        key = best(scores, situation.cost_gpu_s)
        share = gains[key] / now if now > 0.0 else 0.0
        to_close = now / gains[key] * situation.cost_gpu_s[key] if gains[key] > 0.0 else math.inf
        return Choice(key, f"expected to close {share:.0%} of what is open", scores, to_close)

"""`targeted`: the cell that most probably changes the choice of A-, the committed plan.

Our reading of targeted active learning: the paper gives this baseline one line. The choice is each class's configuration and
replicas under θ-; GPU-seconds only break ties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fleetsieve_models.problem import Name

from fleetsieve.instance import CellKey
from fleetsieve.loop.policies.lookahead import Lookahead, Part
from fleetsieve.loop.policies.protocol import Choice, Situation, best


@dataclass(frozen=True)
class Targeted:
    """`quantiles` are those of the capacity belief that stand for its spread."""

    quantiles: tuple[float, ...] = (0.15, 0.5, 0.85)
    name: str = "targeted"
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """The candidate with the greatest chance; ties go to the cheaper, then to the first by name."""
        c = situation.certificate
        look = Lookahead(situation.envelope, c.eta, c.epsilon, situation.prior)
        now = look.choice(look.parts)
        scores = situation.weigh(
            lambda key: math.fsum(
                p for p, parts in look.outcomes(key, self.quantiles) if _changed(look, parts, key, now)
            )
        )
        key = best(scores, situation.cost_gpu_s)
        return Choice(key, f"changes the committed plan with a chance of {scores[key]:.0%}", scores)


def _changed(look: Lookahead, parts: Mapping[str, Part], key: CellKey, now: Mapping[Name, int]) -> bool:
    """Whether A- is another plan; not worth computing while the class has the same configurations to choose from."""
    before, after = look.parts[key.class_name].low, parts[key.class_name].low
    return before.options != after.options and look.choice(parts) != now

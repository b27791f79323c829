"""`shared-feature`: the largest predictive uncertainty of an RBF surrogate over (log TP, log load), per class and shared across TP.

The surrogate's deviation depends on where was measured, not on what was seen, so capacity and tails share it. Our reading: the
paper gives this baseline one line. GPU-seconds only break ties.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetsieve.instance import CellKey
from fleetsieve.loop.policies.protocol import Choice, Situation, best
from fleetsieve.loop.policies.surrogate import predictions


@dataclass(frozen=True)
class SharedFeature:
    """Decision-blind, like a space-filling design."""

    name: str = "shared-feature"
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """The candidate farthest, in features, from what was measured; ties go to the cheaper, then to the first by name."""
        cells = situation.envelope.instance.cell_by_key
        scores: dict[CellKey, float] = {}
        for name in sorted({key.class_name for key in situation.candidates}):
            known = [cells[k.key] for k in situation.envelope.classes[name].view.known.values() if k.measured]
            asked = [key for key in situation.candidates if key.class_name == name]
            _, deviation = predictions(known, [0.0] * len(known), [cells[key] for key in asked], 1.0)
            scores |= dict(zip(asked, deviation.tolist(), strict=True))
        key = best(scores, situation.cost_gpu_s)
        return Choice(key, f"the surrogate knows it least: {scores[key]:.3g} of the prior deviation", scores)

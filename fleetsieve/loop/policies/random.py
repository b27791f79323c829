"""`random`: uniform over the candidates; what every other policy is measured against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleetsieve.loop.policies.protocol import Choice, Situation


@dataclass(frozen=True)
class Random:
    """Draws afresh at every step from (seed, step), so that a resumed run continues as it would have."""

    name: str = "random"
    seeded: bool = True

    def choose(self, situation: Situation) -> Choice:
        """A candidate drawn uniformly."""
        generator = np.random.default_rng([situation.seed, situation.step])
        place = int(generator.integers(len(situation.candidates)))
        return Choice(situation.candidates[place], f"drawn from {len(situation.candidates)} candidates", {})

"""What a policy sees and what it answers. Policies are stateless: the loop alone remembers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.brief import brief
from fleetsieve.certificate import Certificate
from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey
from fleetsieve.loop.policies.weighing import weigh
from fleetsieve.loop.predictions import Predictions

Advance = Callable[[int, int], None]
"""Takes how much of a work is done, and of how much."""


def silent(done: int, of: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Situation:
    """The state of the loop before a choice.

    `candidates` are the cells that may be asked, in the fixed order of names, never empty; `cost_gpu_s` what each is expected to
    cost now, in GPU-seconds; `step` counts the measurements so far; `seed` is the run's; `prior` what a tool predicts. `advance`
    is reported how many candidates were weighed.
    """

    envelope: Envelope
    certificate: Certificate
    candidates: Sequence[CellKey]
    cost_gpu_s: Mapping[CellKey, float]
    step: int
    seed: int
    prior: Predictions | None = None
    advance: Advance = field(default=silent, compare=False)

    def weigh(self, score: Callable[[CellKey], float]) -> dict[CellKey, float]:
        """The scores of the candidates, for a policy whose scores take their time (see `policies.weighing`)."""
        return weigh(self.candidates, self.envelope.instance, score, self.advance)

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class Choice:
    """The cell to measure next, why, and the score of every candidate that was weighed (empty where the policy has none).

    `to_close_gpu_s`: GPU-seconds that closing what is open is expected to cost, where the policy has an idea of it.
    """

    key: CellKey
    reason: str
    scores: Mapping[CellKey, float]
    to_close_gpu_s: float | None = None

    def __repr__(self) -> str:
        return brief(self)


def best(scores: Mapping[CellKey, float], cost_gpu_s: Mapping[CellKey, float]) -> CellKey:
    """The cell with the greatest score; ties go to the cheaper, then to the first by name.

    Scores count to nine digits: what is below is noise of the order of summation, and must not break ties.
    """
    return min(scores, key=lambda key: (-float(f"{scores[key]:.9g}"), cost_gpu_s[key], key))


class Policy(Protocol):
    """Chooses the next cell."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        ...

    @property
    def seeded(self) -> bool:
        """Whether the seed of the run matters: without it every run on the same table is the same run."""
        ...

    def choose(self, situation: Situation) -> Choice:
        """The next cell, one of the candidates; the same situation always gives the same choice."""
        ...


def chosen(policy: Policy, situation: Situation) -> Choice:
    """What `policy` chooses in `situation`, held to the contract: it may come from somebody else.

    Raises:
        UsageError: when that is no Choice, no candidate, or has no text as its reason or a score that is not a finite number.
    """
    choice = policy.choose(situation)
    if not isinstance(choice, Choice):
        raise UsageError(f"policy {policy.name} chose {choice!r}, which is no Choice")
    if choice.key not in situation.candidates:
        raise UsageError(
            f"policy {policy.name} chose {choice.key}, which is none of the {len(situation.candidates)} candidates"
        )
    if not isinstance(choice.reason, str):
        raise UsageError(f"policy {policy.name} gave the reason {choice.reason!r}, which is no text")
    for key, score in choice.scores.items():
        if not math.isfinite(score):
            raise UsageError(f"policy {policy.name} gave {key} the score {score}, which is not a finite number")
    return choice

"""Policies: which cell to measure next. One file each, one protocol, no state."""

from fleetsieve.errors import UsageError
from fleetsieve.policies.decision_gap import DecisionGap
from fleetsieve.policies.protocol import Choice, Policy, Situation
from fleetsieve.policies.random import Random

__all__ = ["POLICIES", "Choice", "DecisionGap", "Policy", "Random", "Situation", "policy_named"]

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (DecisionGap(), Random())}


def policy_named(name: str) -> Policy:
    """The policy called `name`.

    Raises:
        UsageError: when there is none; the known ones are named.
    """
    if name not in POLICIES:
        raise UsageError(f"unknown policy {name!r}", f"known: {', '.join(POLICIES)}")
    return POLICIES[name]

"""Policies: which cell to measure next. One file each, one protocol, no state."""

from fleetsieve.errors import UsageError
from fleetsieve.loop.policies.constrained_bo import ConstrainedBo
from fleetsieve.loop.policies.decision_gap import DecisionGap
from fleetsieve.loop.policies.grid import Grid
from fleetsieve.loop.policies.joint_uncertainty import JointUncertainty
from fleetsieve.loop.policies.paper import Paper
from fleetsieve.loop.policies.protocol import Choice, Policy, Situation
from fleetsieve.loop.policies.random import Random
from fleetsieve.loop.policies.shared_feature import SharedFeature
from fleetsieve.loop.policies.targeted import Targeted
from fleetsieve.loop.policies.voi import Voi

__all__ = ["POLICIES", "Choice", "DecisionGap", "Paper", "Policy", "Random", "Situation", "policy_named"]

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        DecisionGap(),
        Paper(),
        Random(),
        Grid(),
        JointUncertainty(),
        SharedFeature(),
        Targeted(),
        Voi(),
        ConstrainedBo(),
    )
}
"""Every policy under its name on the command line: ours, the paper's, and the paper's baselines."""


def policy_named(name: str) -> Policy:
    """The policy called `name`.

    Raises:
        UsageError: when there is none; the known ones are named.
    """
    if name not in POLICIES:
        raise UsageError(f"unknown policy {name!r}", f"known: {', '.join(POLICIES)}")
    return POLICIES[name]

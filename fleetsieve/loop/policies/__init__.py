"""Policies: which cell to measure next. One file each, one protocol, no state."""

from dataclasses import dataclass

from fleetsieve.errors import UsageError
from fleetsieve.extensions import POLICY, installed, is_outside, load
from fleetsieve.loop.policies.constrained_bo import ConstrainedBo
from fleetsieve.loop.policies.decision_gap import DecisionGap
from fleetsieve.loop.policies.grid import Grid
from fleetsieve.loop.policies.joint_uncertainty import JointUncertainty
from fleetsieve.loop.policies.paper import Paper
from fleetsieve.loop.policies.protocol import Choice, Policy, Situation, chosen
from fleetsieve.loop.policies.random import Random
from fleetsieve.loop.policies.shared_feature import SharedFeature
from fleetsieve.loop.policies.targeted import Targeted
from fleetsieve.loop.policies.voi import Voi

__all__ = [
    "POLICIES",
    "Choice",
    "DecisionGap",
    "Paper",
    "Policy",
    "Random",
    "Situation",
    "chosen",
    "policy_named",
    "policy_of_log",
]

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
    """The policy called `name`: a bundled one, one that an installed package brings, or `module:Class`.

    Raises:
        UsageError: when there is none, which names those that are known, or when it is not a policy.
    """
    if name in POLICIES:
        return POLICIES[name]
    if not is_outside(POLICY, name):
        known = ", ".join((*POLICIES, *installed(POLICY)))
        raise UsageError(f"unknown policy {name!r}", f"known: {known}; or module:Class for one of your own")
    policy: Policy = load(POLICY, name)
    return policy


@dataclass(frozen=True)
class _Absent:
    """The policy of a run whose module is not here: the run can be shown and checked, and not asked what comes next."""

    name: str
    fault: UsageError
    seeded: bool = False

    def choose(self, situation: Situation) -> Choice:
        """Nothing.

        Raises:
            UsageError: always: why the policy cannot be loaded.
        """
        raise self.fault


def policy_of_log(name: str) -> Policy:
    """The policy that a run was started with; one that cannot be loaded is missed only when it has to choose."""
    try:
        return policy_named(name)
    except UsageError as error:
        return _Absent(name, error)

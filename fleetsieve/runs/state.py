"""The state of the loop that a run folder stands for."""

from __future__ import annotations

from collections.abc import Mapping

from fleetsieve.allocation import Engine
from fleetsieve.files import Folder, read_measurements, read_predictions
from fleetsieve.instance import CellKey, Instance
from fleetsieve.loop.policies import DecisionGap, Policy, policy_named, policy_of_log
from fleetsieve.loop.predictions import Predictions
from fleetsieve.loop.sieve import Sieve
from fleetsieve.loop.stopping import UnprofitableWithin
from fleetsieve.probes import Replay
from fleetsieve.runs.history import History
from fleetsieve.runs.layout import HIDDEN, PRIOR
from fleetsieve.runs.start import RunStart


def state_at_start(
    start: RunStart,
    instance: Instance,
    engine: Engine,
    *,
    looks: Mapping[CellKey, int] | None,
    prior: Predictions | None = None,
    policy: Policy | None = None,
) -> Sieve:
    """The state of a run before any measurement, as it was started; `policy` replaces its policy, `looks` are its probe's.

    Raises:
        UsageError: when its policy is not known, or its seed is negative.
    """
    stop = UnprofitableWithin(start.horizon_h) if start.horizon_h is not None else None
    chosen = policy if policy is not None else policy_named(start.policy)
    return Sieve.start(instance, policy=chosen, engine=engine, seed=start.seed, looks=looks, stop=stop, prior=prior)


def state_of(read: Folder, history: History | None, engine: Engine, policy: str | None = None) -> Sieve:
    """The state that a folder stands for: a run's has the policy, seed, stop rule, prior and table of that run.

    Another folder's has `decision-gap` and no limits; `policy` replaces the policy.

    Raises:
        UsageError: when `policy` is not known, or a row belongs to no cell of the instance.
        InputError: when the hidden table of a replay has errors.
    """
    if history is None:
        chosen = policy_named(policy) if policy else DecisionGap()
        return Sieve.start(read.instance, policy=chosen, engine=engine).tell(*read.measurements)
    start, looks, prior = RunStart.read(history.start), None, None
    if (read.path / HIDDEN).is_file():
        looks = Replay(read_measurements(read.path / HIDDEN, read.instance), read.measurements).looks
    if (read.path / PRIOR).is_file():
        prior = read_predictions(read.path / PRIOR, read.instance).predictions
    chosen = policy_named(policy) if policy else policy_of_log(start.policy)
    begun = state_at_start(start, read.instance, engine, looks=looks, prior=prior, policy=chosen)
    return begun.tell(*read.measurements)

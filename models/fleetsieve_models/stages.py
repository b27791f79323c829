"""Lexicographic stages of a formulation: an objective each, and a constraint that holds it once it is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyomo.environ as pyo

NO_SLACK: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its objective, the constraint `hold` that keeps it at `limit` or better, and its sense."""

    name: str
    objective: pyo.Objective
    hold: pyo.Constraint
    limit: pyo.Param
    maximise: bool


def add_holds(m: pyo.ConcreteModel, names: Sequence[str], slack: Mapping[str, float] = NO_SLACK) -> None:
    """Add `limit_<name>` and `hold_<name>` for each objective that the model has among `names`; deactivate all.

        hold_<name>:  objective <= limit + slack   (minimised),   objective >= limit - slack   (maximised)

    An objective that is the same for every plan is left out by its formulation, and then has no hold.
    """
    for name in names:
        objective = m.component(name)
        if objective is None:
            continue
        limit = pyo.Param(domain=pyo.Reals, initialize=0.0, mutable=True)
        m.add_component(f"limit_{name}", limit)
        allowed = slack.get(name, 0.0)
        kept = (
            objective.expr <= limit + allowed if objective.sense == pyo.minimize else objective.expr >= limit - allowed
        )
        m.add_component(f"hold_{name}", pyo.Constraint(expr=kept))
        m.component(f"hold_{name}").deactivate()
        objective.deactivate()


def stages(m: pyo.ConcreteModel, names: Sequence[str]) -> dict[str, Stage]:
    """The stages among `names` that the model has, in that order."""
    return {
        name: Stage(
            name,
            m.component(name),
            m.component(f"hold_{name}"),
            m.component(f"limit_{name}"),
            m.component(name).sense == pyo.maximize,
        )
        for name in names
        if m.component(name) is not None
    }

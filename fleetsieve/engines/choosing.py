"""The engine that fits a fleet: the frontier where it accepts the problem, else the MILP.

The frontier enumerates exactly and needs no solver: a fleet of one pool, where counting GPUs is enough to place replicas, is solved
and checked where HiGHS cannot be imported. The solver is imported when a problem needs it, and only then: it takes a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fleetsieve_models.problem import STAGES, FleetProblem

from fleetsieve.allocation import Engine, Optimum, Shortage
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.engines.frontier import Frontier, knows_shortage
from fleetsieve.engines.frontier import frontier_shortage as shortage_by_counting


def engine_for(*problems: FleetProblem) -> Engine:
    """The one engine that fits all of the problems.

    Raises:
        SolverMissing: when that is the MILP, and HiGHS is absent or too old.
    """
    frontier = Frontier()
    if all(frontier.accepts(problem) for problem in problems):
        return frontier
    from fleetsieve.engines.solving import Milp

    return Milp()


def engine_of(envelope: Envelope) -> Engine:
    """The one engine that fits both ends of an envelope: what certifies and what checks a folder.

    Raises:
        SolverMissing: as `engine_for`.
    """
    return engine_for(envelope.conservative, envelope.optimistic)


class Automatic:
    """The engine that fits each problem, for work that varies a fleet (see `allocation.Engine`)."""

    name = "frontier, or the MILP where placement matters"

    def accepts(self, problem: FleetProblem) -> bool:
        """Every problem is one engine's or the other's."""
        return True

    def optimise(
        self,
        problem: FleetProblem,
        stages: Sequence[str] = STAGES,
        *,
        eta: float = 0.0,
        holds: Mapping[str, float] = MappingProxyType({}),
    ) -> Optimum:
        """As `allocation.Engine.optimise`.

        Raises:
            SolverMissing, SolveFailed: as `solving.Milp.optimise`, where it is needed.
        """
        return engine_for(problem).optimise(problem, stages, eta=eta, holds=holds)


def least_shortage(problem: FleetProblem) -> Shortage:
    """By how much the floors of a problem are missed at least, in GPUs and in requests/s.

    Raises:
        SolverMissing, SolveFailed: as `solving.optimise_shortage`, where the frontier does not know it.
    """
    if knows_shortage(problem):
        return shortage_by_counting(problem)
    from fleetsieve.engines.solving import optimise_shortage

    return optimise_shortage(problem)

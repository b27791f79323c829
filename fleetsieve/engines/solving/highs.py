"""The one door to HiGHS: options that are checked, a solver that is tested, statuses that are read, nothing printed.

Everything here guards against something that this stack does: a misspelt option is taken without a word, the number of
threads belongs to the process, the default gaps break lexicographic stages, old versions return wrong optima, and a
status such as `infeasibleOrUnbounded` proves nothing.
"""

from __future__ import annotations

import io
import math
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from fleetsieve.errors import SolveFailed, SolverMissing

try:
    import highspy
    import pyomo.environ as pyo
    from pyomo.common.tee import capture_output
    from pyomo.common.timing import HierarchicalTimer
    from pyomo.contrib.solver.common.results import Results, TerminationCondition
    from pyomo.contrib.solver.solvers.highs import Highs
except ImportError as missing:
    what = (
        f"{missing.name} is not installed" if isinstance(missing, ModuleNotFoundError) else f"cannot import: {missing}"
    )
    raise SolverMissing(what, "pip install 'highspy>=1.15' 'pyomo>=6.10'") from missing

OLDEST_HIGHS = (1, 15)
"""highspy 1.14.0 returns wrong optima marked optimal."""

OPTIONS: Mapping[str, bool | int | float | str] = MappingProxyType(
    {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": 1e-9,
        "primal_feasibility_tolerance": 1e-9,
        "dual_feasibility_tolerance": 1e-9,
        "mip_heuristic_run_feasibility_jump": False,
    }
)
"""Options of every solve. The feasibility jump costs 6 ms a solve, ten times what a small fleet needs without it."""

_TURN = threading.RLock()
"""HiGHS has one scheduler a process: making it ready while another thread solves hangs both. So threads take turns; to solve
side by side, use processes."""


class SolveEnding(Enum):
    """How a solve ended: what it proved, not what it found."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """How a solve ended (`reason` in the solver's words), the incumbent's objective and the proven bound, if any."""

    ending: SolveEnding
    value: float | None
    bound: float | None
    reason: str


def ending_of(condition: TerminationCondition) -> SolveEnding:
    """What a termination condition proves; anything but optimality and plain infeasibility proves nothing."""
    if condition is TerminationCondition.convergenceCriteriaSatisfied:
        return SolveEnding.OPTIMAL
    if condition is TerminationCondition.provenInfeasible:
        return SolveEnding.INFEASIBLE
    return SolveEnding.UNDECIDED


def set_options(solver: Any, options: Mapping[str, bool | int | float | str]) -> None:
    """Set options of a `highspy.Highs` and read each back.

    Raises:
        SolverMissing: when HiGHS has no option of that name, or does not take the value: it would check nothing.
    """
    for name, value in options.items():
        status, default = solver.getOptionValue(name)
        if status != highspy.HighsStatus.kOk:
            raise SolverMissing(f"HiGHS {highs_version()} has no option {name!r}", "check its spelling")
        wanted = type(default)(value)
        solver.setOptionValue(name, wanted)
        if solver.getOptionValue(name)[1] != value:
            raise SolverMissing(f"HiGHS {highs_version()} does not take {value!r} for {name!r}")


def highs_version() -> str:
    """The version of HiGHS that highspy brings, such as "1.16.0", read without making a solver.

    A highspy without these constants is older than any that is accepted, and reads "0.0.0".
    """
    return ".".join(str(getattr(highspy, f"HIGHS_VERSION_{part}", 0)) for part in ("MAJOR", "MINOR", "PATCH"))


class _QuietHighs(Highs):  # type: ignore[misc]
    """Pyomo's persistent interface without its capture of the process's output, which HiGHS, silenced, does not need.

    The capture swaps file descriptors and starts a thread at every solve: slower than a small solve itself, and a
    deadlock when it happens in two threads (see `_TURN`). Changes to the model are reported, never searched for.
    """

    def set_instance(self, model: pyo.ConcreteModel) -> None:
        """Take a model into a new HiGHS; an interface takes one in its life."""
        _swallow_banner()
        self._model = model
        self._solver_model = highspy.Highs()  # type: ignore[no-untyped-call]
        self._solver_model.setOptionValue("output_flag", False)
        self.add_block(model)
        if self._objective is None:
            self.set_objective(None)

    def run(self) -> Results:
        """Solve the instance as it is.

        Raises:
            KeyboardInterrupt: when Ctrl-C stopped the solve; an interface that was stopped solves no more.
        """
        with _TURN, _stopped_by_ctrl_c(self._solver_model):
            self._solver_model.run()
        if self._solver_model.getModelStatus() == highspy.HighsModelStatus.kInterrupt:
            raise KeyboardInterrupt
        return self._postsolve(io.StringIO())


@contextmanager
def _stopped_by_ctrl_c(solver: highspy.Highs) -> Iterator[None]:
    """Let SIGINT stop a solve, and let whoever handled it before handle it once the solver has returned.

    Raised inside HiGHS, in one of its callbacks, KeyboardInterrupt would be swallowed. Only the main thread has signals.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    seen: list[Any] = []

    def stop(_: int, frame: Any) -> None:
        seen.append(frame)
        solver.cancelSolve()  # type: ignore[no-untyped-call]

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if seen:
        handler(signal.SIGINT, seen[0])


@lru_cache(maxsize=1)
def _swallow_banner() -> None:
    """Make the first HiGHS of the process, which prints a banner on stdout, where results go."""
    with capture_output(capture_fd=True):
        highspy.Highs()  # type: ignore[no-untyped-call]


class SolverSession:
    """One Pyomo model inside HiGHS, solved for one objective after another.

    Takes a model whose objectives are deactivated and the seconds that all solves together may take (None: no limit).

    Raises:
        SolverMissing: when the solver is absent, too old or fails its self-test.
    """

    def __init__(self, model: pyo.ConcreteModel, time_limit_s: float | None = None) -> None:
        with _TURN:
            ready()
        self._model = model
        self._deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
        self._highs = _session_highs(model, OPTIONS)

    def hold(self, constraint: pyo.Constraint) -> None:
        """Activate a constraint of the model, at its parameters' present values, for the solves to come.

        A constraint that is held already takes its new limit. An indexed one is held with all its members.
        """
        members = list(constraint.values())
        if constraint.active:
            self._highs.remove_constraints(members)
        constraint.activate()
        self._highs.add_constraints(members)

    def solve(self, objective: pyo.Objective) -> StageAnswer:
        """Solve for one objective of the model under everything held.

        Gives how it ended. `value` is the solver's own and unchecked; `bound` its dual bound. That there is no solution counts
        only when it is also found without HiGHS's presolve, which has cut off solutions of models with near-ties (1.16.0).

        Raises:
            SolveFailed: when the objective carries a number that is not finite.
            KeyboardInterrupt: when Ctrl-C stopped the solve: what it had found by then is no answer.
        """
        objective.activate()
        try:
            self._highs.set_objective(objective)
        finally:
            objective.deactivate()
        solver = self._highs._solver_model
        if not all(map(math.isfinite, solver.getLp().col_cost_)):
            raise SolveFailed(f"objective {objective.name} carries a number that is not finite")
        answer = self._run()
        if answer.ending is SolveEnding.INFEASIBLE:
            set_options(solver, {"presolve": "off"})
            solver.clearSolver()
            answer = self._run()
            set_options(solver, {"presolve": "choose"})
        return answer

    def _run(self) -> StageAnswer:
        """Solve what is in the solver, in the time that is left."""
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0.0:
                return StageAnswer(SolveEnding.UNDECIDED, None, None, "time limit")
            solver = self._highs._solver_model
            set_options(solver, {"time_limit": solver.getRunTime() + left})
        results = self._highs.run()
        condition = results.termination_condition
        return StageAnswer(
            ending_of(condition), _finite(results.incumbent_objective), _finite(results.objective_bound), condition.name
        )

    def integers(self, variables: Iterable[Any]) -> dict[Any, int]:
        """Indices and rounded values of the integer variables in a solution (1.9999999 is 2).

        Raises:
            SolveFailed: when a value is not near an integer.
        """
        rounded = {}
        for variable, value in self._highs._get_primals(list(variables)).items():
            if not (math.isfinite(value) and abs(value - round(value)) <= 1e-5):
                raise SolveFailed(f"the solver gave {value!r} for the integer {variable.name}")
            rounded[variable.index()] = round(value)
        return rounded


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and abs(value) < highspy.kHighsInf else None


def _session_highs(model: pyo.ConcreteModel, options: Mapping[str, bool | int | float | str]) -> _QuietHighs:
    """The model in a silent HiGHS with its options checked and its coefficients finite."""
    interface = _QuietHighs()
    interface.config.timer = HierarchicalTimer()
    interface.config.load_solutions = False
    interface.config.raise_exception_on_nonoptimal_result = False
    interface.set_instance(model)
    solver = interface._solver_model
    set_options(solver, options)
    solver.HandleUserInterrupt = True
    lp = solver.getLp()
    if not all(map(math.isfinite, lp.a_matrix_.value_)) or any(map(math.isnan, [*lp.col_lower_, *lp.col_upper_])):
        raise SolveFailed("the model carries a number that is not finite")
    return interface


@lru_cache(maxsize=1)
def ready() -> None:
    """Make this process's HiGHS ready, once: version, one thread, and a tiny MILP with a known answer.

    Raises:
        SolverMissing: when highspy is too old or the self-test fails.
    """
    version = highs_version()
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_HIGHS:
        raise SolverMissing(
            f"highspy {version} is too old: its predecessors of 1.15 return wrong optima marked optimal",
            "pip install 'highspy>=1.15'",
        )
    highspy.Highs.resetGlobalScheduler(True)
    fault = self_test()
    if fault:
        raise SolverMissing(f"HiGHS {version} fails its self-test: {fault}", "reinstall highspy (>= 1.15)")


def self_test() -> str:
    """Solve max 2a + 3b + 4.1c, 3a + 4b + 5c <= 17, integers in [0, 5], whose one optimum is (1, 1, 2) with 13.2.

    Gives "" when the solver finds and proves it, otherwise what it reported instead.
    """
    m = pyo.ConcreteModel()
    m.n = pyo.Var([0, 1, 2], domain=pyo.NonNegativeIntegers, bounds=(0, 5))
    m.room = pyo.Constraint(expr=3 * m.n[0] + 4 * m.n[1] + 5 * m.n[2] <= 17)
    m.value = pyo.Objective(expr=2 * m.n[0] + 3 * m.n[1] + 4.1 * m.n[2], sense=pyo.maximize)
    interface = _session_highs(m, OPTIONS)
    results = interface.run()
    condition, found = results.termination_condition, results.incumbent_objective
    if ending_of(condition) is not SolveEnding.OPTIMAL or found is None or abs(found - 13.2) > 1e-6:
        return f"status {condition.name}, objective {found} instead of 13.2"
    bound = results.objective_bound
    return "" if bound is not None and abs(bound - 13.2) <= 1e-6 else f"dual bound {bound} instead of 13.2"


def threads_in_use() -> int:
    """The number of threads that HiGHS solves on in this process, found by solving: with any other it refuses.

    1, unless other code of the process has made it another since it was made ready.

    Raises:
        SolverMissing: when HiGHS is absent, too old, fails its self-test or solves on no number of threads.
    """
    with _TURN:
        ready()
    limit = 2 * (os.cpu_count() or 1)
    for count in range(1, limit + 1):
        m = pyo.ConcreteModel()
        m.n = pyo.Var(domain=pyo.Binary)
        m.room = pyo.Constraint(expr=2 * m.n <= 1)
        results = _session_highs(m, {**OPTIONS, "threads": count}).run()
        if ending_of(results.termination_condition) is SolveEnding.OPTIMAL:
            return count
    raise SolverMissing(
        f"HiGHS {highs_version()} solves on no number of threads up to {limit}", "reinstall highspy (>= 1.15)"
    )

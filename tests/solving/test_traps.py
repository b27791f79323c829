"""What this stack is known to do wrong in silence, and that none of it comes through."""

import math
import random
import subprocess
import sys
import types
from pathlib import Path

import highspy
import pyomo.environ as pyo
import pytest
from fleets import fleet, paper_fleet
from fleetsieve_models.lexicographic import lexicographic
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool
from pyomo.common.collections import ComponentMap
from pyomo.contrib.solver.common.results import TerminationCondition

from fleetsieve.engines.solving import Milp, highs, self_test
from fleetsieve.engines.solving.highs import OPTIONS, SolveEnding, SolverSession, StageAnswer, ending_of, set_options
from fleetsieve.errors import SolveFailed, SolverMissing


@pytest.fixture
def options(monkeypatch):
    """Solve with other options than ours."""

    def change(**changes):
        monkeypatch.setattr(highs, "OPTIONS", types.MappingProxyType({**OPTIONS, **changes}))

    return change


@pytest.fixture
def fresh():
    """A process that has not solved yet, before and after."""
    highs.ready.cache_clear()
    yield
    highs.ready.cache_clear()


def shift_solutions(monkeypatch, shift):
    exact = highs._QuietHighs._get_primals

    def shifted(self, variables):
        return ComponentMap((v, x + shift) for v, x in exact(self, variables).items())

    monkeypatch.setattr(highs._QuietHighs, "_get_primals", shifted)


def near_ties():
    """Plans that differ by 7e-5 of the goodput, less than the default relative gap of 1e-4."""
    draw = random.Random(10)
    demands = {f"class{i}": 1000.0 for i in range(6)}
    cells = {
        (i, k): (f"class{i}", tp, round(10.0 * tp * draw.uniform(0.97, 1.03), 3))
        for i in range(6)
        for k, tp in enumerate((2, 3, 5, 7))
    }
    return fleet(demands, cells, 197)


def test_the_default_gap_gives_a_worse_plan_and_ours_does_not(options):
    problem = near_ties()
    ours = Milp(presolve=False).optimise(problem, ("goodput",))
    options(mip_rel_gap=1e-4, mip_abs_gap=1e-6)
    theirs = Milp(presolve=False).optimise(problem, ("goodput",))
    assert theirs.allocation.goodput_rps < ours.allocation.goodput_rps - 1e-6


def test_every_stage_has_no_gap():
    assert OPTIONS["mip_rel_gap"] == OPTIONS["mip_abs_gap"] == 0.0


def test_a_misspelt_option_is_an_error(options):
    options(mip_relative_gap=0.0)
    with pytest.raises(SolverMissing, match="no option 'mip_relative_gap'"):
        Milp().optimise(paper_fleet())


def test_a_value_that_the_solver_does_not_take_is_an_error():
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    with pytest.raises(SolverMissing, match="does not take -1"):
        set_options(solver, {"threads": -1})


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_no_number_that_is_not_finite_reaches_a_problem(bad):
    with pytest.raises(ValueError, match="not a finite number"):
        fleet({"chat": bad}, {"chat": ("chat", 1, 1.0)})
    with pytest.raises(ValueError, match="not a finite number"):
        fleet({"chat": 1.0}, {"chat": ("chat", 1, bad)})
    with pytest.raises(ValueError, match="not a finite number"):
        FleetProblem((), (), (GpuPool("default", 8, None, bad),))
    if bad != -1.0:
        with pytest.raises(ValueError, match="cannot be held"):
            Milp().optimise(paper_fleet(), holds={"shortfall": bad})
    with pytest.raises(ValueError, match="eta"):
        Milp().optimise(paper_fleet(), eta=bad)


@pytest.mark.parametrize("gpus", [-1, 8])
def test_a_pool_that_cannot_be_is_refused(gpus):
    with pytest.raises(ValueError, match="pool"):
        FleetProblem((), (), (GpuPool("default", gpus, 0),))


def test_an_infinite_objective_is_refused():
    m = pyo.ConcreteModel()
    m.n = pyo.Var(domain=pyo.Binary)
    m.room = pyo.Constraint(expr=2 * m.n <= 3)
    m.value = pyo.Objective(expr=math.inf * m.n)
    m.value.deactivate()
    with pytest.raises((SolveFailed, ValueError)):
        SolverSession(m).solve(m.value)


@pytest.mark.parametrize("condition", list(TerminationCondition))
def test_only_a_plain_infeasible_is_infeasible(condition):
    proves = {
        TerminationCondition.convergenceCriteriaSatisfied: SolveEnding.OPTIMAL,
        TerminationCondition.provenInfeasible: SolveEnding.INFEASIBLE,
    }
    assert ending_of(condition) is proves.get(condition, SolveEnding.UNDECIDED)


@pytest.mark.parametrize("reason", ["infeasibleOrUnbounded", "maxTimeLimit", "unknown"])
def test_a_status_that_proves_nothing_is_undecided(monkeypatch, reason):
    monkeypatch.setattr(
        SolverSession, "solve", lambda self, objective: StageAnswer(SolveEnding.UNDECIDED, None, None, reason)
    )
    found = Milp().optimise(paper_fleet())
    assert (found.allocation, found.proven, found.infeasible) == (None, False, False)
    assert found.bounds["min_fulfilment"] is None
    assert found.reason == f"stage min_fulfilment: {reason}"


def test_no_time_is_undecided_not_infeasible():
    found = Milp(time_limit_s=0.0).optimise(paper_fleet())
    assert (found.allocation, found.proven, found.infeasible) == (None, False, False)


def test_an_incumbent_without_proof_is_a_plan_without_proof(monkeypatch):
    whole = SolverSession.solve

    def hurried(self, objective):
        answer = whole(self, objective)
        return (
            StageAnswer(SolveEnding.UNDECIDED, answer.value, 0.9, "maxTimeLimit")
            if objective.name == "goodput"
            else answer
        )

    monkeypatch.setattr(SolverSession, "solve", hurried)
    found = Milp().optimise(paper_fleet(1.3))
    assert not found.proven
    assert found.allocation is not None
    assert list(found.values) == ["shortfall", "min_fulfilment", "goodput"]


def test_nearly_whole_replicas_are_rounded_and_recomputed(monkeypatch):
    shift_solutions(monkeypatch, -1e-7)
    found = Milp().optimise(paper_fleet())
    assert dict(found.allocation.replica_counts) == {"Chat TP4": 2, "Code TP4": 2}
    assert found.allocation.goodput_rps == 28.0


@pytest.mark.parametrize(
    ("shift", "said"), [(0.3, "for the integer"), (1.0, "the plan|the solver says|its plan"), (math.nan, "integer")]
)
def test_a_plan_that_fails_the_re_check_is_an_error(monkeypatch, shift, said):
    shift_solutions(monkeypatch, shift)
    with pytest.raises(SolveFailed, match=said):
        Milp().optimise(paper_fleet())


def test_a_bound_that_the_plan_beats_is_an_error(monkeypatch):
    whole = SolverSession.solve

    def lying(self, objective):
        answer = whole(self, objective)
        return StageAnswer(answer.ending, answer.value, answer.bound - 0.1, answer.reason)

    monkeypatch.setattr(SolverSession, "solve", lying)
    with pytest.raises(SolveFailed, match="proves"):
        Milp().optimise(paper_fleet(1.3))


def test_a_stage_that_loses_its_plan_is_an_error(monkeypatch):
    whole = SolverSession.solve

    def losing(self, objective):
        return (
            StageAnswer(SolveEnding.INFEASIBLE, None, None, "") if objective.name == "spare" else whole(self, objective)
        )

    monkeypatch.setattr(SolverSession, "solve", losing)
    with pytest.raises(SolveFailed, match="stage spare has no plan"):
        Milp().optimise(paper_fleet())


def test_nothing_is_printed(capfd, fresh):
    Milp().optimise(paper_fleet())
    Milp().optimise(paper_fleet(1.3), holds={"min_fulfilment": 2.0})
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


@pytest.mark.slow
def test_nothing_is_printed_by_a_whole_process():
    code = (
        "from fleets import paper_fleet; from fleetsieve.engines.solving import Milp; from fleetsieve.doctor import examine;"
        "assert Milp().optimise(paper_fleet()).proven; examine()"
    )
    path = ":".join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.slow
def test_solves_in_threads_take_turns_from_the_first_on():
    code = (
        "from concurrent.futures import ThreadPoolExecutor; from fleets import paper_fleet\n"
        "from fleetsieve.engines.solving import Milp\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    found = list(pool.map(lambda k: Milp().optimise(paper_fleet(1 + k / 50)).values['goodput'], range(40)))\n"
        "assert found == [Milp().optimise(paper_fleet(1 + k / 50)).values['goodput'] for k in range(40)]"
    )
    path = ":".join([str(Path(__file__).parent), *sys.path])
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, check=True, timeout=60)


def solve_on(threads):
    """What other code in the process may do with HiGHS."""
    highspy.Highs.resetGlobalScheduler(True)
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    other.setOptionValue("threads", threads)
    other.addVar(0, 1)
    other.changeColsIntegrality(1, [0], [highspy.HighsVarType.kInteger])
    other.run()


def test_a_solve_on_more_threads_before_ours_does_no_harm(fresh):
    solve_on(2)
    assert Milp().optimise(paper_fleet()).proven
    assert highs.threads_in_use() == 1


def test_a_solve_on_more_threads_after_ours_is_found(fresh, capfd):
    assert highs.threads_in_use() == 1
    solve_on(2)
    assert highs.threads_in_use() == 2
    assert not Milp().optimise(paper_fleet()).proven
    solve_on(1)
    assert highs.threads_in_use() == 1
    assert capfd.readouterr() == ("", "")


def test_no_number_of_threads_is_an_error(monkeypatch):
    highs.ready()
    monkeypatch.setattr(highs, "ending_of", lambda condition: SolveEnding.UNDECIDED)
    with pytest.raises(SolverMissing, match="on no number of threads"):
        highs.threads_in_use()


def test_a_solver_that_fails_the_self_test_is_refused(monkeypatch, fresh):
    monkeypatch.setattr(highs, "self_test", lambda: "objective 13.1 instead of 13.2")
    with pytest.raises(SolverMissing, match=r"fails its self-test: objective 13\.1"):
        Milp().optimise(paper_fleet())


def test_the_self_test_notices_a_wrong_optimum(monkeypatch):
    assert self_test() == ""
    run = highs._QuietHighs.run

    def wrong(self):
        results = run(self)
        results.incumbent_objective = 13.1
        return results

    monkeypatch.setattr(highs._QuietHighs, "run", wrong)
    assert "13.1 instead of 13.2" in self_test()


def test_an_old_solver_is_refused(monkeypatch, fresh):
    monkeypatch.setattr(highs, "highs_version", lambda: "1.14.0")
    with pytest.raises(SolverMissing, match=r"highspy 1\.14\.0 is too old"):
        Milp().optimise(paper_fleet())


def test_a_plan_that_presolve_cuts_off_is_found():
    """HiGHS 1.16.0 with presolve and tight tolerances: "infeasible", where twice 1.6 requests/s are a demand but for 5e-8."""
    demand_rps = 3.20000014576149
    problem = fleet(
        {"chat": demand_rps, "code": demand_rps},
        {"wide": ("chat", 3, 1.632), "wider": ("chat", 4, 1.6), "narrow": ("code", 1, 1.6)},
        12,
        4,
        chat={"floor": 0.0},
        code={"floor": 2.0 / demand_rps},
    )
    found = Milp().optimise(problem)
    assert found.proven
    assert found.values["min_fulfilment"] == pytest.approx(1.0)


def test_the_self_test_runs_once(monkeypatch, fresh):
    calls = []
    monkeypatch.setattr(highs, "self_test", lambda: calls.append(1) or "")
    Milp().optimise(paper_fleet())
    Milp().optimise(paper_fleet())
    assert calls == [1]


@pytest.mark.parametrize("stages", [("goodput", "shortfall"), ("speed",), ("goodput", "spare"), ("goodput", "goodput")])
def test_stages_that_make_no_sense_are_refused(stages):
    with pytest.raises(ValueError, match="stage"):
        Milp().optimise(paper_fleet(), stages)


@pytest.mark.slow
def test_the_same_input_gives_the_same_answer_twice():
    problem = near_ties()
    first, again = Milp().optimise(problem), Milp().optimise(problem)
    assert first.allocation.replica_counts == again.allocation.replica_counts
    assert (first.values, first.bounds) == (again.values, again.bounds)


def test_small_and_large_demands_meet():
    demands = {"tiny": 1e-2, "huge": 5e4}
    cells = {"tiny": ("tiny", 1, 3e-3), "huge": ("huge", 8, 900.0)}
    problem = FleetProblem(
        tuple(ClassDemand(i, rate) for i, rate in demands.items()),
        tuple(Configuration(name, *rest) for name, rest in cells.items()),
        (GpuPool("default", 64),),
    )
    found = Milp().optimise(problem)
    assert found.proven
    assert dict(found.allocation.replica_counts) == {"tiny": 4, "huge": 7}


def test_a_session_holds_only_what_is_held():
    model = lexicographic(paper_fleet())
    assert not any(c.active for c in model.component_objects(pyo.Objective))
    assert not model.hold_goodput.active

"""The formulations as they stand: numbers in, Pyomo models out, nothing solved."""

import subprocess
import sys

import pyomo.environ as pyo
import pytest
from fleetsieve_models import fewest_gpus as dual
from fleetsieve_models.elastic import QUESTIONS, elastic
from fleetsieve_models.fewest_gpus import fewest_gpus
from fleetsieve_models.lexicographic import lexicographic
from fleetsieve_models.problem import STAGES, ClassDemand, Configuration, FleetProblem, GpuPool
from fleetsieve_models.selection import enlarged, replicas_for, served_classes
from fleetsieve_models.stages import stages
from pyomo.core.expr.visitor import identify_variables

from fleetsieve import allocation


def problem(node=8, sizes=(2, 4), floor=0.5, **pool):
    cells = tuple(Configuration(f"{c} TP{g}", c, g, 1.5 * g) for c in ("chat", "code") for g in sizes)
    classes = (
        ClassDemand("chat", 10.0, 2.0, floor),
        ClassDemand("code", 5.0),
        ClassDemand("lost", 1.0, in_minimum=False),
    )
    return FleetProblem(classes, cells, (GpuPool("default", 20, node, **pool),))


def give(m, n, r):
    """Set replicas and fulfilments (and the selectors that follow)."""
    for k in m.CONFIGURATIONS:
        m.n[k].set_value(n.get(k, 0), skip_validation=True)
        m.y[k].set_value(float(k in n))
    for i in m.SERVED:
        m.r[i].set_value(r[i])


def broken(m):
    """The constraints that the values given break."""
    return {
        c.parent_component().name
        for c in m.component_data_objects(pyo.Constraint, active=True)
        if all(v.value is not None for v in identify_variables(c.body)) and c.slack() < -1e-9
    }


def test_the_stages_are_those_of_the_evaluation():
    assert STAGES == allocation.STAGES


@pytest.mark.parametrize(
    ("build", "names"), [(lexicographic, STAGES), (fewest_gpus, dual.STAGES), (elastic, QUESTIONS)]
)
def test_every_objective_and_hold_starts_deactivated(build, names):
    m = build(problem(price_per_gpu_h=2.0))
    assert set(stages(m, names)) == set(names)
    assert not list(m.component_objects(pyo.Objective, active=True))
    for stage in stages(m, names).values():
        assert not stage.hold.active
        assert stage.limit.mutable


@pytest.mark.parametrize(
    ("n", "r", "fault"),
    [
        ({0: 2, 3: 1}, {"chat": 0.6, "code": 1.0}, set()),
        ({0: 1, 1: 1}, {"chat": 0.9, "code": 0.0}, {"one_configuration"}),
        ({0: 2}, {"chat": 0.61, "code": 0.0}, {"capacity"}),
        ({1: 2, 3: 1}, {"chat": 1.0, "code": 1.0}, set()),
        ({0: 2, 2: 9}, {"chat": 0.6, "code": 1.0}, {"only_if_selected", "gpus_of_pool"}),
    ],
)
def test_equations_1_to_4(n, r, fault):
    m = lexicographic(problem())
    give(m, n, r)
    assert broken(m) == fault
    assert all(m.r[i].ub == 1 and m.r[i].lb == 0 for i in m.SERVED)


def test_big_m_is_the_fewest_that_can_matter():
    m = lexicographic(problem())
    assert [m.M[k] for k in m.CONFIGURATIONS] == [4, 2, 2, 1]
    m = lexicographic(FleetProblem((ClassDemand("chat", 1e6),), problem().configurations[:2], problem().pools))
    assert [m.M[k] for k in m.CONFIGURATIONS] == [10, 5]


@pytest.mark.parametrize(("rate", "capacity", "count"), [(10.0, 3.0, 4), (0.3, 0.1, 3), (0.7, 0.1, 7), (1.0, 5.0, 1)])
def test_replicas_for_a_rate(rate, capacity, count):
    assert replicas_for(rate, capacity) == count
    assert count * capacity >= rate


def test_stages_that_no_plan_can_change_are_absent():
    m = lexicographic(problem(node=None, floor=None))
    assert set(STAGES) - set(stages(m, STAGES)) == {"shortfall", "nodes"}
    alone = FleetProblem(
        (ClassDemand("chat", 1.0, in_minimum=False),), (Configuration("a", "chat", 1, 1.0),), problem().pools
    )
    assert "min_fulfilment" not in stages(lexicographic(alone), STAGES)
    assert "price" not in stages(fewest_gpus(problem()), dual.STAGES)


def test_classes_that_cannot_be_served_are_in_no_sum():
    m = lexicographic(problem())
    assert set(m.SERVED) == {"chat", "code"} == {c.name for c in served_classes(problem())}


def test_patterns_appear_only_where_counting_is_not_enough():
    assert lexicographic(problem(sizes=(2, 4))).component("z") is None
    m = lexicographic(problem(sizes=(3, 4)))
    assert [key for key in m.PATTERNS if key[1] == "full"] == [("default", "full", k) for k in range(3)]
    assert [key for key in m.PATTERNS if key[1] == "partial"] == [("default", "partial", k) for k in range(2)]


@pytest.mark.parametrize("eta", [-0.1, float("inf"), float("nan")])
def test_eta_must_be_a_slack(eta):
    with pytest.raises(ValueError, match="eta"):
        lexicographic(problem(), eta)


def test_the_hold_of_the_minimum_has_the_slack_eta():
    m = lexicographic(problem(), 0.1)
    stage = stages(m, STAGES)["min_fulfilment"]
    stage.limit.set_value(0.5)
    assert stage.maximise
    assert pyo.value(stage.hold.lower) == pytest.approx(0.4)


def test_an_enlarged_fleet_grows_by_whole_nodes():
    large = enlarged(problem())
    assert (large.pools[0].gpus - 20) % 8 == 0
    assert large.pools[0].gpus >= 4 * 2 + 2 * 4


def test_models_do_not_know_the_package_that_uses_them():
    code = (
        "import sys, fleetsieve_models.lexicographic, fleetsieve_models.fewest_gpus, fleetsieve_models.elastic;"
        "sys.exit(any(m == 'fleetsieve' or m.startswith('fleetsieve.') for m in sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False).returncode
        == 0
    )

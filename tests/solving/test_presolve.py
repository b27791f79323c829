"""Dominated configurations: dropped for the right reason, without changing any answer."""

import pytest
from fleets import fleet, random_fleet

from fleetsieve.allocation import STAGES
from fleetsieve.engines.solving import Milp
from fleetsieve.engines.solving.presolve import may_presolve, undominated


def left(problem):
    return [q.name for q in undominated(problem).configurations if q.capacity_rps > 0.0]


def test_a_smaller_replica_that_serves_more_per_gpu_dominates():
    assert left(fleet({"chat": 99.0}, {"TP8": ("chat", 8, 10.0), "TP4": ("chat", 4, 6.0)})) == ["TP4"]


def test_a_larger_replica_never_dominates():
    assert left(fleet({"chat": 99.0}, {"TP8": ("chat", 8, 14.0), "TP4": ("chat", 4, 6.0)})) == ["TP8", "TP4"]


def test_a_size_that_does_not_divide_never_dominates():
    assert left(fleet({"chat": 99.0}, {"TP3": ("chat", 3, 9.0), "TP8": ("chat", 8, 1.0)})) == ["TP3", "TP8"]


def test_a_tie_in_spare_capacity_is_left_to_the_replicas():
    assert left(fleet({"chat": 99.0}, {"TP8": ("chat", 8, 12.0), "TP4": ("chat", 4, 6.0)})) == ["TP8", "TP4"]


def test_of_equals_the_first_stays_and_its_place_too():
    problem = fleet({"chat": 99.0}, {"x": ("chat", 4, 1.0), "a": ("chat", 2, 6.0), "b": ("chat", 2, 6.0)})
    assert left(problem) == ["a"]
    assert [q.name for q in undominated(problem).configurations] == ["x", "a", "b"]


def test_other_classes_and_idle_ones_dominate_nothing():
    problem = fleet({"chat": 9.0, "idle": 0.0}, {"chat": ("chat", 2, 1.0), "idle": ("idle", 1, 9.0)})
    assert left(problem) == ["chat"]


def test_stages_that_count_replicas_without_spare_are_not_presolved():
    assert may_presolve(STAGES)
    assert may_presolve(STAGES[:3])
    assert not may_presolve(("goodput", "gpus", "replicas"))
    problem = fleet({"chat": 8.0}, {"TP8": ("chat", 8, 10.0), "TP4": ("chat", 4, 6.0)}, 8)
    found = Milp().optimise(problem, ("goodput", "gpus", "replicas"))
    assert dict(found.allocation.replica_counts) == {"TP8": 1}


@pytest.mark.parametrize("seed", range(80))
def test_with_and_without_presolve(seed):
    problem, eta = random_fleet(4000 + seed), (0.0, 0.08)[seed % 2]
    on, off = Milp().optimise(problem, eta=eta), Milp(presolve=False).optimise(problem, eta=eta)
    assert on.values == pytest.approx(off.values, rel=1e-8, abs=1e-8)
    assert on.allocation.order == off.allocation.order

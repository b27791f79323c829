"""Fleets made by hand, named for what is special about them; each has one right plan."""

import pytest
from fleets import fleet
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool

from fleetsieve.allocation import STAGES
from fleetsieve.engines.solving import Milp


@pytest.fixture(params=[True, False], ids=["presolve", "whole"])
def plan_of(request):
    def solve(problem, stages=STAGES, **how):
        found = Milp(presolve=request.param).optimise(problem, stages, **how)
        assert found.proven
        return found, dict(found.allocation.replica_counts)

    return solve


def test_a_floor_goes_before_the_minimum(plan_of):
    problem = fleet(
        {"chat": 10.0, "code": 10.0},
        {"chat": ("chat", 1, 2.0), "code": ("code", 1, 2.0)},
        gpus=6,
        code={"floor": 1.0},
    )
    found, plan = plan_of(problem)
    assert plan == {"chat": 1, "code": 5}
    assert found.values["shortfall"] == 0.0


def test_the_dearer_floor_is_met_when_only_one_can_be(plan_of):
    problem = fleet(
        {"chat": 4.0, "code": 4.0},
        {"chat": ("chat", 2, 4.0), "code": ("code", 2, 4.0)},
        gpus=3,
        chat={"floor": 0.5, "priority": 1.0},
        code={"floor": 0.5, "priority": 2.0},
    )
    found, plan = plan_of(problem)
    assert plan == {"code": 1}
    assert found.values["shortfall"] == 0.5


def test_the_minimum_goes_before_goodput(plan_of):
    problem = fleet({"chat": 10.0, "code": 10.0}, {"chat": ("chat", 1, 5.0), "code": ("code", 1, 1.0)}, gpus=6)
    found, plan = plan_of(problem)
    assert plan == {"chat": 1, "code": 5}
    assert found.values["min_fulfilment"] == 0.5


def test_the_fairness_slack_buys_goodput(plan_of):
    problem = fleet({"chat": 10.0, "code": 10.0}, {"chat": ("chat", 1, 5.0), "code": ("code", 1, 1.0)}, gpus=6)
    found, plan = plan_of(problem, eta=0.1)
    assert plan == {"chat": 2, "code": 4}
    assert found.values["goodput"] == 14.0


def test_spare_capacity_prefers_two_of_four_to_one_of_eight(plan_of):
    problem = fleet({"chat": 8.0}, {"TP8": ("chat", 8, 10.0), "TP4": ("chat", 4, 6.0)}, 8, 8)
    assert plan_of(problem)[1] == {"TP4": 2}


def test_equal_spare_prefers_fewer_replicas(plan_of):
    problem = fleet({"chat": 8.0}, {"TP4": ("chat", 4, 5.0), "TP8": ("chat", 8, 10.0)}, 8, 8)
    assert plan_of(problem)[1] == {"TP8": 1}


def test_equal_plans_go_to_the_first_in_the_fixed_order(plan_of):
    cells = {"b": ("chat", 2, 5.0), "a": ("chat", 2, 5.0), "c": ("chat", 2, 5.0)}
    assert plan_of(fleet({"chat": 8.0}, cells))[1] == {"b": 2}


def test_fewer_gpus_win_when_the_demand_is_met(plan_of):
    problem = fleet({"chat": 5.0}, {"wide": ("chat", 4, 9.0), "narrow": ("chat", 1, 2.5)})
    found, plan = plan_of(problem)
    assert plan == {"narrow": 2}
    assert found.values["gpus"] == 2.0


def test_three_and_three_free_gpus_do_not_host_a_replica_of_four(plan_of):
    cells = {"small": ("chat", 5, 1.0), "TP4": ("code", 4, 1.0)}
    problem = fleet({"chat": 2.0, "code": 1.0}, cells, 16, 8, chat={"floor": 1.0})
    found, plan = plan_of(problem)
    assert plan == {"small": 2}
    assert found.bounds["min_fulfilment"] == pytest.approx(0.0, abs=1e-6)
    assert plan_of(fleet({"chat": 2.0, "code": 1.0}, cells, 16, None))[1] == {"small": 2, "TP4": 1}


def test_a_partial_last_node_hosts_what_fits_it(plan_of):
    cells = {"six": ("chat", 6, 1.0), "three": ("code", 3, 1.0)}
    assert plan_of(fleet({"chat": 1.0, "code": 1.0}, cells, 11, 8))[1] == {"six": 1, "three": 1}
    assert plan_of(fleet({"chat": 1.0, "code": 1.0}, cells, 10, 8))[1] == {"three": 1}


def test_fewer_nodes_win_among_equally_many_gpus(plan_of):
    cells = {"three": ("chat", 3, 1.0), "six": ("chat", 6, 2.0), "code": ("code", 5, 1.0)}
    found, plan = plan_of(fleet({"chat": 2.0, "code": 1.0}, cells, 24, 8))
    assert plan == {"six": 1, "code": 1} or plan == {"three": 2, "code": 1}
    assert found.values["nodes"] == 2.0
    assert plan["code"] == 1


def test_nodes_decide_between_pools():
    problem = FleetProblem(
        (ClassDemand("chat", 2.0), ClassDemand("code", 2.0)),
        (
            Configuration("chat far", "chat", 2, 2.0, "far"),
            Configuration("chat near", "chat", 2, 2.0, "near"),
            Configuration("code near", "code", 2, 2.0, "near"),
        ),
        (GpuPool("near", 8, 4), GpuPool("far", 8, 4)),
    )
    found = Milp().optimise(problem)
    assert dict(found.allocation.replica_counts) == {"chat near": 1, "code near": 1}
    assert (found.values["nodes"], found.bounds["nodes"]) == (1.0, 1.0)


def test_each_pool_has_its_own_gpus(plan_of):
    problem = FleetProblem(
        (ClassDemand("chat", 10.0),),
        (Configuration("old", "chat", 1, 1.0, "old"), Configuration("new", "chat", 2, 3.0, "new")),
        (GpuPool("old", 5), GpuPool("new", 2)),
    )
    found, plan = plan_of(problem)
    assert plan == {"old": 5}
    assert found.values["goodput"] == 5.0


def test_an_unservable_class_blinds_the_minimum_unless_it_is_out_of_it(plan_of):
    demands = {"chat": 4.0, "code": 4.0, "lost": 1.0}
    cells = {"chat": ("chat", 1, 1.0), "code": ("code", 1, 1.0)}
    found, _ = plan_of(fleet(demands, cells, 4))
    assert (found.values["min_fulfilment"], found.bounds["min_fulfilment"]) == (0.0, 0.0)
    found, plan = plan_of(fleet(demands, cells, 4, lost={"in_minimum": False}))
    assert plan == {"chat": 2, "code": 2}
    assert found.values["min_fulfilment"] == 0.5


def test_an_unservable_critical_class_is_a_proven_shortfall(plan_of):
    problem = fleet(
        {"chat": 4.0, "lost": 1.0},
        {"chat": ("chat", 1, 4.0)},
        lost={"floor": 0.5, "priority": 3.0, "in_minimum": False},
    )
    found, plan = plan_of(problem)
    assert plan == {"chat": 1}
    assert found.values["shortfall"] == 1.5
    assert found.bounds["shortfall"] == pytest.approx(1.5, abs=1e-6)


@pytest.mark.parametrize("cells", [{}, {"dead": ("chat", 1, 0.0)}, {"huge": ("chat", 32, 9.0)}])
def test_nothing_to_serve_with_is_the_empty_plan(plan_of, cells):
    found, plan = plan_of(fleet({"chat": 4.0}, cells, chat={"floor": 0.5}))
    assert plan == {}
    assert found.values == found.bounds
    assert (found.values["shortfall"], found.values["min_fulfilment"], found.values["goodput"]) == (0.5, 0.0, 0.0)


def test_the_empty_plan_too_must_keep_limits_from_outside():
    found = Milp().optimise(fleet({"chat": 4.0}, {}), holds={"min_fulfilment": 0.1})
    assert found.infeasible
    assert not Milp().optimise(fleet({"chat": 4.0}, {}), holds={"min_fulfilment": 0.0}).infeasible


def test_a_class_that_demands_nothing_is_fulfilled_and_gets_nothing(plan_of):
    cells = {"idle": ("idle", 1, 9.0), "chat": ("chat", 1, 1.0)}
    found, plan = plan_of(fleet({"idle": 0.0, "chat": 3.0}, cells, 2, idle={"floor": 1.0}))
    assert plan == {"chat": 2}
    assert (found.values["shortfall"], found.values["goodput"]) == (0.0, 2.0)
    found, plan = plan_of(fleet({"idle": 0.0}, {"idle": ("idle", 1, 9.0)}))
    assert (plan, found.values["min_fulfilment"]) == ({}, 1.0)


def test_a_configuration_without_capacity_is_never_used(plan_of):
    assert plan_of(fleet({"chat": 3.0}, {"dead": ("chat", 1, 0.0), "live": ("chat", 2, 1.0)}, 4))[1] == {"live": 2}


def test_limits_from_outside_take_no_fairness_slack(plan_of):
    problem = fleet({"chat": 10.0, "code": 10.0}, {"chat": ("chat", 1, 5.0), "code": ("code", 1, 1.0)}, gpus=6)
    found, plan = plan_of(problem, ("goodput",), eta=0.1, holds={"min_fulfilment": 0.5})
    assert plan == {"chat": 1, "code": 5}
    assert set(found.values) == {"goodput"}
    assert Milp().optimise(problem, ("goodput",), holds={"min_fulfilment": 0.51}).infeasible
    assert plan_of(problem, eta=0.1, holds={"min_fulfilment": 0.5})[1] == {"chat": 1, "code": 5}


def test_a_shortfall_may_be_limited_without_being_a_stage(plan_of):
    problem = fleet(
        {"chat": 4.0, "code": 4.0}, {"chat": ("chat", 1, 4.0), "code": ("code", 1, 1.0)}, 2, code={"floor": 0.5}
    )
    assert plan_of(problem, ("goodput",))[0].values["goodput"] == 5.0
    found, _ = plan_of(problem, ("goodput",), holds={"shortfall": 0.0})
    assert found.values["goodput"] == 2.0
    assert Milp().optimise(problem, ("goodput",), holds={"shortfall": 0.0, "min_fulfilment": 0.3}).infeasible


def test_a_difference_smaller_than_the_solver_needs_as_slack_still_decides(plan_of):
    more = fleet({"chat": 9.0}, {"dear": ("chat", 3, 3.0 + 1.5e-7), "cheap": ("chat", 2, 3.0)}, 3)
    assert plan_of(more)[1] == {"dear": 1}
    tie = fleet({"chat": 9.0}, {"dear": ("chat", 3, 3.0 + 1e-10), "cheap": ("chat", 2, 3.0)}, 3)
    assert plan_of(tie)[1] == {"cheap": 1}

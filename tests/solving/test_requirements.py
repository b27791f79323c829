"""The fewest GPUs against trying every plan, shortages by hand, and what is said of them."""

import pytest
from fleets import counts, every_plan, figures, fleet, paper_fleet, random_fleet
from fleetsieve_models.fewest_gpus import STAGES as NEED_STAGES
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool
from fleetsieve_models.selection import enlarged, replicas_for

from fleetsieve.allocation import tolerance
from fleetsieve.answers.shortage import explain
from fleetsieve.engines.solving import optimise_fewest_gpus, optimise_shortage, requirements
from fleetsieve.engines.solving.highs import SolveEnding, SolverSession, StageAnswer
from fleetsieve.errors import SolveFailed


def full_service(problem):
    """The plans that serve every servable class in full without a replica too many, best first by all stages."""
    large = enlarged(problem)
    price = {p.name: p.price_per_gpu_h for p in problem.pools}
    left = []
    for plan in every_plan(large, most=lambda c, q: replicas_for(c.demand_rps, q.capacity_rps)):
        values = figures(large, plan)
        values["price"] = sum(price[q.pool] * q.gpus * n for q, n in (use for use in plan if use))
        if all(
            use is not None and use[0].capacity_rps * use[1] >= c.demand_rps
            for c, use in zip(problem.classes, plan, strict=True)
            if c.demand_rps > 0 and large.configurations_of[c.name]
        ):
            left.append((plan, values))
    for stage in NEED_STAGES:
        sign = -1.0 if stage == "spare" else 1.0
        best = min(sign * v[stage] for _, v in left)
        left = [(p, v) for p, v in left if sign * v[stage] <= best + tolerance(best)]
    return left


def small(problem):
    """The problem with demands that few replicas can serve, and prices."""
    classes = tuple(
        ClassDemand(
            c.name, min(c.demand_rps, 1.5 * max((q.capacity_rps for q in problem.configurations_of[c.name]), default=1))
        )
        for c in problem.classes
    )
    pools = tuple(GpuPool(p.name, p.gpus, p.gpus_per_node, 1.0 + k) for k, p in enumerate(problem.pools))
    cells = tuple(q for q in problem.configurations if q.capacity_rps == 0.0 or q.capacity_rps > 1.0)
    return FleetProblem(classes, cells, pools)


@pytest.mark.parametrize("seed", range(60))
def test_fewest_gpus_against_enumeration(seed):
    problem = small(random_fleet(2000 + seed))
    need = optimise_fewest_gpus(problem)
    large = enlarged(problem)
    if any(c.demand_rps > 0.0 and not large.configurations_of[c.name] for c in problem.classes):
        assert need.optimum.infeasible
        assert "no configuration" in need.optimum.reason
        return
    left = full_service(problem)
    values = left[0][1]
    assert dict(need.optimum.allocation.replica_counts) in [counts(p) for p, _ in left]
    assert need.optimum.values == pytest.approx({stage: values[stage] for stage in NEED_STAGES})
    assert need.price_per_h == pytest.approx(values["price"])
    assert sum(need.gpus.values()) == values["gpus"]
    assert need.optimum.allocation.min_fulfilment == 1.0


def test_the_paper_at_twice_its_demand_needs_28_gpus():
    need = optimise_fewest_gpus(paper_fleet(2.0))
    assert dict(need.optimum.allocation.replica_counts) == {"Chat TP4": 4, "Code TP4": 3}
    assert need.gpus == {"default": 28}
    assert need.optimum.bounds["gpus"] == 28.0


def test_a_cheaper_pool_wins_among_equally_many_gpus():
    problem = FleetProblem(
        (ClassDemand("chat", 4.0),),
        (Configuration("dear", "chat", 2, 2.0, "dear"), Configuration("cheap", "chat", 4, 4.0, "cheap")),
        (GpuPool("dear", 0, 8, 3.0), GpuPool("cheap", 0, 8, 2.0)),
    )
    need = optimise_fewest_gpus(problem)
    assert need.gpus == {"dear": 0, "cheap": 4}
    assert need.price_per_h == 8.0


def test_a_replica_larger_than_a_node_is_no_answer():
    need = optimise_fewest_gpus(fleet({"chat": 4.0}, {"TP16": ("chat", 16, 9.0)}, 64, 8))
    assert need.optimum.infeasible
    assert need.optimum.reason == "chat has no configuration"


def test_nothing_demanded_needs_nothing():
    need = optimise_fewest_gpus(fleet({"chat": 0.0}, {}))
    assert need.optimum.values["gpus"] == 0.0


def test_short_by_gpus_and_by_requests():
    problem = fleet({"code": 10.0}, {"TP1": ("code", 1, 1.3)}, gpus=5, code={"floor": 0.86})
    assert optimise_shortage(problem).gpus == {"default": 2}
    assert explain(problem) == "short by 2 GPUs; code lacks 2.1 requests/s"


def test_the_class_of_less_priority_lacks():
    problem = fleet(
        {"chat": 4.0, "code": 4.0},
        {"chat": ("chat", 1, 1.0), "code": ("code", 1, 1.0)},
        gpus=7,
        chat={"floor": 1.0, "priority": 2.0},
        code={"floor": 1.0},
    )
    assert explain(problem) == "short by 1 GPU; code lacks 1.0 requests/s"


def test_a_class_without_a_configuration_is_named_first():
    cells = {"code": ("code", 1, 1.0)}
    problem = fleet({"chat": 4.0, "code": 4.0}, cells, 4, chat={"floor": 0.5})
    assert explain(problem) == "chat has no configuration that meets its SLO"
    problem = fleet({"chat": 4.0, "code": 4.0}, cells, 3, chat={"floor": 0.5}, code={"floor": 1.0})
    assert explain(problem) == (
        "chat has no configuration that meets its SLO; short by 1 GPU; code lacks 1.0 requests/s"
    )
    problem = fleet({"chat": 4.0, "code": 4.0}, {}, 3, chat={"floor": 0.5}, code={"floor": 1.0})
    assert explain(problem) == "chat and code have no configuration that meets their SLOs"


def test_a_configuration_that_the_pool_is_too_small_for_is_short_of_gpus():
    problem = fleet({"chat": 4.0}, {"TP8": ("chat", 8, 4.0)}, gpus=5, gpus_per_node=8, chat={"floor": 1.0})
    assert explain(problem) == "short by 3 GPUs; chat lacks 4.0 requests/s"


def test_whole_nodes_are_short_where_placement_matters():
    cells = {"small": ("chat", 5, 1.0), "TP4": ("code", 4, 1.0)}
    problem = fleet({"chat": 2.0, "code": 1.0}, cells, 16, 8, chat={"floor": 1.0}, code={"floor": 1.0})
    assert explain(problem) == "short by 8 GPUs; code lacks 1.0 requests/s"


def test_pools_are_named_where_there_are_several():
    problem = FleetProblem(
        (ClassDemand("chat", 4.0, floor=1.0),),
        (Configuration("new", "chat", 2, 1.0, "new"),),
        (GpuPool("old", 8), GpuPool("new", 7)),
    )
    assert explain(problem) == "short by 1 GPU on new; chat lacks 1.0 requests/s"


def test_floors_that_can_be_met_lack_nothing():
    problem = paper_fleet(Chat={"floor": 0.5}, Code={"floor": 0.625})
    assert explain(problem) == "every critical floor can be met"
    assert explain(paper_fleet()) == "every critical floor can be met"


def test_a_small_lack_keeps_its_digits_and_rounds_down():
    problem = fleet({"chat": 1.0}, {"TP1": ("chat", 1, 0.96549)}, 1, chat={"floor": 1.0})
    assert explain(problem) == "short by 1 GPU; chat lacks 0.034 requests/s"


@pytest.mark.parametrize("seed", range(40))
def test_the_gpus_that_are_short_are_enough_and_one_fewer_is_not(seed):
    problem = random_fleet(3000 + seed)
    if any(p.gpus_per_node for p in problem.pools) or len(problem.pools) > 1:
        problem = FleetProblem(
            problem.classes, tuple(q for q in problem.configurations if q.pool == "near"), (GpuPool("near", 4),)
        )
    shortage = optimise_shortage(problem)
    extra = shortage.gpus.get("near", 0)

    def left_over(gpus):
        return optimise_shortage(FleetProblem(problem.classes, problem.configurations, (GpuPool("near", gpus),))).gpus

    have = problem.pools[0].gpus
    assert left_over(have + extra) == {}
    if extra:
        assert left_over(have + extra - 1) == {"near": 1}
        assert shortage.lacking_rps
    else:
        assert not shortage.lacking_rps


def test_a_question_without_a_proof_is_an_error(monkeypatch):
    monkeypatch.setattr(
        SolverSession, "solve", lambda self, objective: StageAnswer(SolveEnding.UNDECIDED, None, None, "unknown")
    )
    problem = fleet({"code": 10.0}, {"TP1": ("code", 1, 1.3)}, gpus=5, code={"floor": 0.86})
    with pytest.raises(SolveFailed, match="not found: unknown"):
        requirements.optimise_shortage(problem)

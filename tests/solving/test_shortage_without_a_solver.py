"""Why a floor is missed, by counting and by the MILP: the same sentence, ties included."""

from __future__ import annotations

import random

import pytest
from fleetsieve_models.problem import ClassDemand, Configuration, FleetProblem, GpuPool
from solving.fleets import fleet

from fleetsieve.answers.shortage import sentence
from fleetsieve.engines.frontier import frontier_shortage, knows_shortage
from fleetsieve.engines.solving import optimise_shortage
from fleetsieve.errors import UsageError


def short_fleet(seed: int) -> FleetProblem:
    """Floors that a small pool often misses; every second fleet has whole numbers, so many plans lack the same."""
    draw = random.Random(seed)
    ties = seed % 2 == 0
    classes, cells = [], []
    for i in range(draw.choice([1, 2, 2, 3, 3])):
        name = f"class{i}"
        demand = float(draw.randint(2, 12)) if ties else draw.uniform(1.0, 12.0)
        floor = draw.choice([None, 1.0, 0.5, draw.uniform(0.2, 1.0)])
        classes.append(ClassDemand(name, demand, draw.choice([1.0, 1.0, 2.0]), floor))
        for k in range(draw.randint(0 if i else 1, 3)):
            capacity = float(draw.randint(1, 4)) if ties else draw.uniform(0.2, 4.0)
            cells.append(Configuration((name, k), name, draw.choice([1, 2, 4]), capacity))
    return FleetProblem(tuple(classes), tuple(cells), (GpuPool("default", draw.randint(1, 6), draw.choice([None, 4])),))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 300, 50))
def test_both_give_the_same_sentence(start: int) -> None:
    told = 0
    for seed in range(start, start + 50):
        problem = short_fleet(seed)
        if not knows_shortage(problem):
            continue
        by_counting, by_milp = frontier_shortage(problem), optimise_shortage(problem)
        assert sentence(by_counting) == sentence(by_milp), seed
        assert by_counting.gpus == by_milp.gpus, seed
        assert by_counting.lacking_rps == pytest.approx(dict(by_milp.lacking_rps), rel=1e-9), seed
        told += bool(by_counting.gpus)
    assert told > 10


def test_of_plans_that_lack_the_same_the_first_class_lacks_least() -> None:
    for names in (("chat", "code"), ("code", "chat")):
        problem = fleet(
            dict.fromkeys(names, 4.0),
            {name: (name, 1, 1.0) for name in names},
            gpus=5,
            **{name: {"floor": 1.0} for name in names},
        )
        for shortage in (frontier_shortage(problem), optimise_shortage(problem)):
            assert sentence(shortage) == f"short by 3 GPUs; {names[1]} lacks 3.0 requests/s"


def test_it_needs_no_more_than_the_fleet_has_for_a_floor_of_any_size() -> None:
    problem = fleet({"chat": 1e9}, {"TP1": ("chat", 1, 12.0)}, gpus=16, chat={"floor": 0.1})
    shortage = frontier_shortage(problem)
    assert shortage.gpus == {"default": 8_333_309}  # a millionth of the floor is rounding
    assert shortage.lacking_rps["chat"] == pytest.approx(1e8 - 192.0)


def test_where_placement_matters_it_is_the_milps() -> None:
    cells = {"small": ("chat", 5, 1.0), "TP4": ("code", 4, 1.0)}
    problem = fleet({"chat": 2.0, "code": 1.0}, cells, 16, 8, chat={"floor": 1.0}, code={"floor": 1.0})
    assert not knows_shortage(problem)
    with pytest.raises(UsageError, match="MILP"):
        frontier_shortage(problem)

"""Table 3 of the paper from Table 1, with the model of the paper."""

import pytest
from fleets import paper_fleet

from fleetsieve.engines.solving import Milp


@pytest.mark.parametrize(
    ("scale", "degrees", "chat", "code", "fulfilment", "goodput"),
    [
        (0.7, (2, 4, 8), ("Chat TP4", 2), ("Code TP4", 2), 1.000, 19.60),
        (1.0, (2, 4, 8), ("Chat TP4", 2), ("Code TP4", 2), 1.000, 28.00),
        (1.3, (2, 4, 8), ("Chat TP4", 2), ("Code TP4", 2), 0.846, 33.99),
        (1.0, (2,), ("Chat TP2", 3), ("Code TP2", 5), 0.350, 10.39),
        (1.0, (8,), ("Chat TP8", 1), ("Code TP8", 1), 0.696, 22.40),
    ],
)
@pytest.mark.parametrize("presolve", [True, False])
def test_table_3(scale, degrees, chat, code, fulfilment, goodput, presolve):
    found = Milp(presolve=presolve).optimise(paper_fleet(scale, degrees))
    assert dict(found.allocation.replica_counts) == dict([chat, code])
    assert found.allocation.min_fulfilment == pytest.approx(fulfilment, abs=5e-4)
    assert found.allocation.goodput_rps == pytest.approx(goodput, abs=5e-3)


def test_the_floors_of_the_paper_can_be_met_and_a_demand_of_a_thousand_cannot():
    floors = {"Chat": {"floor": 6 / 12}, "Code": {"floor": 10 / 16}}
    assert Milp().optimise(paper_fleet(**floors)).bounds["shortfall"] == 0.0
    much = paper_fleet(1000 / 12, Chat={"floor": 1.0})
    assert Milp().optimise(much, ("shortfall",)).bounds["shortfall"] > 0.9

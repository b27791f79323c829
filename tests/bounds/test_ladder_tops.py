"""Arms whose ladder ends on a rung that still meets the SLO: which they are, the next rung, and what that could bring."""

from __future__ import annotations

import pytest

from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.ladder_tops import LadderTop, ladder_top_sentence, ladder_tops
from fleetsieve.instance import Cell, CellKey, Fleet, Instance, LoadKind, Measurement, Pool, Reading, Slo, WorkloadClass

CLOSED, OPEN = LoadKind.CONCURRENCY, LoadKind.RATE


def ladder(kind: LoadKind, *loads: float, label: str | None = None) -> list[Cell]:
    letter = label or ("c" if kind is CLOSED else "r")
    return [Cell(CellKey("chat", 2, f"{letter}{load:g}"), 2, kind, float(load)) for load in loads]


def tops(
    cells: list[Cell],
    measured: dict[str, tuple[float, float]],
    *,
    demand_rps: float = 50.0,
    assuming: dict | None = None,
) -> tuple[LadderTop, ...]:
    """The tops where each load of `measured` has this capacity and this e2e p99, against a limit of 10 s."""
    workload = WorkloadClass("chat", demand_rps, Slo(max_e2e_p99_s=10.0))
    instance = Instance("x", Fleet((Pool("default", 16),)), (workload,), tuple(cells), assumptions=assuming or {})
    rows = [
        Measurement(
            CellKey("chat", 2, load), throughput_rps=Reading(rps), success_rate=Reading(1.0), e2e_p99_s=Reading(tail)
        )
        for load, (rps, tail) in measured.items()
    ]
    return ladder_tops(Envelope.of(instance, rows))


def test_a_closed_loop_is_bounded_by_capacity_per_request_in_flight() -> None:
    measured = {"c32": (4.5, 7.5), "c64": (8.0, 8.5), "c128": (14.0, 9.5)}
    (top,) = tops(ladder(CLOSED, 32, 64, 128), measured)
    assert (top.top.load, top.capacity_rps, top.next.key.load, top.next.offered) == ("c128", 14.0, "c256", 256.0)
    assert top.at_most_rps == pytest.approx(14.0 * 256 / 128 * 1.05)
    assert ladder_top_sentence(top) == (
        "chat TP2: the top rung c128 still meets the SLO at 14.000 requests/s of one replica; c256 could bring at most 29.400, "
        "and no certificate covers loads above c128 until c256 is in cells.csv"
    )


def test_an_open_loop_is_bounded_by_its_rate() -> None:
    (top,) = tops(ladder(OPEN, 2, 4), {"r4": (4.0, 1.0)})
    assert (top.next.key.load, top.at_most_rps) == ("r8", 8.0)


def test_without_the_assumption_nothing_bounds_the_next_rung() -> None:
    (top,) = tops(ladder(CLOSED, 32, 64), {"c64": (8.0, 8.5)}, assuming={"capacity_star": {"enabled": False}})
    assert top.at_most_rps is None
    assert "nothing bounds what c128 could bring" in ladder_top_sentence(top)


@pytest.mark.parametrize(
    ("cells", "label", "offered"),
    [
        (ladder(OPEN, 6, 9, 12, 15), "r18", 18.0),  # evenly spaced
        (ladder(OPEN, 12, 15), "r18.8", 18.8),
        (ladder(OPEN, 3), "r6", 6.0),
        (ladder(CLOSED, 5, 7), "c10", 10.0),  # a whole number
        (ladder(OPEN, 0.5, 1, label="users-"), "users-2", 2.0),
        ([*ladder(OPEN, 3), Cell(CellKey("chat", 2, "r6"), 2, OPEN)], "r6+", 6.0),
    ],
)
def test_the_ladder_is_continued(cells: list[Cell], label: str, offered: float) -> None:
    top = max((cell for cell in cells if cell.offered is not None), key=lambda cell: cell.offered or 0.0)
    rps = (top.offered or 0.0) if top.load_kind is OPEN else 2.0
    (found,) = tops(cells, {top.key.load: (rps, 3.0)})
    assert (found.next.key.load, found.next.offered) == (label, offered)


def test_what_is_no_top_that_hides_capacity() -> None:
    cells = ladder(OPEN, 2, 4)
    assert tops(cells, {"r2": (2.0, 1.0)}) == ()  # the certificate looks at r4
    assert tops(cells, {"r2": (2.0, 1.0), "r4": (3.0, 12.0)}) == ()  # r4 misses
    assert tops(cells, {"r4": (4.0, 1.0)}, demand_rps=0.0) == ()
    vetoed = [cells[0], Cell(cells[1].key, 2, OPEN, 4.0, excluded=True)]
    assert tops(vetoed, {"r2": (2.0, 1.0), "r4": (4.0, 1.0)}) == ()
    assert tops([Cell(CellKey("chat", 2, "peak"), 2, OPEN)], {"peak": (4.0, 1.0)}) == ()

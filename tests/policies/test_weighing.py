"""Long ladders: what is weighed of them, and that it finds what weighing all of them would."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop.small_fleet import INSTANCE
from policies.replaying import choice, situation

from fleetsieve.instance import Cell, CellKey, Instance, LoadKind
from fleetsieve.loop.policies import weighing
from fleetsieve.loop.policies.weighing import SHORT_LADDER, weigh


def ladder(loads: int, name: str = "chat", tp: int = 1) -> list[Cell]:
    return [Cell(CellKey(name, tp, f"c{n}"), tp, LoadKind.CONCURRENCY, float(n)) for n in range(1, loads + 1)]


def weighed(cells: list[Cell], score) -> dict[CellKey, float]:
    instance = replace(INSTANCE, cells=tuple(cells))
    return weigh([cell.key for cell in cells], instance, score, lambda done, of: None)


@settings(max_examples=50)
@given(st.integers(1, SHORT_LADDER), st.integers(1, 4))
def test_every_candidate_of_a_short_ladder_is_weighed(loads: int, tps: int) -> None:
    cells = [cell for k in range(tps) for cell in ladder(loads, tp=2**k)]
    assert list(weighed(cells, lambda key: 0.0)) == [cell.key for cell in cells]


@pytest.mark.slow
@settings(max_examples=200)
@given(st.integers(SHORT_LADDER + 1, 400), st.floats(0.0, 1.0), st.floats(0.2, 4.0))
def test_the_top_of_a_score_that_rises_and_falls_is_found_by_few(loads: int, top: float, steepness: float) -> None:
    cells = ladder(loads)
    peak = 1.0 + round(top * (loads - 1))
    offered = {cell.key: cell.offered or 0.0 for cell in cells}
    scores = weighed(cells, lambda key: -(abs(offered[key] - peak) ** steepness))
    assert offered[max(scores, key=scores.__getitem__)] == peak
    assert len(scores) <= weighing.SPREAD + 2 * math.ceil(math.log2(loads))


def test_progress_counts_what_is_expected_to_be_weighed() -> None:
    cells, seen = [*ladder(100), *ladder(3, tp=2)], []
    instance = replace(INSTANCE, cells=tuple(cells))
    weigh([cell.key for cell in cells], instance, lambda key: 1.0, lambda done, of: seen.append((done, of)))
    assert {of for _, of in seen} == {SHORT_LADDER + 3}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (SHORT_LADDER + 3, SHORT_LADDER + 3)


@pytest.mark.slow
def test_the_default_policy_chooses_on_long_ladders_what_it_would_with_all_weighed(monkeypatch) -> None:
    cells = tuple(cell for w in INSTANCE.classes for tp in (1, 2) for cell in ladder(60, w.name, tp))
    instance: Instance = replace(INSTANCE, cells=cells)
    few = choice("decision-gap", situation(instance))
    monkeypatch.setattr(weighing, "SHORT_LADDER", 1000)
    all_of_them = choice("decision-gap", situation(instance))
    assert len(few.scores) < len(all_of_them.scores) / 2
    assert few.scores.items() <= all_of_them.scores.items()
    assert few.scores[few.key] >= 0.99 * all_of_them.scores[all_of_them.key]

"""One more row renews an envelope to what a new one would be, whatever the assumptions look across."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsieve.bounds.assumptions import DEFAULTS
from fleetsieve.bounds.cell_bounds import End
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.instance import (
    Cell,
    CellKey,
    Facts,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    Pool,
    Reading,
    Slo,
    Status,
    WorkloadClass,
)

CELLS = tuple(
    Cell(CellKey("chat", tp, f"c{n}"), tp, LoadKind.CONCURRENCY, float(n)) for tp in (1, 2, 4) for n in (1, 2, 4, 8)
)
INSTANCE = Instance(
    "ladders",
    Fleet((Pool("default", 8),)),
    (WorkloadClass("chat", 10.0, Slo(max_ttft_p99_s=1.0), output_tokens=10),),
    CELLS,
    facts=Facts(weight_bytes=1e9, hbm_bytes_per_s=1e12),
)


@st.composite
def rows(draw: st.DrawFn) -> list[Measurement]:
    """Looks at some cells that often contradict an assumption or run out of memory."""
    told = []
    for cell in draw(st.lists(st.sampled_from(CELLS), min_size=1, max_size=12, unique=True)):
        if draw(st.integers(0, 5)) == 0:
            told += [Measurement(cell.key, seed, Status.OOM) for seed in range(2)]
            continue
        rate, tail = draw(st.sampled_from([0.5, 1.0, 3.0, 9.0])), draw(st.sampled_from([0.1, 0.5, 2.0]))
        told.append(Measurement(cell.key, throughput_rps=Reading(rate), ttft_p99_s=Reading(tail)))
    return told


@pytest.mark.slow
@pytest.mark.parametrize("everything", [False, True])
@given(rows())
@settings(max_examples=150)
def test_a_renewed_envelope_is_a_new_one(everything: bool, told: list[Measurement]) -> None:
    on = {name: {"enabled": True} for name in DEFAULTS} if everything else {}
    instance = replace(INSTANCE, assumptions=on)
    whole = Envelope.of(instance, told)
    own = whole.classes["chat"]
    last = own.view.known[told[-1].key]
    renewed = Envelope.of(instance, told[:-1]).with_known(last).classes["chat"]
    assert renewed.bounds == own.bounds
    assert renewed.contradictions == own.contradictions
    assert renewed.beyond_memory == own.beyond_memory


@pytest.mark.slow
@given(rows(), st.booleans())
@settings(max_examples=150)
def test_the_ends_of_an_imagined_measurement_are_those_of_its_bounds(told: list[Measurement], excluded: bool) -> None:
    """What policies weigh by the thousand is what an envelope with the measurement would say."""
    cells = tuple(replace(cell, excluded=excluded and cell.key.load == "c4") for cell in CELLS)
    instance = replace(INSTANCE, cells=cells)
    known = Envelope.of(instance, told).classes["chat"].view.known[told[-1].key]
    before = Envelope.of(instance, told[:-1])
    own = before.with_known(known).classes["chat"]
    arm = instance.cell_by_key[known.key].arm
    assert before.ends_with(known) == [End.of(own.bounds[cell.key]) for cell in own.view.arms[arm]]

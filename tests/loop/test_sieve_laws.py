"""Laws of ask and tell."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_fleet import CODE, OTHER_CODE, looked, stuck, too_few
from recorded_fleet import INSTANCE as RECORDED
from recorded_fleet import ROWS as SHORT_OF_REQUESTS
from small_fleet import CELLS, INSTANCE, excluding, row

from fleetsieve.answers.diagnosis import account
from fleetsieve.certificate import Certificate, Verdict
from fleetsieve.engines.frontier import Frontier
from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey, Measurement, MeasureSettings, Reading, ServerKey, Status
from fleetsieve.loop.policies import POLICIES, DecisionGap, Policy, Random, Situation, policy_named
from fleetsieve.loop.sieve import Sieve

KEYS = tuple(cell.key for cell in CELLS)
ENGINE = Frontier()


def started(policy: Policy | None = None, **more: object) -> Sieve:
    given_ = {"instance": INSTANCE, "policy": policy or DecisionGap(), "engine": ENGINE, **more}
    return Sieve.start(given_.pop("instance"), **given_)


def run_out(sieve: Sieve) -> Sieve:
    while not sieve.finished:
        sieve = sieve.tell(row(sieve.ask().key))
    return sieve


def said(certificate: Certificate) -> tuple[object, ...]:
    c = certificate
    return (c.verdict, c.gap, c.lower, c.upper, c.conservative.replica_counts, c.unservable, c.blocking, c.settling)


@st.composite
def looks(draw: st.DrawFn) -> list[Measurement]:
    """One look at each of some cells, some of them failures."""
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True))
    statuses = st.sampled_from([Status.OK] * 6 + list(Status))
    return [replace(row(key), status=draw(statuses)) for key in keys]


@settings(max_examples=100)
@given(looks())
def test_telling_twice_equals_telling_once(rows: list[Measurement]) -> None:
    once = started().tell(*rows)
    assert once.tell(*rows) == once
    assert started().tell(*rows, *rows) == once
    assert once.spent_gpu_s == started().tell(*rows, *rows).spent_gpu_s


@pytest.mark.slow
@settings(max_examples=100)
@given(looks(), st.randoms(use_true_random=False))
def test_the_order_of_tells_does_not_matter_for_the_certificate(rows: list[Measurement], order: random.Random) -> None:
    mixed = list(rows)
    order.shuffle(mixed)
    assert said(started().tell(*rows).certificate) == said(started().tell(*mixed).certificate)


@settings(max_examples=100)
@given(looks())
def test_one_by_one_equals_all_at_once(rows: list[Measurement]) -> None:
    sieve = started()
    for each in rows:
        sieve = sieve.tell(each)
    assert sieve == started().tell(*rows)


@pytest.mark.slow
@settings(max_examples=60)
@given(looks(), st.sampled_from(list(POLICIES)), st.integers(0, 99))
def test_a_question_is_a_candidate_and_the_same_state_asks_the_same(
    rows: list[Measurement], name: str, seed: int
) -> None:
    sieve = started(policy_named(name), seed=seed).tell(*rows)
    if sieve.finished:
        return
    first = sieve.ask()
    assert first == started(policy_named(name), seed=seed).tell(*rows).ask()
    assert first.key in sieve.candidates
    assert first.reason
    assert set(first.scores) in (set(), set(sieve.candidates))
    for key in sieve.candidates:
        bounds = sieve.envelope[key]
        assert bounds.possible
        assert not bounds.committable


def test_a_tell_leaves_the_state_before_it_as_it_was() -> None:
    before = started()
    first = before.ask()
    after = before.tell(row(first.key))
    assert before.measurements == ()
    assert before.ask() == first
    assert len(after.measurements) == 1


def test_a_finished_run_has_nothing_to_ask_and_says_why() -> None:
    sieve = run_out(started())
    assert sieve.certificate.verdict is Verdict.FEASIBLE
    with pytest.raises(UsageError, match="the verdict is certified-feasible"):
        sieve.ask()


def test_a_run_without_candidates_ends_undecided() -> None:
    sieve = started(looks={})
    assert sieve.finished
    assert sieve.certificate.verdict is Verdict.UNDECIDED
    with pytest.raises(UsageError, match="the verdict is undecided and 0 candidates are left"):
        sieve.ask()


def test_a_foreign_cell_is_refused_by_name() -> None:
    stranger = Measurement(CellKey("chat", 64, "c4"))
    for refuse in (lambda: started().tell(stranger), lambda: started(measurements=[stranger])):
        with pytest.raises(UsageError, match="chat TP64 c4, which is not a cell of small"):
            refuse()


def test_a_refused_tell_changes_nothing() -> None:
    sieve = started()
    with pytest.raises(UsageError):
        sieve.tell(row(KEYS[0]), Measurement(CellKey("chat", 64, "c4")))
    assert sieve.measurements == ()


def test_what_was_measured_before_the_run_is_known_once_and_costs_nothing() -> None:
    oom = Measurement(KEYS[0], status=Status.OOM)
    sieve = started(measurements=[row(KEYS[1]), oom, oom])
    assert len(sieve.measurements) == 2
    assert sieve.spent_gpu_s == 0.0
    assert sieve.running is None
    assert sieve.envelope[KEYS[0]].possible


def test_an_excluded_cell_is_never_asked() -> None:
    veto = started().ask().key
    sieve = started(instance=excluding(veto))
    while not sieve.finished:
        assert veto not in sieve.candidates
        sieve = sieve.tell(row(sieve.ask().key))
    assert veto not in {r.key for r in sieve.measurements}


def test_an_exhausted_cell_is_never_asked() -> None:
    key = KEYS[0]
    unclear = Measurement(key, throughput_rps=Reading(1.0))
    limited = started(looks={**dict.fromkeys(KEYS, 1), key: 2})
    assert key in limited.tell(unclear).candidates
    assert key not in limited.tell(unclear, replace(unclear, seed=1)).candidates
    assert set(started(looks={key: 1}).candidates) == {key}


@pytest.mark.slow
def test_a_cell_that_always_fails_does_not_keep_the_run_going() -> None:
    for status in set(Status) - {Status.OK}:
        sieve, asked = started(), Counter[CellKey]()
        while not sieve.finished:
            key = sieve.ask().key
            asked[key] += 1
            assert asked[key] <= 2
            sieve = sieve.tell(Measurement(key, seed=asked[key], status=status))


# When it ends, and what is said of a cell


def recorded(rows: Iterable[Measurement], max_looks: int = 4, looks: dict[CellKey, int] | None = None) -> Sieve:
    instance = replace(RECORDED, measure=replace(RECORDED.measure, max_looks=max_looks))
    return started(instance=instance, looks=looks).tell(*rows)


def test_a_class_without_a_cell_to_commit_is_measured_on_though_another_class_keeps_the_verdict_open() -> None:
    """Two cells of code lack some tens of requests; a cell of chat straddles its SLO for good."""
    sieve = recorded(SHORT_OF_REQUESTS)
    whys = {cell.key: cell.why for cell in account(sieve).cells}
    assert set(sieve.candidates) == {CODE, OTHER_CODE}
    assert {whys[CODE], whys[OTHER_CODE]} == {"another measurement may settle it"}
    served = sieve.tell(looked(sieve.ask().key, too_few(), seed=1))
    assert all(got.replicas for got in served.certificate.conservative.classes)
    assert served.finished
    assert served.certificate.verdict is Verdict.UNDECIDED


def test_cells_that_were_measured_as_often_as_allowed_end_the_run_and_are_said_to() -> None:
    again = [looked(key, 100, seed) for key in (CODE, OTHER_CODE) for seed in range(1, 4)]
    short = [replace(r, records=looked(r.key, 100).records) if r.records is not None else r for r in SHORT_OF_REQUESTS]
    sieve = recorded([*short, *again])
    assert (sieve.finished, sieve.candidates) == (True, ())
    why = next(cell.why for cell in account(sieve).cells if cell.key == CODE)
    assert why.startswith("its records lack ")
    assert why.endswith("measured 4 times, as often as max_looks allows")


def further(known: list[Measurement]) -> Measurement:
    """A measurement like the last one of the cell, as good as one can be; one that states bounds states the same again."""
    last = known[-1]
    seed = len(known)
    if last.records is not None:
        return looked(last.key, 5000, seed)
    straddles = last.ttft_p99_s.lo is not None and last.status is Status.OK
    return replace(stuck(last.key, 1.0), seed=seed) if straddles else replace(point(last.key), seed=seed)


def point(key: CellKey) -> Measurement:
    return Measurement(key, throughput_rps=Reading(1.0), ttft_p99_s=Reading(0.4))


@st.composite
def recorded_looks(draw: st.DrawFn) -> tuple[list[Measurement], int, dict[CellKey, int] | None]:
    """Up to four looks at each cell, by requests or not, with failures and values that are missing; max_looks; rows of a table."""
    rows = []
    for cell in RECORDED.cells:
        count = draw(st.integers(0, 4))
        kind = draw(st.sampled_from(["records", "records", "stated", "point", "missing"]))
        for seed in range(count):
            made = {
                "records": looked(cell.key, draw(st.sampled_from([100, too_few(), 1200])), seed, 0.5 * cell.gpus),
                "stated": stuck(cell.key, 2.0 * cell.gpus),
                "point": point(cell.key),
                "missing": Measurement(cell.key, throughput_rps=Reading(1.0)),
            }[kind]
            status = draw(st.sampled_from([Status.OK] * 9 + [Status.TIMEOUT, Status.OOM]))
            rows.append(replace(made, seed=seed, status=status, records=made.records if status is Status.OK else None))
    max_looks = draw(st.sampled_from([1, 2, 4]))
    table = draw(st.none() | st.fixed_dictionaries({cell.key: st.integers(0, 6) for cell in RECORDED.cells[1:]}))
    return rows, max_looks, table


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(recorded_looks())
def test_no_run_ends_with_a_class_that_another_measurement_could_serve(
    drawn: tuple[list[Measurement], int, dict[CellKey, int] | None],
) -> None:
    rows, max_looks, table = drawn
    sieve = recorded(rows, max_looks, table)
    if not sieve.finished or sieve.certificate.verdict is not Verdict.UNDECIDED:
        return
    for own in sieve.envelope.classes.values():
        if own.committed_choice:
            continue
        for key, b in own.bounds.items():
            known = [r for r in sieve.measurements if r.key == key]
            left = min(max_looks, max_looks if table is None else table.get(key, 0)) - len(known)
            given_up = key in own.view.known and own.view.known[key].given_up
            if b.possible and left > 0 and not given_up:
                after = sieve.tell(further(known) if known else point(key))
                assert not after.envelope[key].committable, key


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(recorded_looks())
def test_what_is_said_of_a_cell_is_what_the_loop_does(
    drawn: tuple[list[Measurement], int, dict[CellKey, int] | None],
) -> None:
    sieve = recorded(*drawn)
    candidates = set(sieve.candidates)
    assert sieve.finished == (not candidates)
    for cell in account(sieve).cells:
        asks = any(words in cell.why for words in ("another measurement may", "a better plan may use it"))
        pointless = "serves as much of the class" in cell.why
        assert asks or pointless if cell.key in candidates else not asks and not cell.can_change, cell.why
        assert cell.standing.asks == (cell.key in candidates)


# What it costs


def test_a_server_start_is_paid_when_the_degree_changes() -> None:
    one, other, wide = KEYS[0], KEYS[1], KEYS[3]
    sieve = started().tell(row(one))
    assert sieve.spent_gpu_s == 400.0
    sieve = sieve.tell(row(other))
    assert sieve.spent_gpu_s == 700.0
    assert sieve.tell(row(wide)).spent_gpu_s == 700.0 + 2 * 400.0


@pytest.mark.parametrize(
    ("status", "up"),
    [(Status.OK, True), (Status.REJECTED, True), (Status.TIMEOUT, False), (Status.CRASHED, False), (Status.OOM, False),
     (Status.FAILED_START, False)],
)  # fmt: skip
def test_a_failure_may_take_the_server_down(status: Status, up: bool) -> None:
    """After a time-out too: a live probe stops a server that may be stuck, so the score expects a start."""
    sieve = started().tell(replace(row(KEYS[0]), status=status))
    assert sieve.running == (ServerKey(1) if up else None)
    assert sieve.tell(row(KEYS[1])).spent_gpu_s == (700.0 if up else 800.0)


def test_a_row_that_says_its_cost_is_believed() -> None:
    assert started().tell(replace(row(KEYS[0]), cost_gpu_s=12.5)).spent_gpu_s == 12.5


def test_the_expected_cost_is_the_cost_of_the_question() -> None:
    sieve = started()
    while not sieve.finished:
        experiment = sieve.ask()
        after = sieve.tell(row(experiment.key))
        assert after.spent_gpu_s == sieve.spent_gpu_s + experiment.expected_cost_gpu_s
        sieve = after


def test_start_up_keeps_the_search_at_one_degree() -> None:
    """With starts a hundred times a window, the degree changes hardly ever."""
    measure = MeasureSettings(warmup_s=0.0, window_s=300.0, startup_s=30_000.0)
    sieve = run_out(started(instance=replace(INSTANCE, measure=measure)))
    degrees = [r.key.tp for r in sieve.measurements]
    changes = sum(a != b for a, b in pairwise(degrees))
    assert changes <= 2


# Random, and resuming


def situation(seed: int, step: int = 0) -> Situation:
    sieve = started()
    return Situation(sieve.envelope, sieve.certificate, KEYS, dict.fromkeys(KEYS, 300.0), step, seed)


def test_random_is_uniform() -> None:
    """Pearson's χ² over 12 candidates (11 degrees of freedom): below 31.26, its 99.9 % quantile."""
    draws, start = 6000, situation(0)
    counts = Counter(Random().choose(replace(start, seed=seed)).key for seed in range(draws))
    expected = draws / 12
    assert sum((counts[key] - expected) ** 2 / expected for key in KEYS) < 31.26


@pytest.mark.slow
def test_the_second_random_draw_does_not_follow_from_the_first() -> None:
    """Pearson's χ² over the 144 pairs of draws (143 degrees of freedom): below 201.0, its 99.9 % quantile."""
    draws, start = 14_400, situation(0)
    pairs = Counter(
        tuple(Random().choose(replace(start, seed=seed, step=step)).key for step in (0, 1)) for seed in range(draws)
    )
    assert sum((pairs[first, second] - 100) ** 2 / 100 for first in KEYS for second in KEYS) < 201.0


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_a_resumed_run_goes_on_as_it_would_have(name: str) -> None:
    """From every cut it asks what was asked then, and so it ends as the whole one did; from one cut it is run to that end."""
    whole = run_out(started(policy_named(name), seed=5))
    rows = whole.measurements
    for cut in range(len(rows)):
        resumed = started(policy_named(name), seed=5).tell(*rows[:cut])
        assert resumed.ask().key == rows[cut].key
    assert started(policy_named(name), seed=5).tell(*rows) == whole
    assert run_out(started(policy_named(name), seed=5).tell(*rows[: len(rows) // 2])) == whole


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="descision-gap") as refused:
        policy_named("descision-gap")
    assert all(name in str(refused.value) for name in POLICIES)

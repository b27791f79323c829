"""Schedules offer the rate that was asked for, are the same for the same seed, and keep what they take from a trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey
from fleetsieve.live.load.schedule import Schedule, Shape, Tokens, closed_loop, look_seed, open_loop
from fleetsieve.live.load.traces import Trace

IDS = (1000, 20000)
SHAPE = Shape(Tokens(50, 50), Tokens(mean=20.0))
SEEDS = st.integers(0, 2**48 - 1)


@st.composite
def traces(draw):
    gaps = draw(st.lists(st.sampled_from([0.0, 0.001, 0.3, 1.0, 60.0]), min_size=1, max_size=40))
    gaps = gaps if any(gaps) else [*gaps, 1.0]
    arrival_s = np.concatenate([[0.0], np.cumsum(gaps)])
    tokens = np.arange(1, len(arrival_s) + 1)
    return Trace("t.csv", arrival_s, tokens, tokens + 1000)


def equal(one: Schedule, other: Schedule) -> bool:
    columns = (
        (one.due_s, other.due_s),
        (one.input_tokens, other.input_tokens),
        (one.output_tokens, other.output_tokens),
    )
    return all(np.array_equal(a, b) for a, b in columns) and one.prompt(0) == other.prompt(0)


@given(
    source=st.one_of(st.just(SHAPE), traces()),
    rate=st.floats(0.2, 50.0),
    lengths=st.tuples(st.floats(0.0, 20.0), st.floats(5.0, 60.0), st.floats(0.0, 20.0)),
    seed=SEEDS,
)
def test_an_open_loop_offers_its_rate_in_every_part(source, rate, lengths, seed):
    warmup, window, cooldown = lengths
    told = {"warmup_s": warmup, "window_s": window, "cooldown_s": cooldown, "seed": seed, "token_ids": IDS}
    schedule = open_loop(source, rate, **told)
    due = schedule.due_s
    assert np.all(np.diff(due) >= 0.0)
    parts = (due < 0.0, (due >= 0.0) & (due < window), due >= window)
    for part, length in zip(parts, lengths, strict=True):
        assert abs(np.count_nonzero(part) - rate * length) <= 0.5 + 1e-9
    assert due[0] >= -warmup
    assert due[-1] <= window + cooldown
    assert equal(schedule, open_loop(source, rate, **told))


@given(trace=traces(), rate=st.floats(0.5, 20.0), seed=SEEDS)
def test_rows_of_a_trace_follow_each_other_with_their_own_tokens(trace, rate, seed):
    schedule = open_loop(trace, rate, warmup_s=3.0, window_s=10.0, cooldown_s=2.0, seed=seed, token_ids=IDS)
    rows = schedule.input_tokens - 1
    assert np.all(np.diff(rows) % len(trace) == 1 % len(trace))
    assert np.array_equal(schedule.output_tokens, schedule.input_tokens + 1000)
    assert f"rows {rows[0] + 1} to {rows[-1] + 1} of {len(trace)}" in schedule.origin
    how = (
        "(cut)"
        if rows[0] + len(rows) <= len(trace)
        else "(cycled)"
        if len(rows) > len(trace)
        else "going on from its start"
    )
    assert how in schedule.origin


def test_gaps_of_a_trace_keep_their_proportions():
    gaps = np.array([1.0, 4.0, 2.0, 8.0] * 10)
    trace = Trace("t.csv", np.concatenate([[0.0], np.cumsum(gaps)]), np.ones(41, int), np.ones(41, int))
    schedule = open_loop(trace, 2.0, warmup_s=0.0, window_s=5.0, seed=1, token_ids=IDS)
    assert set(np.round(np.diff(schedule.due_s) / np.diff(schedule.due_s).min(), 6)) <= {1.0, 2.0, 4.0, 8.0}


def test_another_seed_is_another_load_with_other_prompts():
    schedules = [open_loop(SHAPE, 5.0, warmup_s=2.0, window_s=10.0, seed=seed, token_ids=IDS) for seed in range(20)]
    assert len({schedule.due_s.tobytes() for schedule in schedules}) == 20
    prompts = [tuple(schedule.prompt(i)) for schedule in schedules for i in range(len(schedule))]
    assert len(set(prompts)) == len(prompts)
    assert len({prompt[:16] for prompt in prompts}) == len(prompts), "a block of 16 tokens is what a prefix cache keeps"
    assert all(IDS[0] <= min(prompt) and max(prompt) < IDS[1] and len(prompt) == 50 for prompt in prompts)


def test_every_look_has_a_seed_of_its_own():
    keys = [CellKey(name, tp, load) for name in ("chat", "code") for tp in (1, 2) for load in ("r1", "r2")]
    seeds = {look_seed(run, key, look) for run in range(3) for key in keys for look in range(3)}
    assert len(seeds) == 3 * 8 * 3
    assert look_seed(0, keys[0], 0) == look_seed(0, CellKey("chat", 1, "r1"), 0)


def test_poisson_gaps_vary_as_an_exponential_does():
    due = open_loop(SHAPE, 50.0, warmup_s=0.0, window_s=100.0, seed=3, token_ids=IDS).due_s
    gaps = np.diff(due)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1.0, abs=0.05)


def test_the_warm_up_grows_to_what_is_in_flight():
    schedule = open_loop(SHAPE, 2.0, warmup_s=1.0, window_s=10.0, seed=3, token_ids=IDS, least_warmup_requests=16)
    assert schedule.warmup_s == 8.0
    assert np.count_nonzero(schedule.due_s < 0.0) == 16


@given(source=st.one_of(st.just(SHAPE), traces()), seed=SEEDS)
def test_a_closed_loop_has_requests_enough(source, seed):
    told = {"warmup_s": 1.0, "window_s": 4.0, "seed": seed, "token_ids": IDS}
    schedule = closed_loop(source, 8, **told)
    assert schedule.due_s is None
    assert schedule.concurrency == 8
    fastest_s = 0.002 * (20.0 if source is SHAPE else float(source.output_tokens.mean()))
    assert len(schedule) >= 8 * 5.0 / fastest_s
    few = closed_loop(source, 8, **told, max_requests=40)
    assert (len(few), few.sized, schedule.sized) == (40, True, False)
    assert equal(schedule, closed_loop(source, 8, **told))


@given(
    tokens=st.one_of(
        st.builds(Tokens, least=st.integers(1, 50), most=st.integers(50, 400)),
        st.builds(Tokens, mean=st.floats(20.0, 500.0), spread=st.floats(0.0, 1.0)),
    ),
    seed=SEEDS,
)
def test_token_counts_have_their_mean_and_limits(tokens, seed):
    drawn = tokens.draw(np.random.default_rng(seed), 4000)
    assert drawn.min() >= (tokens.least or 1)
    assert tokens.most is None or drawn.max() <= tokens.most
    assert float(drawn.mean()) == pytest.approx(tokens.expected, rel=0.1)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: open_loop(SHAPE, 0.01, warmup_s=0, window_s=10, seed=1, token_ids=IDS),
            "no request is due in 10 s at 0.01",
        ),
        (lambda: open_loop(SHAPE, 0.0, warmup_s=0, window_s=10, seed=1, token_ids=IDS), "a rate of 0"),
        (lambda: open_loop(SHAPE, 1.0, warmup_s=0, window_s=0, seed=1, token_ids=IDS), "a window of 0 s"),
        (lambda: open_loop(SHAPE, 1.0, warmup_s=0, window_s=9, seed=1, token_ids=(7, 8)), "token ids 7 to 7"),
        (lambda: closed_loop(SHAPE, 0, warmup_s=0, window_s=9, seed=1, token_ids=IDS), "a concurrency of 0"),
        (lambda: Tokens(), "give a mean"),
        (lambda: Tokens(5, 3), "at least 1 token"),
        (lambda: Tokens(mean=0.2), "at least 1 token"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, told):
    with pytest.raises(UsageError, match=told):
        make()

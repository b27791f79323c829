"""What each policy looks for, held against a computation of its own, and how it breaks ties."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop.small_fleet import CELLS, INSTANCE, row
from policies.replaying import choice, demanding, replayed, situation
from policies.small_fleets import LADDER, cell, fleet, looked
from strategies import Situation as Drawn
from strategies import situations

from fleetsieve.allocation import STAGES, TIE, evaluate
from fleetsieve.bounds.assumptions.interior_knee import InteriorKnee
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Verdict, certify
from fleetsieve.engines.frontier import Frontier
from fleetsieve.instance import CellKey, CertificateSettings, Pool, Slo, WorkloadClass
from fleetsieve.loop.belief import ClassBelief, Outcome
from fleetsieve.loop.policies import POLICIES, Situation
from fleetsieve.loop.policies.lookahead import Lookahead
from fleetsieve.loop.policies.protocol import best

STRICT = replace(INSTANCE, certificate=CertificateSettings(0.05, 0.0))
TABLE = [row(c.key) for c in CELLS]
STARTS = {"nothing measured": TABLE[:0], "one class begun": TABLE[:2], "half": TABLE[::2], "one class done": TABLE[:6]}
WEIGHING = ("decision-gap", "paper", "targeted", "voi")
BLIND = ("random", "grid", "joint-uncertainty", "shared-feature")
QUANTILES = (0.15, 0.5, 0.85)


def imagined(asked: Situation, key: CellKey, envelope: Envelope) -> list[tuple[float, Envelope]]:
    """What a look may lead to: probability and the whole envelope after it."""
    hint = Lookahead(envelope, asked.certificate.eta, asked.certificate.epsilon).hint_rps(key.class_name)
    outcomes: list[Outcome] = ClassBelief(envelope.classes[key.class_name], hint).outcomes(envelope[key], QUANTILES)
    return [(o.probability, envelope.with_known(o.known)) for o in outcomes]


def reductions(asked: Situation, envelope: Envelope) -> dict[CellKey, float]:
    """The expected reduction of the summed stage gaps of each candidate, by certificates of what is imagined in `envelope`."""

    def total(seen: Envelope) -> float:
        gap = certify(seen, Frontier()).gap
        return gap.shortfall + gap.min_fulfilment + gap.goodput

    now = total(envelope)
    return {
        key: math.fsum(p * (now - total(after)) for p, after in imagined(asked, key, envelope))
        for key in asked.candidates
    }


@pytest.mark.slow
@settings(max_examples=150)
@given(situations(known=0.8, width=0.0), st.sampled_from([0.1, 0.2, 0.4]), st.sampled_from([0.5, 0.9]))
def test_what_is_imagined_as_certified_would_be(drawn: Drawn, epsilon: float, share: float) -> None:
    stated = replace(drawn.instance, certificate=CertificateSettings(epsilon, share * epsilon))
    envelope = Envelope.of(stated, drawn.rows)
    assert_imagined_as_certified(envelope, share * epsilon, epsilon)


def assert_imagined_as_certified(envelope: Envelope, eta: float, epsilon: float) -> None:
    look = Lookahead(envelope, eta, epsilon)
    certified = look.certified(look.parts, look.gap(look.parts)[0])
    assert certified == (certify(envelope, Frontier(), eta=eta, epsilon=epsilon).verdict is Verdict.FEASIBLE)


PRIORITIES = st.lists(st.sampled_from([0.001, 0.001, 1.0, 1000.0]), min_size=3, max_size=3)
BESIDE = st.sampled_from([0.0, 1e-12, 1e-8, 5e-7, 1e-3])


@pytest.mark.slow
@settings(max_examples=150)
@given(situations(known=1.0, width=0.0, critical=0.8), PRIORITIES, BESIDE, st.sampled_from([0.0, 0.02]))
def test_floors_certify_alike_whatever_the_priorities(
    drawn: Drawn, priorities: list[float], beside: float, eta: float
) -> None:
    """Floors stand just above what the plan serves: times a small priority, what is missed is no shortfall to speak of."""
    classes = [replace(c, priority=p) for c, p in zip(drawn.instance.classes, priorities, strict=False)]
    weighed = replace(drawn.instance, classes=tuple(classes))
    plan = certify(Envelope.of(weighed, drawn.rows), Frontier(), eta=eta).conservative
    floors = [
        replace(c, floor_rps=got.served_rps * (1.0 + beside)) if c.floor_rps is not None and got.served_rps > 0.0 else c
        for c, got in zip(classes, plan.classes, strict=True)
    ]
    assert_imagined_as_certified(Envelope.of(replace(weighed, classes=tuple(floors)), drawn.rows), eta, 0.4)


def test_a_floor_that_a_small_priority_hides_is_missed_in_both() -> None:
    chat = WorkloadClass("chat", 10.0, Slo(1.0), 1e-4, 4.0 * (1.0 + 2e-6))
    instance, rows = fleet([chat], [looked(LADDER[0], 1.0)], LADDER[:1], Pool("default", 4))
    envelope = Envelope.of(instance, rows)
    assert 0.0 < certify(envelope, Frontier()).lower.shortfall < TIE
    assert certify(envelope, Frontier()).verdict is not Verdict.FEASIBLE
    assert_imagined_as_certified(envelope, 0.0, 0.05)


def under_the_knee(envelope: Envelope) -> Envelope:
    return envelope.assuming((*envelope.assumptions, InteriorKnee()))


@pytest.mark.parametrize("start", STARTS)
def test_paper_expects_what_certificates_show(start: str) -> None:
    asked = situation(STRICT, STARTS[start])
    got = choice("paper", asked)
    assert got.scores == pytest.approx(reductions(asked, under_the_knee(asked.envelope)), abs=1e-9)
    assert got.key == best(got.scores, asked.cost_gpu_s)


@pytest.mark.parametrize("start", STARTS)
def test_targeted_is_the_chance_of_another_plan(start: str) -> None:
    asked = situation(STRICT, STARTS[start])

    def plan(envelope: Envelope) -> dict[object, int]:
        found = Frontier().optimise(envelope.conservative, STAGES[:3], eta=0.0).allocation
        assert found is not None
        return dict(found.replica_counts)

    got, now = choice("targeted", asked), plan(asked.envelope)
    for key, score in got.scores.items():
        chance = math.fsum(p for p, e in imagined(asked, key, asked.envelope) if plan(e) != now)
        assert score == pytest.approx(chance, abs=1e-9)
    assert max(got.scores.values()) == pytest.approx(got.scores[got.key])


@pytest.mark.parametrize("start", STARTS)
def test_voi_is_the_expected_improvement_of_the_plan_per_gpu_second(start: str) -> None:
    asked = situation(STRICT, STARTS[start])

    def value(envelope: Envelope) -> float:
        problem = envelope.conservative
        found = Frontier().optimise(problem, eta=0.0).allocation
        assert found is not None
        plan = evaluate(problem, found.replica_counts)
        return plan.min_fulfilment + plan.goodput_rps / problem.total_demand_rps - plan.shortfall

    got, now = choice("voi", asked), value(asked.envelope)
    for key, score in got.scores.items():
        gain = math.fsum(p * max(0.0, value(e) - now) for p, e in imagined(asked, key, asked.envelope))
        assert score == pytest.approx(gain / asked.cost_gpu_s[key], abs=1e-12)
    assert got.key == best(got.scores, asked.cost_gpu_s)


def test_the_knee_bounds_what_the_paper_policy_imagines_and_no_certificate() -> None:
    chat = WorkloadClass("chat", 20.0, Slo(1.0))
    rates = {1: 1.0, 2: 4.0, 4: 2.0}  # 1, 2 and 0.5 requests/s per GPU: a sharp peak at TP2
    told = [looked(c, rates[c.gpus]) for c in LADDER if c.offered == 4.0]
    instance, rows = fleet([chat], told, LADDER)
    asked = situation(instance, rows)
    knee, wide = under_the_knee(asked.envelope), CellKey("chat", 4, "c8")
    assert knee[wide].capacity_rps.hi < asked.envelope[wide].capacity_rps.hi
    scores = choice("paper", asked).scores
    assert scores == pytest.approx(reductions(asked, knee), abs=1e-9)
    assert scores != pytest.approx(reductions(asked, asked.envelope), abs=1e-3)
    sieve = replayed(instance, [*rows, *(looked(c, 1.5 * rates[c.gpus]) for c in LADDER if c.offered == 8.0)], "paper")
    assert all(a.name != "interior_knee" for a in sieve.envelope.assumptions)
    assert all(a.name != "interior_knee" for a in sieve.certificate.envelope.assumptions)


def test_gpu_seconds_only_break_the_ties_of_the_paper_policy() -> None:
    asked = situation(STRICT, STARTS["half"])
    for name in ("paper", "targeted", "joint-uncertainty", "constrained-bo"):
        first = choice(name, asked)
        tied = [k for k, s in first.scores.items() if f"{s:.9g}" == f"{first.scores[first.key]:.9g}"]
        dear = situation(STRICT, STARTS["half"], dict.fromkeys(tied, 1e9))
        assert choice(name, dear).key in tied
    for name in ("decision-gap", "voi"):
        first = choice(name, asked)
        dear = situation(STRICT, STARTS["half"], {first.key: 1e9})
        assert choice(name, dear).key != first.key


@pytest.mark.parametrize("name", sorted({*POLICIES} - {"random", "grid"}))
def test_of_equals_the_cheaper_is_asked_and_of_these_the_first_by_name(name: str) -> None:
    twins = [cell("code", 2, load) for load in ("a", "b", "c")]
    instance, _ = fleet([WorkloadClass("code", 4.0, Slo(1.0))], [], twins)
    keys = [c.key for c in twins]
    asked = situation(instance, (), dict(zip(keys, (600.0, 300.0, 300.0), strict=True)))
    assert choice(name, asked).key == keys[1]
    assert choice(name, replace(asked, candidates=tuple(reversed(asked.candidates)))).key == keys[1]


def test_scores_count_to_nine_digits() -> None:
    first, second = CELLS[0].key, CELLS[1].key
    cost = {first: 2.0, second: 1.0}
    assert best({first: 1.0 + 1e-12, second: 1.0}, cost) == second
    assert best({first: 1.0 + 1e-6, second: 1.0}, cost) == first


def test_grid_goes_by_degree_and_then_by_load() -> None:
    sieve = replayed(INSTANCE, TABLE, "grid")
    cells = INSTANCE.cell_by_key
    order = [(r.key.tp, cells[r.key].offered, r.key) for r in sieve.measurements]
    assert all(a < b for a, b in pairwise(order))
    assert order[0][:2] == (1, 4.0)
    unnamed = cell("chat", 1, "peak")
    instance, _ = fleet([WorkloadClass("chat", 6.0, Slo(1.0))], [], [unnamed, *LADDER])
    left = situation(instance, [looked(c, 1.0, 2.0) for c in LADDER[:2]])
    assert choice("grid", left).key == unnamed.key


def test_random_draws_every_candidate_and_follows_seed_and_step() -> None:
    asked = situation(INSTANCE)
    drawn = [choice("random", replace(asked, seed=seed)).key for seed in range(300)]
    assert set(drawn) == set(asked.candidates)
    assert max(drawn.count(key) for key in asked.candidates) < 50  # 25 expected of each; 50 is five deviations off
    assert len({choice("random", replace(asked, step=step)).key for step in range(30)}) > 3


@pytest.mark.parametrize("start", STARTS)
def test_joint_uncertainty_sums_the_deviations_of_the_shared_model(start: str) -> None:
    asked = situation(INSTANCE, STARTS[start])
    got = choice("joint-uncertainty", asked)
    look = Lookahead(asked.envelope, asked.certificate.eta, asked.certificate.epsilon)
    for key in asked.candidates:
        if not asked.envelope[key].measured:
            told = [look.belief(key.class_name).predict(INSTANCE.cell_by_key[key], q)[1] for q in ("capacity", "ttft")]
            assert got.scores[key] == pytest.approx(math.fsum(told))
    assert got.scores[got.key] == pytest.approx(max(got.scores.values()))


@pytest.mark.parametrize("name", ["joint-uncertainty", "shared-feature"])
def test_the_class_that_was_never_measured_is_the_least_known(name: str) -> None:
    asked = situation(INSTANCE, TABLE[:2])
    assert choice(name, asked).key.class_name == "code"


@pytest.mark.parametrize("name", BLIND)
def test_a_blind_policy_does_not_see_what_is_at_stake(name: str) -> None:
    for rows in STARTS.values():
        few, many = situation(demanding(INSTANCE, 0.5), rows), situation(demanding(INSTANCE, 4.0), rows)
        assert few.candidates == many.candidates
        assert choice(name, few).key == choice(name, many).key


@pytest.mark.parametrize("name", WEIGHING)
def test_a_weighing_policy_leaves_a_class_without_a_demand_alone(name: str) -> None:
    idle = tuple(replace(c, demand_rps=0.0, floor_rps=None) if c.name == "chat" else c for c in INSTANCE.classes)
    asked = situation(replace(INSTANCE, classes=idle))
    got = choice(name, asked)
    assert got.key.class_name == "code"
    assert all(got.scores[key] == pytest.approx(0.0) for key in asked.candidates if key.class_name == "chat")


def test_shared_feature_learns_across_degrees_and_goes_far() -> None:
    corner = next(r for r in TABLE if r.key == CellKey("chat", 1, "c4"))
    before, after = (
        choice("shared-feature", situation(INSTANCE)),
        choice("shared-feature", situation(INSTANCE, [corner])),
    )
    assert len(set(before.scores.values())) == 1
    of = {(key.tp, key.load): score for key, score in after.scores.items() if key.class_name == "chat"}
    assert of[2, "c4"] < before.scores[CellKey("chat", 2, "c4")]
    assert of[1, "c8"] < of[1, "c16"] < of[2, "c16"]
    assert of[2, "c4"] < of[2, "c8"] < of[2, "c16"]
    other = situation(INSTANCE, [replace(corner, throughput_rps=replace(corner.throughput_rps, value=0.9))])
    assert choice("shared-feature", other).scores == after.scores


def test_constrained_bo_models_each_arm_alone_and_weighs_feasibility() -> None:
    top = next(c for c in CELLS if c.key == CellKey("chat", 1, "c16"))
    before = choice("constrained-bo", situation(INSTANCE)).scores
    near, far = (choice("constrained-bo", situation(INSTANCE, [looked(top, 1.0, ttft)])).scores for ttft in (1.1, 9.0))
    arm = [key for key in far if (key.class_name, key.tp) == ("chat", 1)]
    assert len(arm) == 2
    assert all(0.0 < far[key] < 0.9 * near[key] for key in arm)
    assert far[arm[1]] / near[arm[1]] < far[arm[0]] / near[arm[0]]  # c8 is nearer to what was measured than c4
    for key in set(far) - {*arm}:
        assert far[key] == pytest.approx(before[key])


def test_constrained_bo_wants_more_than_the_best_it_has() -> None:
    chat = [r for r in TABLE if r.key == CellKey("chat", 1, "c4")]
    rich = [replace(r, throughput_rps=replace(r.throughput_rps, value=9.0)) for r in chat]
    few, many = choice("constrained-bo", situation(INSTANCE, chat)), choice("constrained-bo", situation(INSTANCE, rich))
    for key, score in many.scores.items():
        if key.class_name == "chat" and key.tp == 2:
            assert score < few.scores[key]
        if key.class_name == "code":
            assert score == pytest.approx(few.scores[key])

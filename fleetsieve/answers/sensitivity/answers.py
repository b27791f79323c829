"""What people ask of an axis: the tightest limit that can be met, how far today's plan carries, what one more GPU is worth."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleetsieve.allocation import TIE
from fleetsieve.answers.sensitivity.axes import SUCCESS, DemandAxis, EpsilonAxis, GpusAxis, SloAxis
from fleetsieve.answers.sensitivity.deciding import BROKEN, Decision
from fleetsieve.answers.sensitivity.stretches import Span, Stretch, classes_in_minimum
from fleetsieve.answers.sensitivity.study import Study
from fleetsieve.certificate import Verdict
from fleetsieve.instance import CellKey

Answers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far something carries around where the instance is: from the tighter end (included) to the looser one (not included).

    None where nothing ends it. On an axis that is not a limit the ends are those of the range that was studied.
    """

    tightest: float | None
    loosest: float | None


def binding(decision: Decision) -> Answers:
    """What binds a decision: the blocking stage, the least fulfilled classes (when below 1), and the GPUs that are left."""
    plan = decision.plan
    if plan is None:
        return {"blocking": decision.blocking or None, "least_fulfilled": [], "gpus_left": None}
    least = [
        class_plan.class_name
        for demand, class_plan in zip(plan.problem.classes, plan.classes, strict=True)
        if demand.in_minimum
        and class_plan.fulfilment <= plan.min_fulfilment + TIE
        and class_plan.fulfilment < 1.0 - TIE
    ]
    left = sum(pool.gpus for pool in plan.problem.pools) - plan.gpus_used
    return {"blocking": decision.blocking or None, "least_fulfilled": least, "gpus_left": left}


def passing(study: Study, value: float) -> tuple[list[CellKey], list[CellKey]]:
    """The cells whose measured bound, and those whose possible tail (or success), is exactly at a threshold of an SLO axis."""
    axis = study.axis
    if not isinstance(axis, SloAxis):
        return [], []
    proven, hoped = [], []
    for key, b in sorted(study.base.classes[axis.class_name].bounds.items()):
        interval = b.success if axis.metric == SUCCESS else b.tails_s[axis.metric.removesuffix("_p99_s")]
        safe, bold = (interval.lo, interval.hi) if axis.metric == SUCCESS else (interval.hi, interval.lo)
        if b.measured and safe == value:
            proven.append(key)
        elif bold == value:
            hoped.append(key)
    return proven, hoped


def answers(study: Study) -> Answers:
    """The answers of a study, by its axis: see `slo_answers`, `demand_answers`, `gpus_answers`, `epsilon_answers`."""
    axis = study.axis
    if isinstance(axis, SloAxis):
        return slo_answers(study, axis)
    if isinstance(axis, DemandAxis):
        return demand_answers(study)
    if isinstance(axis, GpusAxis):
        return gpus_answers(study)
    return epsilon_answers(study) if isinstance(axis, EpsilonAxis) else {}


def slo_answers(study: Study, axis: SloAxis) -> Answers:
    """For a limit, whatever the range studied:

    - today: the limit that the instance states;
    - tightest_feasible, tightest_possible: the tightest limit at which some measured cell of the class can be committed, and at
      which some cell may pass (for a tail the smallest, for the success the largest);
    - plan_holds: how far the limit can be tightened, and loosened, before today's plan changes (a given plan: breaks).
    """
    order = axis.thresholds(study.base)
    order = order if axis.rises else order[::-1]
    usable = [v for v in order if 0.0 < v <= (1.0 if axis.metric == SUCCESS else sys.float_info.max)]
    at_limits = [(v, study.axis.at(study.base, v).classes[axis.class_name]) for v in usable]
    today = axis.present(study.instance)
    return {
        "today": today,
        "tightest_feasible": next((v for v, c in at_limits if c.committed_choice), None),
        "tightest_possible": next((v for v, c in at_limits if c.servable), None),
        "plan_holds": _reach_document(_slo_reach(study, axis, usable, today)) if today is not None else None,
    }


def _slo_reach(study: Study, axis: SloAxis, order: list[float], today: float) -> Reach | None:
    """How far today's plan carries over all thresholds (from the tightest); None when a given plan is broken today."""
    now = study.decide(today)
    if now.verdict == BROKEN:
        return None

    def same(value: float) -> bool:
        there = study.decide(value)
        return there.verdict != BROKEN and there.placed == now.placed

    tighter = [v for v in order if (v <= today if axis.rises else v >= today)]
    looser = [v for v in order if v not in tighter]
    before: float | None = today
    for value in reversed(tighter):
        if not same(value):
            break
        before = value
    else:
        beyond = (order[0] / 2.0 if axis.rises else (1.0 + order[0]) / 2.0) if order else today
        before = None if same(beyond) else before
    return Reach(before, next((v for v in looser if not same(v)), None))


def demand_answers(study: Study) -> Answers:
    """For a demand: the range of factors around 1 over which today's verdict, and today's plan, stays.

    None where a given plan is broken today, or today is outside the range. An end at the end of the range that was studied is null:
    nothing ended it there.
    """
    return {
        "today": 1.0,
        "verdict_holds": _reach_document(_around(study, 1.0, lambda d: d.verdict if d.verdict != BROKEN else None)),
        "plan_holds": _reach_document(_around(study, 1.0, lambda d: d.placed if d.verdict != BROKEN else None)),
    }


def gpus_answers(study: Study) -> Answers:
    """For GPUs, what more of them than the fleet has add to the guaranteed goodput and min fulfilment:

    - one_more: one GPU more;
    - next_change: the least number that changes the decision, `gpus`, with what it adds; null where the range holds none, or starts
      so far above today that an earlier one may have been skipped;
    - plan_holds: the range of today's plan, both ends included.
    """
    today = int(study.instance.fleet.gpus)
    now = study.decide(today)
    changes = (s for s in study.stretches if s.span.lo > today and s.decision.key != now.key)
    later = next(changes, None) if study.axis.lo <= today + 1 else None
    change = added(now, later.decision) if later is not None else None
    holds = _around(study, today, lambda d: d.placed if d.verdict != BROKEN else None)
    return {
        "today": today,
        "one_more": added(now, study.decide(today + 1)),
        "next_change": {
            "gpus": int(later.span.lo),
            "verdict": later.decision.verdict,
            **change,
        }
        if later is not None and change is not None
        else None,
        "plan_holds": _reach_document(holds),
    }


def added(one: Decision, other: Decision) -> Answers | None:
    """What the second decision guarantees beyond the first; None where one has no plan.

    The min fulfilments are not compared, and None, where they run over different classes or over none.
    """
    if one.plan is None or other.plan is None:
        return None
    alike = classes_in_minimum(one.plan) == classes_in_minimum(other.plan) != []
    return {
        "goodput_rps": other.plan.goodput_rps - one.plan.goodput_rps,
        "min_fulfilment": other.plan.min_fulfilment - one.plan.min_fulfilment if alike else None,
    }


def epsilon_answers(study: Study) -> Answers:
    """For ε: the smallest in the range that certifies."""
    certified = (s.span.lo for s in study.stretches if s.decision.verdict == str(Verdict.FEASIBLE))
    return {"today": study.instance.certificate.epsilon, "certifies_from": next(certified, None)}


def _around(study: Study, today: float, what: Callable[[Decision], object]) -> Reach | None:
    """The ends of the neighbouring stretches in which `what` is as it is today; None when today is outside the range."""
    place = next((k for k, s in enumerate(study.stretches) if s.span.holds(today)), None)
    if place is None or what(study.stretches[place].decision) is None:
        return None
    now = what(study.stretches[place].decision)
    low = high = place
    while low > 0 and what(study.stretches[low - 1].decision) == now:
        low -= 1
    while high + 1 < len(study.stretches) and what(study.stretches[high + 1].decision) == now:
        high += 1
    first, last = study.stretches[low].span, study.stretches[high].span
    return Reach(first.lo if low else None, _end(study.stretches, high, last))


def _end(stretches: tuple[Stretch, ...], high: int, last: Span) -> float | None:
    return last.hi if high + 1 < len(stretches) else None


def _reach_document(reach: Reach | None) -> Answers | None:
    return None if reach is None else {"from": reach.tightest, "to": reach.loosest}

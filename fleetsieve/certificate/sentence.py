"""A certificate in words: the verdict in one sentence, what it rests on, and what one measurement changed.

Guaranteed figures are rounded down and optimistic ones up, so a printed number never promises more than was proven.
"""

from __future__ import annotations

import math

from fleetsieve.certificate.certify import Certificate, Verdict
from fleetsieve.certificate.gap import Gap
from fleetsieve.envelope import Envelope
from fleetsieve.instance import TAIL_METRICS, CellKey, Status
from fleetsieve.interval import lower_text, upper_text
from fleetsieve.statistics import KnownCell

PLAN_RESTS_ON = (
    "requests are routed evenly over the replicas of a class",
    "tails at or below a measured load do not exceed the measured ones",
    "closed-loop latency counts from admission: demand beyond the gate waits outside it",
    "the measured figures hold in production: same model, engine version, hardware and traffic shape",
)
"""What every committed plan takes for granted beyond its measurements."""


def verdict_sentence(certificate: Certificate) -> str:
    """The verdict in one sentence: first the unservable classes, then what is promised and what is not."""
    c = certificate
    words = [f"{c.verdict}:"]
    if c.unservable:
        words.append(f"{_list(c.unservable)} cannot be served by any cell within the SLO;")
    if c.verdict is Verdict.INFEASIBLE:
        words.append("even with the best that the bounds allow, this fleet cannot meet every floor")
        words.append(f"(shortfall at least {lower_text(c.upper.shortfall or 0.0)} of the priority-weighted demand).")
        return " ".join(words)
    if c.verdict is Verdict.FEASIBLE:
        floors = "every floor is met and " if any(d.floor is not None for d in c.conservative.problem.classes) else ""
        words.append(f"{floors}the plan is within {c.epsilon:g} of the best that this fleet can do;")
        words.append(_demand_met(c))
        return " ".join(words)
    words.append(f"{_blocked(c)};")
    cells = [str(key) for key in c.settling[:3]]
    more = f" and {len(c.settling) - 3} more" if len(c.settling) > 3 else ""
    words.append(
        f"measuring {_list(cells)}{more} could settle it." if cells else "no cell is left that could settle it."
    )
    return " ".join(words)


def _demand_met(c: Certificate) -> str:
    short = [got for got in c.conservative.classes if got.fulfilment < 1.0 and got.class_name not in c.unservable]
    if not short and c.unservable:
        others = any(got.class_name not in c.unservable for got in c.conservative.classes)
        return "it serves all demand of the other classes." if others else "it serves nothing."
    if not short:
        return "it serves all demand."
    told = [f"{got.class_name} {lower_text(got.fulfilment, 4)}" for got in short]
    return f"demand is not met in full (fulfilment: {', '.join(told)})."


def _blocked(c: Certificate) -> str:
    if c.blocking == "solver":
        return f"the solver left a bound unproven ({c.reason})"
    if c.blocking == "shortfall":
        return f"a floor is not yet met by measured cells (shortfall gap {upper_text(c.gap.shortfall)})"
    if c.open_classes:
        return f"no measured cell can serve {_list(c.open_classes)} yet"
    if c.blocking == "min_fulfilment":
        return f"the min fulfilment could still rise by {upper_text(c.gap.min_fulfilment)}, more than {c.epsilon:g}"
    return f"the goodput could still rise by {upper_text(c.gap.goodput)} of the demand, more than {c.epsilon:g}"


def rests_on_bounds(envelope: Envelope) -> tuple[str, ...]:
    """What a verdict on these bounds is conditional on, one statement each: assumptions, dropped ones, data, and the plan's own."""
    told = [f"{a.name}: {a.describe()}" for a in envelope.in_force]
    told += [f"{c.assumption} is dropped for {c.arm} ({c.quantity}): {c.text}" for c in envelope.contradictions]
    told += [
        f"memory: cells above a load that ran out of memory twice are closed ({len(own.beyond_memory)} of {name})"
        for name, own in envelope.classes.items()
        if own.beyond_memory
    ]
    known = [k for own in envelope.classes.values() for k in own.view.known.values() if k.measured]
    points = sum(_exact(k) for k in known)
    if points:
        told.append(f"point values: {points} of {len(known)} measured cells are taken as exact")
    if points < len(known):
        told.append(
            f"stated bounds: {len(known) - points} of {len(known)} measured cells are taken at their own bounds"
        )
    return (*told, *PLAN_RESTS_ON)


def _exact(known: KnownCell) -> bool:
    told = (known.capacity_rps, known.success, *(known.tail_s(metric) for metric in TAIL_METRICS))
    return all(interval is None or interval.is_point for interval in told)


def change(before: Certificate, after: Certificate, key: CellKey) -> str:
    """What measuring `key` changed: what it showed, what it ruled out, and how the decision moved."""
    words = [_shown(after, key)]
    ruled_out = sum(
        own.bounds[k].possible and not b.possible and k != key
        for name, own in before.envelope.classes.items()
        for k, b in after.envelope.classes[name].bounds.items()
    )
    if ruled_out:
        words.append(f"rules out {ruled_out} more cell{'s' if ruled_out > 1 else ''}")
    dropped = set(after.envelope.contradictions) - set(before.envelope.contradictions)
    words += [f"contradicts {c.assumption} for {c.arm} ({c.quantity})" for c in sorted(dropped)]
    for old, new in zip(before.conservative.classes, after.conservative.classes, strict=True):
        if (old.configuration, old.replicas) != (new.configuration, new.replicas):
            words.append(
                f"{new.class_name} -> {placement(new.configuration.name if new.configuration else None, new.replicas)}"
            )
    words.append(f"gap {gap_text(before.gap)} -> {gap_text(after.gap)}" if before.gap != after.gap else "gap unchanged")
    return "; ".join(words)


def placement(name: object, replicas: int) -> str:
    """A configuration and its replicas in short: "TP4 c64 x2", or "none"."""
    if not isinstance(name, CellKey):
        return "none"
    pool = "" if name.pool == "default" else f" on {name.pool}"
    return f"TP{name.tp} {name.load}{pool} x{replicas}"


def gap_text(gap: Gap) -> str:
    """The three stage gaps, rounded up: shortfall (only when there is one), min fulfilment, goodput."""
    parts = (
        [gap.min_fulfilment, gap.goodput] if gap.shortfall == 0.0 else [gap.shortfall, gap.min_fulfilment, gap.goodput]
    )
    return "/".join(_gap_part(part) for part in parts)


def _gap_part(part: float) -> str:
    if not math.isfinite(part):
        return "?"
    # The solver's bounds are rounded outwards by this much: no gap that a person could act on.
    return "<1e-6" if 0.0 < part < 1e-6 else upper_text(part)


def _shown(after: Certificate, key: CellKey) -> str:
    b = after.envelope[key]
    known = after.envelope.classes[key.class_name].view.known.get(key)
    if known is None or not known.measured:
        status = known.rows[-1].status if known is not None and known.rows else Status.OK
        return f"ended in {status}"
    capacity = f"{b.capacity_rps.lo:.4g} requests/s" if math.isfinite(b.capacity_rps.hi) else "unknown capacity"
    return f"{'meets' if b.committable else 'straddles' if b.possible else 'misses'} its SLO at {capacity}"


def _list(names: tuple[str, ...] | list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

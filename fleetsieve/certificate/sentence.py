"""A certificate in words: the verdict in one sentence, what it rests on, and what one measurement changed.

Guaranteed figures are rounded down and optimistic ones up, so a printed number never promises more than was proven.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from fleetsieve.allocation import ROUNDED, TIE, Allocation, floor_met
from fleetsieve.bounds.assumptions import statement
from fleetsieve.bounds.envelope import Envelope, class_configurations
from fleetsieve.bounds.ladder_tops import LadderTop, ladder_tops
from fleetsieve.bounds.standing import lacks
from fleetsieve.bounds.statistics import KnownCell, Rules
from fleetsieve.certificate.certify import Certificate, Verdict
from fleetsieve.certificate.gap import Gap
from fleetsieve.certificate.replacing import replacing
from fleetsieve.instance import NOISE_KEYS, TAIL_METRICS, CellKey, Status
from fleetsieve.interval import lower_text, upper_text

PLAN_RESTS_ON = (
    "all replicas of a class have one configuration: one TP, load and pool",
    "requests are routed evenly over the replicas of a class",
    "tails at or below a measured load do not exceed the measured ones",
    "closed-loop latency counts from admission: demand beyond the gate waits outside it",
    "the measured figures hold in production: same model, engine version, hardware and traffic shape",
)
"""What every committed plan takes for granted beyond its measurements."""


def verdict_sentence(certificate: Certificate) -> str:
    """The verdict in one sentence: first the unservable classes, then what is promised and what is not."""
    c = certificate
    words = [f"{c.verdict}:", *_unservable(c)]
    if c.verdict is Verdict.INFEASIBLE:
        words.append(
            "even with the best that the bounds allow, this fleet cannot meet every floor with one configuration a class"
        )
        words.append(f"(priority-weighted shortfall at least {lower_text(c.upper.shortfall or 0.0)}).")
        floored = {workload.name for workload in c.envelope.instance.classes if workload.floor_rps is not None}
        return " ".join([*words, *_above(top for top in ladder_tops(c.envelope) if top.arm.class_name in floored)])
    if c.verdict is Verdict.FEASIBLE:
        floors = f"every floor is met{floors_as_demand(c.envelope)}{floors_by_rounding(c.conservative)} and "
        critical = any(d.floor is not None for d in c.conservative.problem.classes)
        words.append(
            f"{floors if critical else ''}no plan for this fleet is better by more than {c.epsilon:g} in the least fulfilment,"
        )
        words.append(f"nor by more than {c.epsilon:g} of the demand in goodput;")
        words.append(_demand_met(c))
    else:
        words.append(f"{_blocked(c)}; {_left(c)}.")
    used = c.conservative.replica_counts
    return " ".join([*words, *_above(top for top in ladder_tops(c.envelope) if top.top in used)])


def _above(tops: Iterable[LadderTop]) -> list[str]:
    """That loads above these top rungs, which still meet their SLO, were not considered; nothing where there is none."""
    named = [f"{top.top} ({_next(top)})" for top in tops]
    if not named:
        return []
    meets = "meets its SLO and is the highest load" if len(named) == 1 else "meet their SLO and are the highest loads"
    return [
        f"No higher load was considered, although {listed(named, 3)} still {meets} of {'its' if len(named) == 1 else 'their'} arm."
    ]


def _next(top: LadderTop) -> str:
    if top.at_most_rps is None:
        return f"{top.next.key.load} has no upper bound"
    return f"{top.next.key.load} could serve at most {upper_text(top.at_most_rps)} requests/s on a replica"


def floors_as_demand(envelope: Envelope) -> str:
    """In brackets, after a space: the floors above the demand of their class, which count as that demand; "" without any."""
    floors = [
        f"{c.name} {c.floor_rps:g} as {c.demand_rps:g}"
        for c in envelope.instance.classes
        if c.floor_rps is not None and c.floor_rps > c.demand_rps
    ]
    return f" (a floor above its class's demand counts as the demand: {listed(floors, 5)} requests/s)" if floors else ""


def floors_by_rounding(plan: Allocation) -> str:
    """In brackets, after a space: the floors that a plan misses by no more than rounding; "" without any."""
    floors = [
        f"{class_plan.class_name} serves {class_plan.served_rps:.9g} of {demand.floor * demand.demand_rps:.9g}"
        for demand, class_plan in zip(plan.problem.classes, plan.classes, strict=True)
        if demand.floor is not None
        and class_plan.fulfilment < demand.floor - TIE
        and floor_met(demand.floor, class_plan.fulfilment)
    ]
    part = f"a floor missed by no more than {ROUNDED:g} of it counts as met: figures in files are rounded"
    return f" ({part}; {listed(floors, 5)} requests/s)" if floors else ""


def _unservable(c: Certificate) -> list[str]:
    """The unservable classes, apart where the operator excluded every cell, and where those that keep the SLO are too wide."""
    cells = c.envelope.instance.cells
    vetoed = [name for name in c.unservable if all(cell.excluded for cell in cells if cell.key.class_name == name)]
    wide = [name for name in c.unservable if c.envelope.classes[name].too_wide]
    stopped = [name for name in c.unservable if name not in (*vetoed, *wide) and _runs_nowhere(c.envelope, name)]
    others = [name for name in c.unservable if name not in (*vetoed, *wide, *stopped)]
    words = [f"every cell of {listed(vetoed)} is excluded;"] if vetoed else []
    words += [f"no cell of {listed(wide)} that may keep the SLO fits the fleet's nodes and GPUs;"] if wide else []
    words += [f"no server for {listed(stopped)} can run on this fleet;"] if stopped else []
    return words + ([f"{listed(others)} cannot be served by any cell within the SLO;"] if others else [])


def _runs_nowhere(envelope: Envelope, name: str) -> bool:
    """Whether failures alone close every cell of a class that is not excluded: no SLO has a part in it."""
    class_envelope = envelope.classes[name]
    return all(key in class_envelope.closed for key, b in class_envelope.bounds.items() if not b.cell.excluded)


def _demand_met(c: Certificate) -> str:
    short = [
        class_plan
        for class_plan in c.conservative.classes
        if class_plan.fulfilment < 1.0 and class_plan.class_name not in c.unservable
    ]
    if not short and c.unservable:
        others = any(class_plan.class_name not in c.unservable for class_plan in c.conservative.classes)
        return "it serves all demand of the other classes." if others else "it serves nothing."
    if not short:
        return "it serves all demand."
    named = [
        f"{class_plan.class_name} {lower_text(class_plan.fulfilment, 4)}"
        for class_plan in sorted(short, key=lambda class_plan: class_plan.fulfilment)
    ]
    return f"demand is not met in full (fulfilment: {listed(named, 5)})."


def _blocked(c: Certificate) -> str:
    if c.blocking == "solver":
        return f"the solver was cut short ({c.reason})"
    if c.blocking == "shortfall":
        return f"a floor is not yet met by measured cells (shortfall gap {upper_text(c.gap.shortfall)})"
    if c.open_classes:
        return f"no measured cell can serve {listed(c.open_classes, 5)} yet"
    if c.blocking == "min_fulfilment":
        return f"the least fulfilment could still rise by {upper_text(c.gap.min_fulfilment)}, more than {c.epsilon:g}"
    return f"the goodput could still rise by {upper_text(c.gap.goodput)} of the demand, more than {c.epsilon:g}"


def hoped_for(certificate: Certificate) -> tuple[tuple[CellKey, ...], tuple[CellKey, ...]]:
    """The cells that the best plan still possible needs and no measurement assures: those to look at, and those that failed.

    A cell whose part measured ones can play on the same GPUs is not needed. The failed ones are possible still (it may be a flake),
    and no candidates any more.
    """
    c = certificate
    if c.optimistic is None:
        return (), ()
    needed = []
    for key in sorted(c.optimistic.replica_counts, key=str):
        if isinstance(key, CellKey) and not c.envelope[key].committable:
            class_envelope = c.envelope.classes[key.class_name]
            usable = class_configurations(c.envelope.instance, class_envelope, lower=True)
            needed += [key] if replacing(c.envelope, class_envelope, c.envelope[key], usable) is None else []
    waiting = set(c.settling)
    failed = [key for key in needed if key not in waiting and _failed(c, key)]
    return tuple(key for key in needed if key in waiting), tuple(failed)


def _failed(c: Certificate, key: CellKey) -> bool:
    known = c.envelope.classes[key.class_name].view.known.get(key)
    return known is not None and known.failed


def _left(c: Certificate) -> str:
    """What an undecided verdict waits for: nothing is claimed about what one measurement would settle."""
    waiting, failed = hoped_for(c)
    parts = []
    if waiting:
        parts.append(f"{listed([str(key) for key in waiting], 3)}, not known well enough yet")
    if failed:
        names, are, them = (
            listed([str(key) for key in failed], 3),
            *(("are", "them") if len(failed) > 1 else ("is", "it")),
        )
        parts.append(
            f"{names}, which failed and {are} not tried again: fix the cause and measure {them} again, or exclude {them}"
        )
    if parts:
        return f"the best plan still possible rests on {', and on '.join(parts)}"
    if c.settling:
        return f"{listed([str(key) for key in c.settling], 3)} can still be measured"
    return "no cell is left that a further measurement could settle"


def rests_on_bounds(envelope: Envelope) -> tuple[str, ...]:
    """What a verdict on these bounds is conditional on, one statement each: assumptions, dropped ones, data, and the plan's own."""
    lines = [f"{a.name}: {statement(a)}" for a in envelope.in_force]
    lines += [f"{c.assumption} is dropped for {c.arm} ({c.quantity}): {c.text}" for c in envelope.contradictions]
    closed: dict[str, list[CellKey]] = {}
    for class_envelope in envelope.classes.values():
        for key, why in class_envelope.closed.items():
            closed.setdefault(why, []).append(key)
    lines += [f"closed for good, {why}: {listed([str(key) for key in closed[why]], 5)}" for why in sorted(closed)]
    lines += rows_apart(envelope)
    if tops := ladder_tops(envelope):
        named = listed([f"{top.top} ({_next(top)})" for top in tops], 5)
        lines.append(
            f"no load above the highest of an arm: where that still meets its SLO, add the next one to cells.csv: {named}"
        )
    known = measured_cells(envelope)
    kinds = {"records": "bounded from their requests, counted as independent",
             "point values": "taken as exact", "stated bounds": "taken at their own bounds",
             "repeats": "taken at the hull of their measurements",
             "runs": "widened by the spread between runs"}  # fmt: skip
    counts = kinds_of_figures(envelope)
    for kind, how in kinds.items():
        count = counts.get(kind, 0)
        lines += [f"{kind}: {count} of {len(known)} measured cells are {how}"] if count else []
    return (*lines, *_spread(envelope), *_missing(known), *PLAN_RESTS_ON)


def rows_apart(envelope: Envelope) -> tuple[str, ...]:
    """One statement for each reason for which measurements do not count, or bound no other cell, with the cells concerned."""
    apart: dict[str, list[str]] = {}
    for class_envelope in envelope.classes.values():
        for key in sorted(class_envelope.view.known):
            known = class_envelope.view.known[key]
            for row in known.rows:
                if row.refused:
                    apart.setdefault(f"not counted, because {row.refused}", []).append(f"{key} seed {row.seed}")
            least = class_envelope.view.rules.rule_set.least_success
            if known.success is not None and known.success.hi < least:
                why = f"no bound on other cells' capacity, because too many requests failed (success below {least:g})"
                apart.setdefault(why, []).append(str(key))
            if class_envelope.view.rules.rule_set.refuses and (lost := known.without_record):
                why = f"{lost} requests without a record count as failed"
                apart.setdefault(why, []).append(str(key))
    return tuple(f"{why}: {listed(names, 5)}" for why, names in apart.items())


def measured_cells(envelope: Envelope) -> list[KnownCell]:
    """The cells of which a measurement succeeded."""
    return [k for class_envelope in envelope.classes.values() for k in class_envelope.view.known.values() if k.measured]


def kinds_of_figures(envelope: Envelope) -> dict[str, int]:
    """How many measured cells there are of each kind of figures: records, point values, stated bounds, repeats, runs."""
    return dict(Counter(_kind(known, envelope.rules) for known in measured_cells(envelope)))


def _spread(envelope: Envelope) -> list[str]:
    """What is taken as the spread between runs."""
    rules = envelope.rules
    if not rules.spreads:
        return []
    spreads = [
        f"{NOISE_KEYS[name]} {spread.sigma:.3g} "
        + ("(declared)" if spread.dof is None else f"(estimated, {spread.dof} degrees of freedom)")
        for name, spread in sorted(rules.spreads.items())
    ]
    return [f"spread between runs, as σ of ln(one run / long-run value): {', '.join(spreads)}"]


def _missing(known: Sequence[KnownCell]) -> list[str]:
    """Cells whose records are too few to bound a p99 from above."""
    return [
        f"{k.key} needs {k.missing_requests} more requests before they bound its p99 from above"
        for k in sorted(known, key=lambda k: k.key)
        if k.missing_requests > 0
    ]


def _kind(known: KnownCell, rules: Rules) -> str:
    """What a cell's figures are: bounds from records or runs, point values, bounds that its one row states, or the hull of rows."""
    if any(row.records is not None for row in known.rows):
        return "records"
    if rules.spreads:
        return "runs"
    if known.count(Status.OK) > 1:
        return "repeats"
    intervals = (known.capacity_rps, known.success, *(known.tail_s(metric) for metric in TAIL_METRICS))
    return "point values" if all(interval is None or interval.is_point for interval in intervals) else "stated bounds"


def change(before: Certificate, after: Certificate, key: CellKey) -> str:
    """What measuring `key` changed: what it showed, what it ruled out, and how the decision moved."""
    words = [_shown(after, key)]
    ruled_out = sum(
        class_envelope.bounds[k].possible and not b.possible and k != key
        for name, class_envelope in before.envelope.classes.items()
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
    return f"{name.configuration} x{replicas}"


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
    b, class_envelope = after.envelope[key], after.envelope.classes[key.class_name]
    known = class_envelope.view.known.get(key)
    if known is not None and known.rows[-1].refused:
        return f"does not count: {known.rows[-1].refused}"
    if known is None or known.failed:
        return f"ended in {known.rows[-1].status if known is not None else 'nothing'}"
    lacking = lacks(known, class_envelope.view.workload.slo)
    if lacking and b.possible:
        return f"its row lacks {listed(lacking)}"
    meets = "meets" if b.committable else "straddles" if b.possible else "misses"
    return (
        f"{meets} its SLO at {b.capacity_rps.lo:.4g} requests/s" if b.capacity_rps.hi < math.inf else f"{meets} its SLO"
    )


def listed(names: Sequence[str], limit: int | None = None) -> str:
    """Names in a sentence, the first `limit` of them: "a, b and 3 more"."""
    shown = list(names[:limit])
    if len(names) > len(shown):
        return f"{', '.join(shown)} and {len(names) - len(shown)} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)

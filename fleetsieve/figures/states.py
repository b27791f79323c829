"""What a cell is to the decision, as figures colour it."""

from __future__ import annotations

from enum import StrEnum

from fleetsieve.answers.diagnosis.cells import limit_name
from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.bounds.envelope import ClassEnvelope
from fleetsieve.certificate import Certificate
from fleetsieve.figures.palette import Palette
from fleetsieve.instance import TAIL_METRICS, CellKey
from fleetsieve.interval import Interval


class State(StrEnum):
    """From what is used to what cannot be."""

    PLANNED = "in the plan"
    USABLE = "measured, keeps its SLO"
    OPEN = "not measured"
    STRADDLES = "measured, may keep its SLO"
    MISSES = "measured, misses its SLO"
    RULED_OUT = "ruled out without measuring"
    FAILED = "failed"
    EXCLUDED = "excluded"


def cell_state(certificate: Certificate, key: CellKey) -> State:
    """The state of a cell."""
    class_envelope = certificate.envelope.classes[key.class_name]
    b, known = class_envelope.bounds[key], class_envelope.view.known.get(key)
    if b.cell.excluded:
        return State.EXCLUDED
    if known is not None and known.failed:
        return State.FAILED
    if key in certificate.conservative.replica_counts:
        return State.PLANNED
    if b.committable:
        return State.USABLE
    if b.measured:
        return State.STRADDLES if b.possible else State.MISSES
    return State.OPEN if b.possible else State.RULED_OUT


UNUSABLE = "none: no plan can use it"
"""The text for the capacity of a cell that failures or the operator close."""


def state_text(class_envelope: ClassEnvelope, b: CellBounds, state: State) -> str:
    """The state of a cell in words; of a failed one also what follows."""
    why = class_envelope.closed.get(b.cell.key)
    if why is not None:
        return f"{state}: {why}"
    return (
        f"{state}, still possible: the failure may be transient" if state is State.FAILED and b.possible else str(state)
    )


def colours(palette: Palette) -> dict[State, str]:
    """The colour of a cell in each state, at its strongest; a frame marks those in the plan."""
    return {
        State.PLANNED: palette.keeps,
        State.USABLE: palette.keeps,
        State.OPEN: palette.faint,
        State.STRADDLES: palette.may_keep,
        State.MISSES: palette.misses,
        State.RULED_OUT: palette.pale,
        State.FAILED: palette.failed,
        State.EXCLUDED: palette.paper,
    }


SIGNS = {State.MISSES: "× ", State.STRADDLES: "~ ", State.RULED_OUT: "– ", State.FAILED: "! ", State.EXCLUDED: "– "}
"""What is before the label of a cell, for those who do not tell its colour."""


def tail_text(tail: Interval) -> str:
    """A p99 interval in words."""
    if tail.is_point:
        return f"{tail.hi:.4g} s"
    if tail.hi == float("inf"):
        return f"at least {tail.lo:.4g} s" if tail.lo > 0.0 else "unknown"
    return f"{tail.lo:.4g} to {tail.hi:.4g} s"


def rate_text(capacity: Interval) -> str:
    """A capacity interval in words."""
    if capacity.is_point:
        return f"{capacity.hi:.4g} requests/s"
    if capacity.hi == float("inf"):
        return f"at least {capacity.lo:.4g} requests/s" if capacity.lo > 0.0 else "unknown"
    low = f"{capacity.lo:.4g} to " if capacity.lo > 0.0 else "at most "
    return f"{low}{capacity.hi:.4g} requests/s"


def limits_text(class_envelope: ClassEnvelope, b: CellBounds) -> str:
    """The limited tails of a cell beside their limits."""
    slo = class_envelope.view.workload.slo
    sentences = [
        f"{limit_name(m)} {tail_text(b.tails_s[m])} (limit {limit:g} s)"
        for m in TAIL_METRICS
        if (limit := slo.limit_s(m)) is not None
    ]
    if slo.min_success is not None:
        known = b.success.lo != 0.0 or b.success.hi != 1.0
        success = f"{100.0 * b.success.lo:.4g}\u00a0%" if known else "unknown"
        sentences.append(f"success {success} (limit {100.0 * slo.min_success:.4g}\u00a0%)")
    return "; ".join(sentences) or "no limit"

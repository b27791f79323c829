"""What is known of the cells of a class along their load ladders, as rows that a figure draws."""

from __future__ import annotations

import math
from typing import Any

from fleetsieve.bounds.assumptions import CAPACITY
from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.bounds.envelope import ClassEnvelope
from fleetsieve.certificate import Certificate
from fleetsieve.figures.drawing import plain, titled
from fleetsieve.figures.states import SIGNS, UNUSABLE, State, cell_state, rate_text, state_text, tail_text
from fleetsieve.instance import TAIL_METRICS, Cell, CellKey, LoadKind
from fleetsieve.interval import NON_NEGATIVE, Interval

BAND, WIDEST = 0.8, 0.3
"""The share of a load's band that its cells take, and the most between two of them."""

Row = dict[str, Any]


def limited_metrics(certificate: Certificate, class_name: str) -> tuple[str, ...]:
    """The tail metrics that the SLO of a class limits; TTFT where it limits none."""
    slo = certificate.envelope.instance.class_by_name[class_name].slo
    return tuple(m for m in TAIL_METRICS if slo.limit_s(m) is not None) or ("ttft",)


def ladder_rows(certificate: Certificate, class_name: str, quantity: str) -> list[Row]:
    """One row a cell: its place, the ends of its interval (None where open), how it is drawn, and words for a tooltip.

    `drawn`: "value" (measured), "bound" (what the assumptions leave open), "unknown" (nothing bounds it) or "closed" (no plan can
    use it, and nothing of this quantity is known). `beside`: where it is in the band of its load, in bands from the middle.
    """
    class_envelope = certificate.envelope.classes[class_name]
    cells = ladder_cells(certificate, class_name)
    together: dict[str, list[CellKey]] = {}
    for cell in cells:
        together.setdefault(cell.key.load, []).append(cell.key)
    rows = []
    for cell in cells:
        b, mates = class_envelope.bounds[cell.key], together[cell.key.load]
        interval = b.capacity_rps if quantity == CAPACITY else b.tails_s[quantity]
        state = cell_state(certificate, cell.key)
        drawn = _drawn(class_envelope, b, quantity, interval)
        rows.append(
            {
                **titled(cell.key),
                "label": plain(cell.key.load),
                "beside": (mates.index(cell.key) - (len(mates) - 1) / 2.0) * min(WIDEST, BAND / len(mates)),
                "lo": interval.lo if interval.lo > 0.0 else None,
                "hi": interval.hi if math.isfinite(interval.hi) else None,
                "drawn": drawn,
                "measured": drawn == "value",
                "planned": state is State.PLANNED,
                "state": state_text(class_envelope, b, state),
                "sign": SIGNS.get(state, "").strip() or ("?" if drawn == "unknown" else ""),
                "shown": _shown(b, quantity, interval, drawn),
            }
        )
    return rows


def _drawn(class_envelope: ClassEnvelope, b: CellBounds, quantity: str, interval: Interval) -> str:
    by = b.origins.get(quantity, "")
    if b.measured and not by and interval != NON_NEGATIVE:
        return "value"
    shut = b.cell.excluded or b.cell.key in class_envelope.closed
    # A bound on a tail is what rules a cell out; what it could have served is of no more use.
    if shut or (not b.possible and (quantity == CAPACITY or interval == NON_NEGATIVE)):
        return "closed"
    return "unknown" if interval == NON_NEGATIVE else "bound"


def _shown(b: CellBounds, quantity: str, interval: Interval, drawn: str) -> str:
    if drawn == "closed":
        return UNUSABLE
    text, by = rate_text(interval) if quantity == CAPACITY else tail_text(interval), b.origins.get(quantity, "")
    return f"{text}, by {by}" if by else f"{text}, measured" if b.measured else text


def ladder_cells(certificate: Certificate, class_name: str) -> list[Cell]:
    """The cells of a class by TP degree, each ladder from the lowest load up."""
    arms = certificate.envelope.instance.arms
    return [cell for arm in sorted(arms) if arm.class_name == class_name for cell in arms[arm]]


def load_title(certificate: Certificate, class_name: str) -> str:
    """What the load labels of a class count."""
    kinds = {cell.load_kind for cell in ladder_cells(certificate, class_name)}
    if len(kinds) != 1:
        return "load of one replica"
    return "load: requests/s per replica" if kinds == {LoadKind.RATE} else "load: in flight per replica"


def labels_in_order(certificate: Certificate, class_name: str) -> list[str]:
    """The load labels of a class by offered load; those without a number come last."""
    cells = sorted(
        ladder_cells(certificate, class_name), key=lambda c: (c.offered is None, c.offered or 0.0, c.key.load)
    )
    return list(dict.fromkeys(plain(cell.key.load) for cell in cells))

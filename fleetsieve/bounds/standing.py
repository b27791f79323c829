"""Whether a run may ask for a cell, and why (not), by its bounds: the loop asks by it, and an account prints it."""

from __future__ import annotations

from enum import StrEnum

from fleetsieve.bounds.assumptions import ClassView
from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.bounds.envelope import ClassEnvelope, Envelope, fits
from fleetsieve.bounds.statistics import KnownCell
from fleetsieve.instance import TAIL_METRICS, THROUGHPUT, CellKey, Slo, Status


class Standing(StrEnum):
    """Why a run may ask for a cell (`asks`), or why it does not.

    The bounds of the cell decide the first ten; what else there is to measure, and the verdict, the last five.
    """

    NEW = "it was not measured yet"
    RETRY = "its last measurement failed, and may not fail again"
    LACKING = "its rows lack a value that a decision needs"
    STRADDLES = "its bounds straddle the SLO, and another measurement narrows them"
    WIDE = "another measurement narrows what it promises"
    UNUSABLE = (
        "no plan may use it: excluded, closed, ruled out, too large for a node, or of a class that demands nothing"
    )
    GIVEN_UP = "it failed as often as a run tries"
    LOOKS_USED = "it was measured as often as max_looks allows"
    SETTLED = "another measurement would say no more of it"
    NO_ROW = "the run cannot measure it"
    ROWS_USED = "the run has no further row of it"
    SET_ASIDE = "neither plan uses it, and something else is left to measure"
    FUTILE = "the verdict stays undecided even if all that is left turns out as good, or as bad, as its bounds allow"
    DECIDED = "the verdict is reached"

    @property
    def asks(self) -> bool:
        """Whether a run may ask for the cell."""
        return self in _ASKS

    @property
    def may_commit(self) -> bool:
        """Whether the measurement may make the cell one that a plan can commit, which it is not now."""
        return self in _ASKS and self is not Standing.WIDE


_ASKS = frozenset({Standing.NEW, Standing.RETRY, Standing.LACKING, Standing.STRADDLES, Standing.WIDE})


def standing(class_envelope: ClassEnvelope, b: CellBounds) -> Standing:
    """Whether a measurement may still resolve a cell that a plan may use, as far as its bounds show.

    Unmeasured cells that are still possible are new; one whose last measurement failed is tried once more, for that may have been a
    flake (or a first OOM); for measured ones see `_of_measured`. No plan uses a cell whose replica fits no node of its pool, or
    whose class demands nothing.
    """
    view, known = class_envelope.view, class_envelope.view.known.get(b.cell.key)
    useless = view.workload.demand_rps <= 0.0 or not fits(b.cell, view.pools[b.cell.key.pool])
    if not b.possible or b.cell.excluded or useless:
        return Standing.UNUSABLE
    if known is None:
        return Standing.NEW
    if known.failed and known.given_up:
        return Standing.GIVEN_UP
    if len(known.rows) >= view.rules.max_looks:
        return Standing.LOOKS_USED
    return Standing.RETRY if known.failed else _of_measured(view, b, known)


def _of_measured(view: ClassView, b: CellBounds, known: KnownCell) -> Standing:
    """Whether one more look at a measured cell may settle it or narrow what it promises.

    Its one measurement lacks a value that is needed; or statistics stand behind its figures (records, or a known spread), and it
    straddles its SLO or its capacity is an interval still.
    """
    slo, spreads = view.workload.slo, view.rules.spreads
    if not b.committable and known.count(Status.OK) < 2 and lacks(known, slo):
        return Standing.LACKING
    recorded = any(row.records is not None for row in known.rows)
    limited = [b.tails_s[m] for m in TAIL_METRICS if slo.limit_s(m) is not None and (recorded or m in spreads)]
    limited += [b.success] if recorded and slo.min_success is not None else []
    if not b.committable and not all(interval.is_point for interval in limited):
        return Standing.STRADDLES
    wide = (recorded or THROUGHPUT in spreads) and not b.capacity_rps.is_point
    return Standing.WIDE if wide else Standing.SETTLED


def lacks(known: KnownCell, slo: Slo) -> tuple[str, ...]:
    """The columns of which a measured cell has neither a value nor bounds, though a decision needs them."""
    needed = {"throughput_rps": known.capacity_rps}
    needed |= {f"{m}_p99_s": known.tail_s(m) for m in TAIL_METRICS if slo.limit_s(m) is not None}
    if slo.min_success is not None:
        needed["success_rate"] = known.success
    return tuple(column for column, interval in needed.items() if interval is None)


def standings(envelope: Envelope) -> dict[CellKey, Standing]:
    """The standing of every cell as far as its bounds show, in the fixed order of names."""
    found = {
        key: standing(class_envelope, b)
        for class_envelope in envelope.classes.values()
        for key, b in class_envelope.bounds.items()
    }
    return {key: found[key] for key in sorted(found)}


def candidates(envelope: Envelope) -> tuple[CellKey, ...]:
    """The cells that a measurement may still resolve and a plan may use, in the fixed order of names."""
    return tuple(key for key, standing in standings(envelope).items() if standing.asks)

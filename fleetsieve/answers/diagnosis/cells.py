"""What is known of each cell, what removes it, and whether it can still change the decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from fleetsieve_models.problem import Configuration

from fleetsieve.answers.diagnosis.bounds import SUCCESS, Bound, Witnesses, bounds_of
from fleetsieve.bounds.assumptions import CAPACITY, MEMORY
from fleetsieve.bounds.cell_bounds import CellBounds
from fleetsieve.bounds.envelope import ClassEnvelope, class_configurations, fits
from fleetsieve.bounds.standing import Standing, lacks
from fleetsieve.bounds.statistics import KnownCell
from fleetsieve.brief import brief
from fleetsieve.certificate import Certificate, Verdict
from fleetsieve.certificate.replacing import replacing
from fleetsieve.certificate.sentence import listed
from fleetsieve.instance import Cell, CellKey, Measurement


class Knowledge(StrEnum):
    """How a cell is known."""

    MEASURED = "measured"
    FAILED = "failed"
    BOUNDED = "bounded"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CellAccount:
    """The account of one cell.

    `rows` are its own measurements; `closed` is the reason why no plan may use it besides its bounds ("" where nothing
    does); `standing` whether a run may ask for it; `can_change` and `why`: whether a measurement of it can still change the
    decision, and the reason.
    """

    cell: Cell
    rows: tuple[Measurement, ...]
    known: Knowledge
    bounds: tuple[Bound, ...]
    closed: str
    planned_replicas: int
    standing: Standing
    can_change: bool
    why: str

    def __repr__(self) -> str:
        return brief(self)

    @property
    def key(self) -> CellKey:
        """The cell's key."""
        return self.cell.key

    @cached_property
    def removed_by(self) -> tuple[Bound, ...]:
        """The bounds that rule the cell out."""
        return tuple(bound for bound in self.bounds if bound.removes)

    def bound(self, quantity: str) -> Bound:
        """The bound of "capacity", "ttft", "e2e", "tpot" or "success"."""
        return next(bound for bound in self.bounds if bound.quantity == quantity)


def cell_accounts(
    certificate: Certificate, standings: Mapping[CellKey, Standing], keys: Iterable[CellKey] | None = None
) -> tuple[CellAccount, ...]:
    """The account of every cell, or of `keys`, in the order of the instance.

    `standings` gives for every cell whether a run may ask for it, and why (not): a sieve's, or those of an envelope.
    """
    envelope = certificate.envelope
    wanted = None if keys is None else set(keys)
    accounts: list[CellAccount] = []
    for workload in envelope.instance.classes:
        class_envelope = envelope.classes[workload.name]
        chosen = [key for key in class_envelope.bounds if wanted is None or key in wanted]
        if not chosen:
            continue
        witnesses = Witnesses(class_envelope, envelope.assumptions)
        usable = class_configurations(envelope.instance, class_envelope, lower=True)
        accounts += [
            _account(
                certificate, class_envelope, key, bounds_of(class_envelope, key, witnesses), usable, standings[key]
            )
            for key in chosen
        ]
    order = {cell.key: place for place, cell in enumerate(envelope.instance.cells)}
    return tuple(sorted(accounts, key=lambda account: order[account.key]))


def _account(
    certificate: Certificate,
    class_envelope: ClassEnvelope,
    key: CellKey,
    bounds: tuple[Bound, ...],
    usable: Sequence[Configuration],
    standing: Standing,
) -> CellAccount:
    b, known = class_envelope.bounds[key], class_envelope.view.known.get(key)
    planned = certificate.conservative.replica_counts.get(key, 0)
    closed = _closed(class_envelope, b)
    can_change, why = _effect(certificate, class_envelope, b, usable, standing, planned, closed, bounds)
    rows = known.rows if known is not None else ()
    return CellAccount(
        b.cell, rows, _known(b, class_envelope, bounds), bounds, closed, planned, standing, can_change, why
    )


def _known(b: CellBounds, class_envelope: ClassEnvelope, bounds: Sequence[Bound]) -> Knowledge:
    known = class_envelope.view.known.get(b.cell.key)
    if known is not None and known.failed:
        return Knowledge.FAILED
    if b.measured:
        return Knowledge.MEASURED
    return Knowledge.BOUNDED if any(bound.known for bound in bounds) else Knowledge.UNKNOWN


def _closed(class_envelope: ClassEnvelope, b: CellBounds) -> str:
    """Why no plan may use the cell, whatever it would show."""
    key = b.cell.key
    if b.cell.excluded:
        return "excluded by the operator"
    if key in class_envelope.closed:
        return class_envelope.closed[key]
    if class_envelope.view.workload.demand_rps <= 0.0:
        return "its class has no demand"
    return "" if fits(b.cell, class_envelope.view.pools[key.pool]) else "its replica does not fit on a node"


def _effect(
    certificate: Certificate,
    class_envelope: ClassEnvelope,
    b: CellBounds,
    usable: Sequence[Configuration],
    standing: Standing,
    planned: int,
    closed: str,
    bounds: Sequence[Bound],
) -> tuple[bool, str]:
    """Whether a measurement of the cell can still change the decision, and why."""
    if closed:
        return False, closed
    if not b.possible:
        return False, f"ruled out: {listed([_removal(bound) for bound in bounds if bound.removes])}"
    if planned:
        reason = f"in the plan, {planned} replica{'s' if planned > 1 else ''}"
        return standing.asks, f"{reason}; another measurement may narrow its bounds" if standing.asks else reason
    if certificate.verdict is Verdict.INFEASIBLE:
        return False, "a floor is missed even if it is as good as possible"
    if certificate.verdict is Verdict.FEASIBLE:
        return False, _settled(certificate, b)
    if not standing.asks:
        return False, _not_asked(class_envelope, b, standing)
    better = replacing(certificate.envelope, class_envelope, b, usable)
    if better == b.cell.key:
        return False, "measured, and guaranteed to serve as much of its class as a plan could use"
    if better is not None:
        return False, f"{better}, which is measured, serves as much of the class on no more GPUs"
    return True, "another measurement may settle it" if b.measured else "a better plan may use it"


def _removal(bound: Bound) -> str:
    """The limit that a bound breaks, with the assumption and the cell behind it where it was not measured."""
    name = limit_name(bound.quantity)
    if bound.measured:
        return name
    source = f" from {bound.cells[0].configuration}" if len(bound.cells) == 1 else ""
    return f"{name}, by {bound.assumption}{source}"


def _settled(certificate: Certificate, b: CellBounds) -> str:
    if b.committable:
        return "usable but not needed: the plan is as good without it"
    return f"no result of it makes a plan better by more than {certificate.epsilon:g}"


def _not_asked(class_envelope: ClassEnvelope, b: CellBounds, standing: Standing) -> str:
    """Why a run does not ask for a cell that is still possible."""
    known = class_envelope.view.known.get(b.cell.key)
    if standing is Standing.FUTILE:
        return f"{standing}: another cell straddles its SLO and cannot be measured again"
    if known is None:
        return "it cannot be measured: the replayed table has no row for it"
    if standing is Standing.GIVEN_UP:
        return f"{_ended(known)}, and is not tried again; it could if it ran"
    if b.committable:
        return "usable but not needed: the plan is as good without it"
    if standing is Standing.SET_ASIDE:
        return f"{_lacking(class_envelope, known)}; neither plan uses it, so it is measured again only when nothing else is left"
    times = f"{len(known.rows)} time{'s' if len(known.rows) > 1 else ''}"
    ends = {
        Standing.LOOKS_USED: f"it was measured {times}, as often as max_looks allows",
        Standing.ROWS_USED: "the replayed table has no further row for it",
        Standing.NO_ROW: "the replayed table has no row for it",
    }
    end = ends.get(standing, "another measurement would narrow nothing")
    return f"{_lacking(class_envelope, known)}, and cannot be measured again: {end}"


def _lacking(class_envelope: ClassEnvelope, known: KnownCell) -> str:
    """What keeps a measured cell from being committed."""
    if known.failed:
        return _ended(known)
    lacking = lacks(known, class_envelope.view.workload.slo)
    if lacking:
        return f"its rows lack {', '.join(lacking)}"
    if known.missing_requests:
        return f"its records lack {known.missing_requests} requests for an upper bound of a p99"
    return "it straddles its SLO"


NAMES = {
    CAPACITY: "capacity",
    "ttft": "TTFT p99",
    "e2e": "e2e p99",
    "tpot": "TPOT p99",
    SUCCESS: "success",
    MEMORY: "memory",
}


def limit_name(quantity: str) -> str:
    """A quantity as a person reads it."""
    return NAMES[quantity]


def _ended(known: KnownCell) -> str:
    """How the last measurement of a cell that failed ended, and how often it was measured."""
    last, count = known.rows[-1], len(known.rows)
    times = f" {count} times" if count > 1 else ""
    return (
        f"it was measured{times}, and does not count: {last.refused}"
        if last.refused
        else f"it ended in {last.status}{times}"
    )

"""Which measurement would settle the verdict, and at what cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleetsieve.answers.diagnosis.cells import CellAccount, Knowledge, cell_accounts
from fleetsieve.bounds.standing import Standing
from fleetsieve.brief import brief
from fleetsieve.certificate import Certificate, Verdict, certify
from fleetsieve.certificate.sentence import hoped_for, listed
from fleetsieve.instance import CellKey
from fleetsieve.loop.cost import cost_gpu_s
from fleetsieve.loop.sieve import Experiment, Sieve


@dataclass(frozen=True)
class Next:
    """The measurement that the policy asks for, and the certificate if the cell were as good as its bounds allow, or useless."""

    policy: str
    experiment: Experiment
    at_best: Certificate
    at_worst: Certificate

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class Account:
    """The account of an instance: its cells, what comes next (None when nothing is left to ask), and what may be measured at all.

    `settling` are the cells that the best plan still possible rests on (or, without such a one, all that can still change the
    decision), `waiting` all that a measurement may still resolve; the costs are those of one measurement of each, in GPU-seconds.
    `at_best` and `at_worst` are the certificates if all of `settling` were as good as their bounds allow, or of no use (None
    without any). `failed` are the cells that failed, stay possible and are not tried again; `failed_at_best` and `without_failed`
    are the certificates if they ran as well as their bounds allow, or were excluded. `ended` explains why a run goes no further:
    a stop rule may end it where a next one is left.
    """

    certificate: Certificate
    cells: tuple[CellAccount, ...]
    next: Next | None
    settling: tuple[CellKey, ...]
    settling_gpu_s: float
    waiting: tuple[CellKey, ...]
    waiting_gpu_s: float
    ended: str
    at_best: Certificate | None
    at_worst: Certificate | None
    failed: tuple[CellKey, ...]
    failed_at_best: Certificate | None
    without_failed: Certificate | None

    def __repr__(self) -> str:
        return brief(self)

    @property
    def could_settle(self) -> bool:
        """Whether one measurement of each of `settling` ends the undecided state in one of the outcomes that were simulated."""
        ends = [c for c in (self.at_best, self.at_worst) if c is not None]
        return any(c.verdict is not Verdict.UNDECIDED for c in ends)


def account(sieve: Sieve, keys: Iterable[CellKey] | None = None) -> Account:
    """The account of a run's state; `keys` picks the cells to show (None: all)."""
    c = sieve.certificate
    waiting = sieve.candidates
    cells = cell_accounts(c, sieve.standings)
    settling = tuple(key for key in hoped_for(c)[0] if key in set(waiting)) if c.blocking else ()
    settling = settling or tuple(cell.key for cell in cells if cell.can_change and cell.key in set(c.settling))
    failed = tuple(cell.key for cell in cells if c.blocking and _given_up(c, cell) and cell.key not in set(waiting))
    unstopped = replace(sieve, stop=None)
    wanted = None if keys is None else set(keys)
    ends = (sieve.envelope.hoped(settling), sieve.envelope.without(settling)) if settling else ()
    best, worst = [certify(end, sieve.engine) for end in ends] or (None, None)
    return Account(
        c,
        tuple(cell for cell in cells if wanted is None or cell.key in wanted),
        None if unstopped.finished else _next(unstopped),
        settling,
        _cost_gpu_s(sieve, settling),
        waiting,
        _cost_gpu_s(sieve, waiting),
        _ended(sieve, failed) if sieve.finished else "",
        best,
        worst,
        failed,
        certify(sieve.envelope.hoped(failed), sieve.engine) if failed else None,
        certify(sieve.envelope.without(failed), sieve.engine) if failed else None,
    )


def _given_up(c: Certificate, cell: CellAccount) -> bool:
    """Whether a cell failed and stays possible all the same."""
    return cell.known is Knowledge.FAILED and not cell.closed and c.envelope[cell.key].possible


def _next(sieve: Sieve) -> Next:
    asked = sieve.ask()
    best, worst = (sieve.envelope.hoped({asked.key}), sieve.envelope.without({asked.key}))
    return Next(sieve.policy.name, asked, certify(best, sieve.engine), certify(worst, sieve.engine))


def _ended(sieve: Sieve, failed: tuple[CellKey, ...]) -> str:
    if not sieve.certificate.blocking:
        return f"the verdict is {sieve.certificate.verdict}"
    if sieve.stopped is not None:
        return sieve.stopped.sentence
    if Standing.FUTILE in sieve.standings.values():
        return f"{Standing.FUTILE}: a cell that straddles its SLO cannot be measured again"
    if failed:
        cell = (
            f"{listed([str(key) for key in failed], 3)} failed and {'are' if len(failed) > 1 else 'is'} not tried again"
        )
        return f"no cell is left to measure: {cell}"
    return "no cell is left that a measurement could resolve"


def _cost_gpu_s(sieve: Sieve, keys: Iterable[CellKey]) -> float:
    """GPU-seconds of one measurement of each, each on a server of its own unless one is up."""
    cells = sieve.instance.cell_by_key
    return math.fsum(cost_gpu_s(sieve.instance, cells[key], sieve.running) for key in keys)

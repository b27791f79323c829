"""Which measurement would settle the verdict, and at what cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fleetsieve.account.cells import CellAccount, cell_accounts
from fleetsieve.certificate import Certificate, certify
from fleetsieve.cost import cost_gpu_s
from fleetsieve.instance import CellKey
from fleetsieve.sieve import Experiment, Sieve


@dataclass(frozen=True)
class Next:
    """The measurement that the policy asks for, and the certificate if the cell were as good as its bounds allow, or useless."""

    policy: str
    experiment: Experiment
    at_best: Certificate
    at_worst: Certificate


@dataclass(frozen=True)
class Account:
    """The account of an instance: its cells, what comes next (None when nothing is left to ask), and what may be measured at all.

    `settling` are the cells that could settle the verdict, `waiting` all that a measurement may still resolve; the costs are those
    of one look at each, in GPU-seconds. `ended` says why a run goes no further: a stop rule may end it where a next one is left.
    """

    certificate: Certificate
    cells: tuple[CellAccount, ...]
    next: Next | None
    settling: tuple[CellKey, ...]
    settling_gpu_s: float
    waiting: tuple[CellKey, ...]
    waiting_gpu_s: float
    ended: str


def account(sieve: Sieve, keys: Iterable[CellKey] | None = None) -> Account:
    """The account of a run's state; `keys` picks the cells that are told of (None: all)."""
    c = sieve.certificate
    waiting = sieve.candidates if c.blocking else ()
    settling = tuple(key for key in c.settling if key in set(waiting))
    unstopped = replace(sieve, stop=None)
    return Account(
        c,
        cell_accounts(c, waiting, keys),
        None if unstopped.finished else _next(unstopped),
        settling,
        _cost_gpu_s(sieve, settling),
        waiting,
        _cost_gpu_s(sieve, waiting),
        _ended(sieve) if sieve.finished else "",
    )


def _next(sieve: Sieve) -> Next:
    asked = sieve.ask()
    best, worst = (sieve.envelope.hoped({asked.key}), sieve.envelope.without({asked.key}))
    return Next(sieve.policy.name, asked, certify(best, sieve.engine), certify(worst, sieve.engine))


def _ended(sieve: Sieve) -> str:
    if not sieve.certificate.blocking:
        return f"the verdict is {sieve.certificate.verdict}"
    if sieve.stopped is not None:
        return sieve.stopped.sentence
    if not sieve.candidates:
        return "no cell is left that a measurement could resolve"
    return "the verdict stays undecided whatever the cells that are left show: one that straddles its SLO cannot be looked at again"


def _cost_gpu_s(sieve: Sieve, keys: Iterable[CellKey]) -> float:
    """GPU-seconds of one look at each, each on a server of its own unless one is up."""
    cells = sieve.instance.cell_by_key
    return math.fsum(cost_gpu_s(sieve.instance, cells[key], sieve.running) for key in keys)

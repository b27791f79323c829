"""What a page shows: a folder, its history, its state and the account of its cells."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleetsieve.allocation import Engine
from fleetsieve.answers.diagnosis import Account, account
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, Gap, certify
from fleetsieve.engines.choosing import Automatic
from fleetsieve.engines.frontier import Frontier
from fleetsieve.engines.solving import Milp
from fleetsieve.files import Folder
from fleetsieve.loop.sieve import Sieve
from fleetsieve.runs.history import History, read_history
from fleetsieve.runs.state import state_of


@dataclass(frozen=True)
class Report:
    """What a page shows: the folder as it was named, what was read, the run's history, its state and the cells' account."""

    named: str
    read: Folder
    history: History | None
    sieve: Sieve
    account: Account
    engine: Engine

    @property
    def certificate(self) -> Certificate:
        """The certificate on what is known now."""
        return self.account.certificate

    @property
    def counting(self) -> bool:
        """Whether counting GPUs is enough to place replicas: then hundreds of decisions take seconds, else minutes."""
        return Frontier.accepts(Envelope.of(self.read.instance).optimistic)

    @property
    def start_gap(self) -> Gap:
        """The gap before anything was measured."""
        return certify(Envelope.of(self.read.instance), self.engine).gap


def report_of(read: Folder, named: str) -> Report:
    """All that a page shows of an instance or run folder; `named` is how the person called it."""
    history = read_history(read.path)
    sieve = state_of(read, history, Milp())
    return Report(named, read, history, sieve, account(replace(sieve)), Automatic())

"""The loop itself: ask, measure, tell, until the sieve is finished. What measures, stores and shows is the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from fleetsieve.brief import summary
from fleetsieve.certificate import change
from fleetsieve.errors import FleetSieveError
from fleetsieve.instance import CellKey, Measurement
from fleetsieve.loop.sieve import Experiment, Sieve


@dataclass(frozen=True)
class Step:
    """One step of a run: the question, the answer, and the state after it. `number` counts from 1."""

    number: int
    experiment: Experiment
    row: Measurement
    sieve: Sieve
    changed: str

    def __repr__(self) -> str:
        return summary(f"Step {self.number}: {self.experiment.key} {self.row.status}", self.changed.split("; "))

    @classmethod
    def after(cls, before: Sieve, number: int, experiment: Experiment, row: Measurement) -> Step:
        """The step that `row` makes from the state `before`."""
        sieve = before.tell(row)
        return cls(number, experiment, row, sieve, change(before.certificate, sieve.certificate, row.key))


class Workers(Protocol):
    """Who makes the measurements: one at a time, or several at once."""

    def next(self, sieve: Sieve) -> Experiment | None:
        """The measurement to start now; None while there is no room for another, or nothing to ask."""
        ...

    def start(self, experiment: Experiment) -> None:
        """Begin to make a measurement."""
        ...

    def ended(self) -> Iterator[tuple[Experiment, Measurement]]:
        """Wait for measurements that were started, and give those that ended; none when no measurement is under way."""
        ...


class OneByOne:
    """Makes each measurement in the caller's thread, by `measure(key, look)`, when it is waited for."""

    def __init__(self, measure: Callable[[CellKey, int], Measurement]) -> None:
        self._measure = measure
        self._started: Experiment | None = None

    def next(self, sieve: Sieve) -> Experiment | None:
        """What the sieve asks, unless a measurement was started already."""
        return None if self._started is not None or sieve.finished else sieve.ask()

    def start(self, experiment: Experiment) -> None:
        """Keep the question until its answer is waited for."""
        self._started = experiment

    def ended(self) -> Iterator[tuple[Experiment, Measurement]]:
        """The measurement that was started."""
        experiment, self._started = self._started, None
        if experiment is not None:
            yield experiment, self._measure(experiment.key, experiment.look)


def steps(
    sieve: Sieve,
    workers: Workers,
    *,
    first: int = 1,
    asked: Callable[[Experiment], None] = lambda _: None,
    store: Callable[[Measurement], Measurement] = lambda row: row,
) -> Iterator[Step]:
    """Ask, measure, store and tell until the sieve is finished and no measurement is under way; gives each step when it is made.

    `first` is the number of the first step. `asked` is called with each question before it is measured, `store` with each
    measured row before the sieve has it: it gives the row as it is stored.

    Raises:
        FleetSieveError: when a measurement repeats a row that the sieve has: it would be asked for without end.
    """
    number = first
    while True:
        while (experiment := workers.next(sieve)) is not None:
            asked(experiment)
            workers.start(experiment)
        before = number
        for answered, row in workers.ended():
            if sieve.tell(row) is sieve:
                raise FleetSieveError(f"the probe gave {row.key} seed {row.seed} again, which was measured before")
            step = Step.after(sieve, number, answered, store(row))
            sieve, number = step.sieve, number + 1
            yield step
        if number == before:
            return

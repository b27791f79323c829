"""The loop as ask and tell: an immutable state that states what to measure next and takes what was measured.

    sieve = Sieve.start(instance, policy=DecisionGap(), engine=Milp())
    while not sieve.finished:
        experiment = sieve.ask()
        sieve = sieve.tell(measure(experiment.key, experiment.look))
    sieve.certificate.verdict

Running, storing and deciding stay apart: this module decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from fleetsieve.allocation import Engine
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.bounds.standing import Standing, standings
from fleetsieve.brief import brief, counted, summary
from fleetsieve.certificate import Certificate, Verdict, certify
from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey, Instance, Measurement, ServerKey
from fleetsieve.loop.cost import cost_gpu_s, row_cost_gpu_s, server_after
from fleetsieve.loop.policies import Choice, Policy, Situation, chosen
from fleetsieve.loop.policies.protocol import Advance, silent
from fleetsieve.loop.predictions import Predictions
from fleetsieve.loop.stopping import Stop, StopRule


@dataclass(frozen=True)
class Experiment:
    """A question: measure this cell, for the `look`-th time from 0.

    `scores` are those of all candidates, in 1/GPU-second, where the policy has any.
    """

    key: CellKey
    look: int
    reason: str
    expected_cost_gpu_s: float
    scores: Mapping[CellKey, float]

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True)
class Sieve:
    """The state of a run: what was measured, in order, and how to continue.

    `looks` limits how often a cell can be measured (a replayed table has so many rows of it); a key that is absent from a given
    mapping cannot be measured. None: no limit. `running` is the server that the last measurement left up, `spent_gpu_s` the
    GPU-seconds of the measurements that were reported. `stop` may end the run before a verdict.
    `prior` is what a tool predicts: policies may order the search by it, and no certificate sees it. `advance` is called with how
    many candidates the policy has weighed, while it chooses.
    """

    instance: Instance
    policy: Policy
    engine: Engine
    seed: int = 0
    looks: Mapping[CellKey, int] | None = None
    measurements: tuple[Measurement, ...] = ()
    running: ServerKey | None = None
    spent_gpu_s: float = 0.0
    stop: StopRule | None = None
    prior: Predictions | None = None
    advance: Advance = field(default=silent, compare=False)

    def __repr__(self) -> str:
        lines = [f"{counted(len(self.measurements), 'measurement')}, {self.spent_gpu_s:,.0f} GPU-seconds"]
        lines += (
            repr(self.certificate).splitlines() if "certificate" in self.__dict__ else []
        )  # a solve is not for printing
        return summary(f"Sieve of {self.instance.name}, by {self.policy.name}", map(str.strip, lines))

    @classmethod
    def start(
        cls,
        instance: Instance,
        *,
        policy: Policy,
        engine: Engine,
        seed: int = 0,
        looks: Mapping[CellKey, int] | None = None,
        measurements: Iterable[Measurement] = (),
        stop: StopRule | None = None,
        prior: Predictions | None = None,
    ) -> Sieve:
        """A run that begins with `measurements` (none by default); what they cost was spent before and does not count.

        Raises:
            UsageError: when a row belongs to a cell that the instance does not have, or the seed is negative.
        """
        if seed < 0:
            raise UsageError(f"a seed of {seed} is below 0")
        allowed = MappingProxyType(dict(looks)) if looks is not None else None
        begun = cls(instance, policy, engine, seed, allowed, stop=stop, prior=prior).tell(*measurements)
        return replace(begun, running=None, spent_gpu_s=0.0)

    @cached_property
    def envelope(self) -> Envelope:
        """The bounds of every cell."""
        return Envelope.of(self.instance, self.measurements)

    @cached_property
    def certificate(self) -> Certificate:
        """The verdict on what is known now."""
        return certify(self.envelope, self.engine)

    @cached_property
    def candidates(self) -> tuple[CellKey, ...]:
        """The cells that may be asked for, in the fixed order of names."""
        return tuple(key for key, standing in self.standings.items() if standing.asks)

    @cached_property
    def standings(self) -> Mapping[CellKey, Standing]:
        """For every cell whether it may be asked for, and why (not), in the fixed order of names.

        Cells that move no decision now are set aside while others are left that may settle the verdict.
        """
        found = dict(self._measurable)
        waiting = frozenset(key for key, why in found.items() if why.asks)
        if self.certificate.verdict is not Verdict.UNDECIDED:
            return MappingProxyType(found | dict.fromkeys(waiting, Standing.DECIDED))
        first = frozenset(key for key in waiting if not self._moves_nothing(key, found[key]))
        if first and not self._futile(first):
            return MappingProxyType(found | dict.fromkeys(waiting - first, Standing.SET_ASIDE))
        futile = waiting if waiting and self._futile(waiting) else ()
        return MappingProxyType(found | dict.fromkeys(futile, Standing.FUTILE))

    @cached_property
    def _measurable(self) -> Mapping[CellKey, Standing]:
        """As the bounds state, but for what this run has no further row of."""
        found = standings(self.envelope)
        if self.looks is None:
            return found
        taken = Counter(row.key for row in self.measurements)
        for key, why in found.items():
            if why.asks and taken[key] >= self.looks.get(key, 0):
                found[key] = Standing.ROWS_USED if key in self.looks else Standing.NO_ROW
        return found

    def _moves_nothing(self, key: CellKey, why: Standing) -> bool:
        """Whether another measurement only narrows a cell that neither plan uses, of a class that is served."""
        if why not in (Standing.STRADDLES, Standing.WIDE):
            return False
        plans = (self.certificate.conservative, self.certificate.optimistic)
        used = any(plan is not None and key in plan.replica_counts for plan in plans)
        return not used and not (why.may_commit and key.class_name in self._unserved)

    @cached_property
    def _unserved(self) -> frozenset[str]:
        """Classes that may be servable, and of which nothing is served yet."""
        served = {
            class_plan.class_name for class_plan in self.certificate.conservative.classes if class_plan.served_rps > 0.0
        }
        return frozenset(
            n for n, class_envelope in self.envelope.classes.items() if class_envelope.servable and n not in served
        )

    @property
    def finished(self) -> bool:
        """Whether there is nothing more to ask: a verdict was reached, no candidate could settle it, or the stop rule ended it."""
        return not self.candidates or self.stopped is not None

    def _futile(self, asked: frozenset[CellKey]) -> bool:
        """Whether the verdict seems to stay undecided whatever these cells show, and none can serve a class that is not served yet.

        That happens when a cell straddles its SLO still and cannot be looked at again: what it might be worth keeps the gap open.
        It is tried on their best and their worst, of all of them, of each class alone, and of all classes but one: in between the
        verdict may be another, since it is not monotone in what is known.
        """
        classes = self.envelope.classes
        stuck = any(
            b.possible and not b.committable and key not in asked and b.measured
            for class_envelope in classes.values()
            for key, b in class_envelope.bounds.items()
        )
        if not stuck or any(key.class_name in self._unserved and self._measurable[key].may_commit for key in asked):
            return False
        of_class = [frozenset(key for key in asked if key.class_name == name) for name in classes]
        good = dict.fromkeys((asked, frozenset(), *of_class, *(asked - class_envelope for class_envelope in of_class)))
        ends = (self.envelope.hoped(served).without(asked - served) for served in good)
        return all(certify(end, self.engine).verdict is Verdict.UNDECIDED for end in ends)

    @cached_property
    def stopped(self) -> Stop | None:
        """Why the stop rule ended the run; None where it did not."""
        if self.stop is None or not self.candidates:
            return None
        return self.stop.stopped(self._situation, self._choice)

    @cached_property
    def _situation(self) -> Situation:
        costs = {
            key: cost_gpu_s(self.instance, self.instance.cell_by_key[key], self.running) for key in self.candidates
        }
        return Situation(
            self.envelope,
            self.certificate,
            self.candidates,
            costs,
            len(self.measurements),
            self.seed,
            self.prior,
            self.advance,
        )

    @cached_property
    def _choice(self) -> Choice:
        """What the policy would measure next, whether or not the run continues."""
        return chosen(self.policy, self._situation)

    def ask(self) -> Experiment:
        """The next measurement to make.

        Raises:
            UsageError: when the run is finished; the message states with which verdict.
        """
        if self.finished:
            stopped = f"; {self.stopped.sentence}" if self.stopped is not None else ""
            raise UsageError(
                f"nothing to ask: the verdict is {self.certificate.verdict} and {len(self.candidates)} candidates are left{stopped}"
            )
        choice = self._choice
        look = sum(row.key == choice.key for row in self.measurements)
        return Experiment(choice.key, look, choice.reason, self._situation.cost_gpu_s[choice.key], choice.scores)

    def ask_beside(self, busy: Collection[CellKey], fits: Callable[[CellKey], bool]) -> Experiment | None:
        """What to measure while the cells `busy` are being measured, of what `fits` beside them; None where nothing is left.

        Raises:
            UsageError: as `ask`.
        """
        if not busy:
            return self.ask()
        left = tuple(key for key in self.candidates if key not in busy and fits(key))
        if self.finished or not left:
            return None
        seen = replace(
            self._situation, candidates=left, cost_gpu_s={key: self._situation.cost_gpu_s[key] for key in left}
        )
        choice = chosen(self.policy, seen)
        look = sum(row.key == choice.key for row in self.measurements)
        return Experiment(choice.key, look, choice.reason, seen.cost_gpu_s[choice.key], choice.scores)

    def tell(self, *rows: Measurement) -> Sieve:
        """The state after these rows; a row (cell and seed) that was reported before changes nothing.

        Raises:
            UsageError: when a row belongs to a cell that the instance does not have.
        """
        seen = {(row.key, row.seed) for row in self.measurements}
        fresh: list[Measurement] = []
        spent, running = self.spent_gpu_s, self.running
        for row in rows:
            if row.key not in self.instance.cell_by_key:
                raise UsageError(f"a measurement of {row.key}, which is not a cell of {self.instance.name}")
            if (row.key, row.seed) not in seen:
                seen.add((row.key, row.seed))
                fresh.append(row)
                spent += row_cost_gpu_s(self.instance, row, running)
                running = server_after(self.instance, row)
        if not fresh:
            return self
        return replace(self, measurements=(*self.measurements, *fresh), running=running, spent_gpu_s=spent)

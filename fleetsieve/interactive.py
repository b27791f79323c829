"""What a notebook or a script asks, in one call each: decide on what was measured, replay a table, check a certificate.

>>> found = solve("paper-h100-31b")
>>> str(found.verdict), round(found.conservative.goodput_rps, 2), found.conservative.gpus_used
('certified-feasible', 28.0, 16)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fleetsieve.allocation import Engine
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, certify, gap_document
from fleetsieve.engines.choosing import engine_of
from fleetsieve.engines.solving import Milp
from fleetsieve.files import Folder, read_instance
from fleetsieve.loop.policies import Policy, policy_named
from fleetsieve.loop.sieve import Sieve
from fleetsieve.loop.steps import OneByOne, Step, steps
from fleetsieve.probes import Replay
from fleetsieve.runs.history import History, LoggedStep
from fleetsieve.runs.rechecking import check_folder

Source = Folder | str | Path
"""An instance folder that was read, its path, or the name of a bundled instance."""


def solve(
    source: Source, *, eta: float | None = None, epsilon: float | None = None, engine: Engine | None = None
) -> Certificate:
    """Decide on the measured rows of an instance, as `fleetsieve solve` does: both plans, the gap and the verdict.

    Takes the instance; the fairness slack `eta` and the largest gap `epsilon` that certifies (None: as the instance states); and
    what solves (None: the MILP under HiGHS).

    Raises:
        InputError, UsageError: when the instance cannot be read.
        SolverMissing, SolveFailed: as `certify`.
    """
    read = _read(source)
    envelope = Envelope.of(read.instance, read.measurements)
    return certify(envelope, engine if engine is not None else Milp(), eta=eta, epsilon=epsilon)


def replay(
    source: Source, *, policy: Policy | str = "decision-gap", seed: int = 0, engine: Engine | None = None
) -> Iterator[Step]:
    """Run the adaptive loop over the measured rows of an instance, as `fleetsieve run --replay` does, and store nothing.

    Takes the instance; the policy, or its name on the command line; the seed of a policy that draws; and what solves (None: the
    MILP under HiGHS). Gives each step when it is made.

    >>> steps = list(replay("sim-chat-code-16gpu", policy="grid"))
    >>> steps[0].number, str(steps[0].experiment.key), steps[0].sieve.spent_gpu_s, str(steps[-1].sieve.certificate.verdict)
    (1, 'chat TP2 r1', 600.0, 'certified-feasible')

    Raises:
        InputError, UsageError: when the instance cannot be read, or no policy has that name.
        SolverMissing, SolveFailed: as `certify`.
    """
    read = _read(source)
    probe = Replay(read.measurements)
    sieve = Sieve.start(
        read.instance,
        policy=policy_named(policy) if isinstance(policy, str) else policy,
        engine=engine if engine is not None else Milp(),
        seed=seed,
        looks=probe.looks,
    )
    yield from steps(sieve, OneByOne(probe.measure))


def history_of(steps: Iterable[Step]) -> History:
    """The steps of a run as its folder would tell them: what `figures.gap` draws."""
    return History({}, tuple(_logged(step) for step in steps), None)


def _logged(step: Step) -> LoggedStep:
    c = step.sieve.certificate
    return LoggedStep(
        number=step.number,
        key=step.experiment.key,
        reason=step.experiment.reason,
        expected_cost_gpu_s=step.experiment.expected_cost_gpu_s,
        status=str(step.row.status),
        changed=step.changed,
        spent_gpu_s=step.sieve.spent_gpu_s,
        verdict=str(c.verdict),
        blocking=c.blocking,
        gap=gap_document(c.gap),
    )


def recheck(document: Mapping[str, Any], source: Source) -> list[str]:
    """Every way in which a certificate does not follow from the files of an instance, as `fleetsieve certify` finds them.

    Takes the certificate as a document (`certificate_document`, or the JSON of a stored one) and the instance. Where counting GPUs
    is enough to place replicas it is proven again by exact enumeration, without the solver that wrote it. Empty when it holds; a
    certificate that a newer rule set supersedes does not, and the reasons are given.

    >>> from fleetsieve.certificate import certificate_document
    >>> from fleetsieve.runs.layout import digests
    >>> read = read_instance("paper-h100-31b")
    >>> document = certificate_document(solve(read), digests(read.path))
    >>> recheck(document, read)
    []
    >>> recheck({**document, "verdict": "undecided"}, read)[0]
    'the verdict is certified-feasible, the certificate says undecided'

    Raises:
        InputError, UsageError: when the instance cannot be read.
        SolverMissing, SolveFailed: as `certify`.
    """
    read = _read(source)
    envelope = Envelope.of(read.instance, read.measurements)
    found = check_folder(document, read, engine_of(envelope))
    return [*found.errors, *found.superseded]


def _read(source: Source) -> Folder:
    return source if isinstance(source, Folder) else read_instance(source)

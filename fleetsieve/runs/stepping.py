"""A run from its first question to its certificate: the steps of the loop, each stored."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict

from fleetsieve import __version__
from fleetsieve.certificate import certificate_document, gap_document, key_document, plan_document
from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey, Measurement, Status
from fleetsieve.loop.cost import cost_gpu_s
from fleetsieve.loop.sieve import Experiment, Sieve
from fleetsieve.loop.steps import OneByOne, Step, Workers, steps
from fleetsieve.probes import Probe, SideBySide
from fleetsieve.runs.journal import Journal
from fleetsieve.runs.layout import MEASURED, Line, digests
from fleetsieve.runs.side_by_side import Together

BY_HAND, INTERRUPTED = "added by hand", "measured before the run was interrupted"
"""Why a row is in the log that the loop did not ask for."""


def resume(
    sieve: Sieve,
    journal: Journal,
    measured: Sequence[Measurement],
    may_be_asked: Callable[[Measurement], bool] = lambda _: True,
) -> tuple[Sieve, tuple[Step, ...]]:
    """The state after the rows that a journal already has, and the step whose line a kill kept from the log (if any).

    `sieve` is the state before any measurement. The missing line is written: the loop is deterministic, so it is the one that
    would have stood there. Rows at the end that the loop did not ask for, or that its probe cannot have given (`may_be_asked`),
    were added by hand, and are taken as such.

    Raises:
        UsageError: when the log covers other rows than those measured, or a file or row was edited since.
    """
    refuse_changed(journal, measured)
    done, made = len(journal.lines) - 1, []
    for row in measured[:done]:
        sieve = sieve.tell(row)
    for row in measured[done:]:
        asked = None if sieve.finished or not may_be_asked(row) else sieve.ask()
        if asked is None or asked.key != row.key:
            killed = asked is not None and len(measured) == done + 1 and _may_differ(journal)
            asked = _unasked(sieve, row, INTERRUPTED if killed else BY_HAND)
        made.append(Step.after(sieve, len(journal.lines), asked, row))
        journal.add_step(step_line(made[-1], journal.row_digest(made[-1].number)))
        sieve = made[-1].sieve
    return sieve, tuple(made)


def refuse_changed(journal: Journal, measured: Sequence[Measurement]) -> None:
    """Refuse a run whose log covers other rows than those `measured`; nothing is changed.

    Raises:
        UsageError: when rows are missing, in another order or added between others, or a file or row was edited since.
    """
    done = len(journal.lines) - 1
    if len(measured) < done:
        raise UsageError(
            f"{journal.folder}: the log has {done} steps, but only {len(measured)} rows are measured",
            f"restore {journal.folder / MEASURED}, or start a new run",
        )
    _refuse_between(journal, measured)
    for number, (row, line) in enumerate(zip(measured, journal.lines[1:], strict=False), start=1):
        if line.get("asked") != key_document(row.key):
            raise UsageError(
                f"{journal.folder}: step {number} of the log is not of {row.key}, which measured row {number} is",
                f"restore the order of {journal.folder / MEASURED}; add rows of your own at its end",
            )
    journal.refuse_edited(measured)


def _may_differ(journal: Journal) -> bool:
    """Whether a killed run may have stored a row that this loop would not have asked for now.

    Of measurements side by side the later may end first, and another version may have chosen otherwise.
    """
    return journal.start.max_servers != 1 or journal.start.version != __version__


def _unasked(sieve: Sieve, row: Measurement, reason: str) -> Experiment:
    """The question that a row answers which the loop would not have asked."""
    look = sum(one.key == row.key for one in sieve.measurements)
    cost = cost_gpu_s(sieve.instance, sieve.instance.cell_by_key[row.key], sieve.running)
    return Experiment(row.key, look, reason, cost, {})


def _refuse_between(journal: Journal, measured: Sequence[Measurement]) -> None:
    """Refuse rows that were added between those of the log: their place shows nobody what was known when."""
    logged = [line.get("row_sha256") for line in journal.lines[1:]]
    strange, rest = [], iter(logged)
    waiting = next(rest, None)
    for number, row in enumerate(measured, start=1):
        if waiting is not None and journal.row_digest(number) == waiting:
            waiting = next(rest, None)
        elif waiting is not None:
            strange.append(row)
    if waiting is None and strange:
        row = strange[0]
        raise UsageError(
            f"{journal.folder / MEASURED}:{row.line}: the row of {row.key}, seed {row.seed}, was added between rows of the run",
            "move it to the end of the file, where rows of your own belong, then continue with --resume",
        )


def run(
    sieve: Sieve, probe: Probe, journal: Journal, asked: Callable[[Experiment], None] = lambda _: None
) -> Generator[Step, None, None]:
    """Ask, measure, store and tell until the sieve is finished; yields each step when it is on disk.

    `asked` is called with each question before it is measured.

    Raises:
        FleetSieveError: when the probe repeats a row: the loop would ask for it for ever.
    """
    yield from _stored(sieve, OneByOne(probe.measure), journal, asked)


def run_side_by_side(
    sieve: Sieve, probe: SideBySide, journal: Journal, asked: Callable[[Experiment], None] = lambda _: None
) -> Generator[Step, None, None]:
    """As `run`, with as many measurements at once as the probe has room for; rows are stored in the order in which they end.

    Measurements that are under way when the verdict is reached are finished and stored.
    """
    with Together(probe) as workers:
        yield from _stored(sieve, workers, journal, asked)


def _stored(
    sieve: Sieve, workers: Workers, journal: Journal, asked: Callable[[Experiment], None]
) -> Generator[Step, None, None]:
    """The steps of the loop, each on disk before it is yielded: first its row, then its line."""
    for step in steps(sieve, workers, first=len(journal.lines), asked=asked, store=journal.add_row):
        journal.add_step(step_line(step, journal.row_digest(step.number)))
        yield step


def final_document(sieve: Sieve, journal: Journal, explanation: str = "") -> Line:
    """The certificate of a finished run, with the digests of its files; `explanation` goes after the verdict's sentence."""
    text = f"{explanation} {sieve.stopped.sentence}".strip() if sieve.stopped is not None else explanation
    return certificate_document(sieve.certificate, digests(journal.folder), text, stopped_document(sieve))


def stopped_document(sieve: Sieve) -> dict[str, float] | None:
    """The figures by which a run was stopped before a verdict; None where it was not."""
    return asdict(sieve.stopped) if sieve.stopped is not None else None


def step_line(step: Step, row_sha256: str) -> Line:
    """The log's line of a step: the question, why it, the scores, both allocations, the gap and the state.

    `row_sha256` is the digest of its row.
    """
    c = step.sieve.certificate
    return {
        "step": step.number,
        "asked": key_document(step.experiment.key),
        "reason": step.experiment.reason,
        "expected_cost_gpu_s": step.experiment.expected_cost_gpu_s,
        "scores": [{**key_document(key), "score_per_gpu_s": score} for key, score in step.experiment.scores.items()],
        "status": str(step.row.status),
        "seed": step.row.seed,
        "row_sha256": row_sha256,
        "changed": step.changed,
        "spent_gpu_s": step.sieve.spent_gpu_s,
        "verdict": str(c.verdict),
        "blocking": c.blocking,
        "gap": gap_document(c.gap),
        "conservative": plan_document(c.conservative, c.envelope),
        "optimistic": plan_document(c.optimistic, c.envelope) if c.optimistic is not None else None,
    }


def failed_cells(sieve: Sieve) -> set[CellKey]:
    """The cells of a run with a failure. A rejected measurement is none once a repeat of its cell succeeded: it is no evidence."""
    measured = {row.key for row in sieve.measurements if row.status is Status.OK}
    failures = (row for row in sieve.measurements if row.status is not Status.OK)
    return {row.key for row in failures if row.status is not Status.REJECTED or row.key not in measured}

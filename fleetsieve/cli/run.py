"""`fleetsieve run DIR`."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.cli.options import VERDICT_CODES
from fleetsieve.errors import UsageError

if TYPE_CHECKING:
    from fleetsieve.instance import Measurement

FAILED_CELLS = 4
HORIZON = "stop_when_unprofitable_h"
"""Where the first line of a log keeps the hours of --stop-when-unprofitable."""


@dataclass(frozen=True)
class _Request:
    """What a run was asked to be; a resumed run takes it from the first line of its log."""

    policy: str
    seed: int
    horizon_h: float | None = None

    @property
    def options(self) -> str:
        """The request as it is written on the command line."""
        stop = f" --stop-when-unprofitable {self.horizon_h:g}" if self.horizon_h is not None else ""
        return f"--policy {self.policy} --seed {self.seed}{stop}"


@click.command("run")
@options.folder
@click.option("--replay", is_flag=True, help="Reveal the rows of DIR/measurements.csv one by one instead of measuring.")
@click.option("--policy", metavar="NAME",
              help="Which cell next: decision-gap (default), paper, random, grid, joint-uncertainty, shared-feature, targeted, voi "
                   "or constrained-bo.")  # fmt: skip
@click.option("--seed", type=int, metavar="N", help="Seed of the policy (default 0).")
@click.option("--stop-when-unprofitable", "horizon_h", type=float, metavar="HOURS",
              help="Stop undecided when closing the gap costs more requests than it can bring in HOURS of deployment.")  # fmt: skip
@click.option("--prior", type=click.Path(path_type=Path), metavar="FILE",
              help="Predictions of any tool, a CSV like measurements.csv: they order the search and certify nothing.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="RUN",
              help="The run folder to make (default: runs/NAME-POLICY-SEED).")  # fmt: skip
@click.option("--resume", "resumed", is_flag=True, help="Go on with the run in --out, or in DIR when DIR is a run.")
@options.as_json
@options.exit_code
def command(
    folder: str,
    replay: bool,
    policy: str | None,
    seed: int | None,
    horizon_h: float | None,
    prior: Path | None,
    out: Path | None,
    resumed: bool,
    as_json: bool,
    by_verdict: bool,
) -> int:
    """Measure what decides, one cell at a time, until the certificate fires.

    Everything is stored in the run folder as it happens: a run that is killed goes on with --resume and ends with the same bytes as
    one that was never killed.
    """
    from fleetsieve import journal as journals
    from fleetsieve.files import resolve
    from fleetsieve.policies import policy_named
    from fleetsieve.presentation.terminal import messages, say

    source = resolve(folder)
    if resumed and out is None and (source / journals.STEPS).is_file():
        out = source
    wanted = _Request(policy_named(policy or "decision-gap").name, 0 if seed is None else seed, horizon_h)
    if wanted.seed < 0:
        raise UsageError(f"--seed is {wanted.seed}, not a whole number >= 0")
    if horizon_h is not None and not (math.isfinite(horizon_h) and horizon_h > 0.0):
        raise UsageError(f"--stop-when-unprofitable is {horizon_h:g}, not a finite number of hours > 0")
    out = out if out is not None else Path("runs") / f"{source.name}-{wanted.policy}-{wanted.seed}"
    if not (resumed and (out / journals.STEPS).is_file()):
        if resumed and not replay:
            raise UsageError(
                f"there is no run to resume at {out}", f"start one: fleetsieve run {folder} --replay --out {out}"
            )
        _create(source, out, wanted, prior, replay=replay)
        if resumed:
            say(messages(), f"no run at {out}: starting one")
    with journals.Journal(out) as journal:
        stated = _stated(journal.start)
        asked = ((policy, stated.policy), (seed, stated.seed), (horizon_h, stated.horizon_h))
        if any(given is not None and given != began for given, began in asked):
            raise UsageError(f"{out} was started with {stated.options}", "resume it with these")
        if prior is not None and _digest(prior) != journal.prior_sha256:
            began = "no prior" if journal.prior_sha256 is None else f"another prior, which is its {journals.PRIOR}"
            raise UsageError(f"{out} was started with {began}", "resume it without --prior: the run has what it needs")
        return _run(journal, stated, as_json=as_json, by_verdict=by_verdict)


def _stated(start: Mapping[str, Any]) -> _Request:
    """What the first line of a log says."""
    policy, began, horizon_h = start.get("policy"), start.get("seed"), start.get(HORIZON)
    if not isinstance(policy, str) or not isinstance(began, int):
        raise UsageError(f"the first line of the log is damaged: policy {policy!r}, seed {began!r}")
    if horizon_h is not None and not isinstance(horizon_h, int | float):
        raise UsageError(f"the first line of the log is damaged: {HORIZON} {horizon_h!r}")
    return _Request(policy, began, horizon_h)


def _digest(path: Path) -> str | None:
    """SHA-256 of a file; None where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _create(source: Path, out: Path, wanted: _Request, prior: Path | None, *, replay: bool) -> None:
    """Make the run folder, after every check that could refuse it."""
    from fleetsieve import __version__, journal
    from fleetsieve.files import read_instance, read_measurements, read_predictions
    from fleetsieve.presentation.terminal import tell_suspicions

    if not replay:
        raise UsageError(
            "run needs something to measure with: --replay reveals the rows of DIR/measurements.csv",
            "fleetsieve run DIR --replay --out RUN",
        )
    read = read_instance(source)
    tell_suspicions(read.suspicions)
    table = source / journal.HIDDEN
    table = table if os.path.lexists(table) else source / journal.MEASURED
    if not table.exists():
        raise UsageError(f"{source} has no {journal.MEASURED} to replay")
    if table.name == journal.HIDDEN:
        read_measurements(table, read.instance)
    if prior is not None:
        tell_suspicions(read_predictions(prior, read.instance).suspicions)
    from fleetsieve.solving import ready

    ready()
    start: dict[str, Any] = {"step": 0, "fleetsieve": __version__, "instance": read.instance.name, "probe": "replay",
             "policy": wanted.policy, "seed": wanted.seed}  # fmt: skip
    if wanted.horizon_h is not None:
        start[HORIZON] = wanted.horizon_h
    journal.create(source, out, start, hidden=table, prior=prior)


def _measured_before(rows: Sequence[Measurement]) -> str:
    """What a resumed run has: cells, and looks where a cell has several."""
    cells = len({row.key for row in rows})
    looks = f", in {len(rows)} looks" if len(rows) > cells else ""
    return f"resumed: {cells} {'cell was' if cells == 1 else 'cells were'} measured before{looks}"


def _run(journal: Any, stated: _Request, *, as_json: bool, by_verdict: bool) -> int:
    from fleetsieve import __version__
    from fleetsieve.certificate import gap_document, plan_document
    from fleetsieve.cost import grid_cost_gpu_s
    from fleetsieve.explanation import why_infeasible
    from fleetsieve.files import read_instance, read_measurements, read_predictions
    from fleetsieve.journal import HIDDEN, PRIOR
    from fleetsieve.policies import policy_named
    from fleetsieve.presentation.plans import show_certificate
    from fleetsieve.presentation.steps import cost_line, show_start, show_step
    from fleetsieve.presentation.terminal import messages, results, say
    from fleetsieve.probes import Replay
    from fleetsieve.running import failed_looks, final_document, resume, run, stopped_document
    from fleetsieve.sieve import Sieve
    from fleetsieve.solving import Milp
    from fleetsieve.stopping import UnprofitableWithin

    if journal.start.get("fleetsieve") != __version__:
        version = journal.start.get("fleetsieve")
        say(
            messages(),
            f"warning: the run was started by version {version}, this is {__version__}: its choices may differ",
            "yellow",
        )
    read = read_instance(journal.folder)
    probe = Replay(read_measurements(journal.folder / HIDDEN, read.instance))
    missing = probe.missing(read.instance)
    if missing:
        say(
            messages(),
            f"warning: cells without a row in the table are left out: {len(missing)} of them, {missing[0]} first",
            "yellow",
        )
    prior = read_predictions(journal.folder / PRIOR, read.instance).predictions if journal.prior_sha256 else None
    sieve = Sieve.start(
        read.instance,
        policy=policy_named(stated.policy),
        engine=Milp(),
        seed=stated.seed,
        looks=probe.looks,
        stop=UnprofitableWithin(stated.horizon_h) if stated.horizon_h is not None else None,
        prior=prior,
    )
    cells = [cell for cell in read.instance.cells if not cell.excluded and cell.key in probe.looks]
    grid = grid_cost_gpu_s(read.instance, cells)
    show_start(messages(), read.instance.name, stated.policy, len(cells), grid)
    sieve, again = resume(sieve, journal, read.measurements)
    if read.measurements:
        say(messages(), _measured_before(read.measurements))
    for step in again:
        show_step(messages(), step, grid)
    try:
        for step in run(sieve, probe, journal):
            show_step(messages(), step, grid)
            sieve = step.sieve
    except KeyboardInterrupt:
        say(
            messages(),
            f"everything measured is in {journal.folder}; go on with: fleetsieve run {journal.folder} --resume",
        )
        raise
    certificate = sieve.certificate
    why = why_infeasible(certificate)
    journal.write_certificate(final_document(sieve, journal, why))
    steps = len(sieve.measurements)
    if as_json:
        emit(
            {
                "verdict": str(certificate.verdict),
                "steps": steps,
                "cost_gpu_s": sieve.spent_gpu_s,
                "full_grid_gpu_s": grid,
                "gap": gap_document(certificate.gap),
                "plan": plan_document(certificate.conservative, certificate.envelope),
                "stopped": stopped_document(sieve),
                "run": str(journal.folder),
            }
        )
    else:
        spent = cost_line(sieve.measurements, len(cells), sieve.spent_gpu_s, grid)
        show_certificate(results(), certificate, bounds="both", explanation=why, spent=spent)
        if sieve.stopped is not None:
            say(results(), sieve.stopped.sentence)
        elif certificate.blocking:
            say(results(), "the table has no more rows of cells that could settle it: measure them, or ask for less")
        say(results(), f"run: {journal.folder}")
    if by_verdict:
        return VERDICT_CODES[str(certificate.verdict)]
    return FAILED_CELLS if failed_looks(sieve) else 0

"""The loop of a run, from the state of its folder to its certificate: measures, shows, stores."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fleetsieve import __version__
from fleetsieve.answers.shortage import why_infeasible
from fleetsieve.certificate import gap_document, plan_document, under
from fleetsieve.cli.main import emit, failure_of
from fleetsieve.cli.options import VERDICT_CODES
from fleetsieve.cli.probing import Probing, opened
from fleetsieve.engines.solving import Milp
from fleetsieve.errors import InputError
from fleetsieve.files import Folder, read_instance, read_predictions, replace_file
from fleetsieve.instance import Measurement
from fleetsieve.live.serving.register import GpuSeconds, measured_starts_s
from fleetsieve.loop.cost import grid_cost_gpu_s
from fleetsieve.loop.sieve import Sieve
from fleetsieve.presentation.endings import ending
from fleetsieve.presentation.live import LiveView
from fleetsieve.presentation.plans import show_certificate
from fleetsieve.presentation.progress import Advancing
from fleetsieve.presentation.steps import cost_line, show_start, show_step
from fleetsieve.presentation.terminal import messages, results, say
from fleetsieve.probes import Probe, Replay
from fleetsieve.rule_sets import CURRENT, rule_set
from fleetsieve.runs.journal import Journal
from fleetsieve.runs.layout import MEASURED, PRIOR, SERVE
from fleetsieve.runs.state import state_at_start
from fleetsieve.runs.stepping import (
    BY_HAND,
    failed_cells,
    final_document,
    refuse_changed,
    resume,
    run,
    run_side_by_side,
    stopped_document,
)

FAILED_CELLS = 4


def go_on(journal: Journal, probing: Probing, *, as_json: bool, by_verdict: bool) -> int:
    """Go on with the run of `journal` until it is finished; gives the exit code."""

    start = journal.start
    if (version := start.version) != __version__:
        say(
            messages(),
            f"warning: the run was started by version {version}, this is {__version__}, whose choices may differ",
            "yellow",
        )
    if cut := journal.mend():
        note = "an incomplete last row of measurements.csv, as after a kill, was removed"
        say(messages(), f"note: {note}; if you added it by hand, add it again with a line end: {cut}", "yellow")
    read = _under_its_rules(_read(journal), journal)
    _keep_config(journal, probing, read)
    prior = read_predictions(journal.folder / PRIOR, read.instance).predictions if journal.prior_sha256 else None
    view = _view(probing)
    try:
        paid = partial(_paid, journal, read.measurements)
        with (
            _hinting(_way_on(journal, probing)),
            terminated(probing.live),
            opened(probing, read, journal.folder, start.seed, view, paid, way_on=_way_on(journal, probing)) as probe,
        ):
            begun = state_at_start(start, read.instance, Milp(), looks=probe.looks, prior=prior)
            sieve, grid_gpu_s, cells = _looped(journal, read, probe, begun, probing, view)
            why = _certified(journal, sieve)
    except KeyboardInterrupt:
        say(
            messages(),
            f"everything measured is in {journal.folder}; continue with: fleetsieve run {journal.folder} --resume",
        )
        raise
    with _hinting(_way_on(journal, probing)):
        return _print_end(
            journal, sieve, grid_gpu_s, cells, why, as_json=as_json, by_verdict=by_verdict, live=probing.live
        )


@contextmanager
def _hinting(way_on: str) -> Iterator[None]:
    """An error of the system, as of a full disk, ends a run with the command that continues."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise failure_of(error, f"everything measured is stored; continue with: {way_on}") from error


def _paid(journal: Journal, rows: Sequence[Measurement]) -> GpuSeconds:
    """What `rows` cost, those that the run measured and those that were added by hand; its log shows which."""

    cost_gpu_s = {True: 0.0, False: 0.0}
    for row, line in zip(rows, journal.lines[1:], strict=False):
        cost_gpu_s[line.get("reason") == BY_HAND] += row.cost_gpu_s or 0.0
    return GpuSeconds(cost_gpu_s[False], cost_gpu_s[True])


def _read(journal: Journal) -> Folder:
    """The folder of the run.

    Raises:
        InputError: when its files have errors; where rows have some, the hint states what can be done about those.
    """

    try:
        return read_instance(journal.folder)
    except InputError as error:
        if error.hint or any(Path(one.file).name != MEASURED for one in error.faults):
            raise
        hint = (
            f"correct or remove rows that were added to {journal.folder / MEASURED}, then continue with --resume; "
            "cells that cells.csv lacks need a new run"
        )
        raise InputError(error.faults, hint) from error


def _way_on(journal: Journal, probing: Probing) -> str:
    """The command that continues with a run once what ended it is fixed."""

    command = f"fleetsieve run {shlex.quote(str(journal.folder))} --resume"
    if probing.config is None or probing.config == journal.folder / SERVE:
        return command
    return f"{command} --config {shlex.quote(str(probing.config))}"


def _under_its_rules(read: Folder, journal: Journal) -> Folder:
    """The run's folder under the rule set that it began with (see `rule_sets`).

    Raises:
        UsageError: when this version does not know that set.
    """

    number = journal.start.rule_set
    rule_set(number)
    if number != CURRENT:
        note = f"note: this run keeps rule set {number}; `fleetsieve certify` checks its certificate under set {CURRENT} too"
        say(messages(), note)
    return replace(read, instance=under(read.instance, number))


def _keep_config(journal: Journal, probing: Probing, read: Folder) -> None:
    """A serve.toml that was fixed on the way takes the place of the one that the run folder has."""

    kept, config = journal.folder / SERVE, probing.config
    if config is not None and config.resolve() != kept.resolve() and config.is_file():
        refuse_changed(journal, read.measurements)  # what is refused keeps its files
        replace_file(kept, config.read_text(encoding="utf-8"))


@contextmanager
def terminated(live: bool) -> Iterator[None]:
    """In a `live` run SIGTERM and SIGHUP end it as Ctrl-C does, unless they are ignored: servers must not outlive it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    wanted = (signal.SIGTERM, signal.SIGHUP) if live else ()
    signals = [one for one in wanted if signal.getsignal(one) is not signal.SIG_IGN]  # nohup stays nohup
    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _view(probing: Probing) -> Any:
    if not probing.live:
        return None

    return LiveView(messages())


def _looped(
    journal: Journal, read: Folder, probe: Probe, sieve: Sieve, probing: Probing, view: Any
) -> tuple[Sieve, float, int]:
    """The finished state, the GPU-seconds of the whole grid, and how many cells that has.

    Where [measure] states no start of a server, the grid of a live run has them as the run measured them, from the first one on.
    """

    def grid() -> float:
        if not probing.live:
            return grid_cost_gpu_s(read.instance, cells)

        return grid_cost_gpu_s(read.instance, cells, measured_starts_s(journal.folder))

    console = messages()
    missing = probe.missing(read.instance) if isinstance(probe, Replay) else ()
    if missing:
        warning = (
            f"warning: {len(missing)} cells without a row in the table are left out, the first of them {missing[0]}"
        )
        say(console, warning, "yellow")
    looks = probe.looks or {}
    cells = [cell for cell in read.instance.cells if not cell.excluded and cell.key in looks]
    grid_gpu_s = grid()
    show_start(console, read.instance.name, sieve.policy.name, len(cells), grid_gpu_s)
    may_be_asked = probe.hides if isinstance(probe, Replay) else lambda _: True
    sieve, again = resume(sieve, journal, read.measurements, may_be_asked)
    if read.measurements:
        say(console, _measured_before(read.measurements))
    for step in again:
        show_step(console, step, grid_gpu_s)
    if not probing.live:
        for step in run(replace(sieve, advance=Advancing("choosing the next cell, cells weighed")), probe, journal):
            show_step(console, step, grid_gpu_s)
            sieve = step.sieve
        return sieve, grid_gpu_s, len(cells)
    sieve = replace(sieve, running=None)  # whatever ran before, no server is up now
    loop = run_side_by_side if probing.max_servers > 1 else run
    with closing(loop(sieve, probe, journal, view.asked)) as live_steps:  # type: ignore[arg-type]
        for step in live_steps:
            grid_gpu_s = grid()
            view.step(step, grid_gpu_s)
            sieve = step.sieve
    return sieve, grid_gpu_s, len(cells)


def _measured_before(rows: Sequence[Measurement]) -> str:
    """What a resumed run has: cells, and measurements where a cell has several."""
    cells = len({row.key for row in rows})
    looks = f", in {len(rows)} measurements" if len(rows) > cells else ""
    return f"resumed: {cells} {'cell was' if cells == 1 else 'cells were'} measured before{looks}"


def _certified(journal: Journal, sieve: Sieve) -> str:
    """Store the certificate; gives why floors cannot be met, where they cannot."""

    why = why_infeasible(sieve.certificate)
    journal.write_certificate(final_document(sieve, journal, why))
    return why


def _print_end(
    journal: Journal,
    sieve: Sieve,
    grid_gpu_s: float,
    cells: int,
    why: str,
    *,
    as_json: bool,
    by_verdict: bool,
    live: bool,
) -> int:
    """Print the end of a run; gives the exit code."""

    certificate = sieve.certificate
    if as_json:
        emit(
            {
                "verdict": str(certificate.verdict),
                "steps": len(sieve.measurements),
                "cost_gpu_s": sieve.spent_gpu_s,
                "full_grid_gpu_s": grid_gpu_s,
                "gap": gap_document(certificate.gap),
                "plan": plan_document(certificate.conservative, certificate.envelope),
                "stopped": stopped_document(sieve),
                "ended": ending(sieve, live=live) or None,
                "run": str(journal.folder),
            }
        )
    else:
        spent = cost_line(sieve.measurements, cells, sieve.spent_gpu_s, grid_gpu_s)
        show_certificate(results(), certificate, bounds="both", explanation=why, spent=spent)
        if ended := ending(sieve, live=live):
            say(results(), ended)
        say(results(), f"run: {journal.folder}")
    if by_verdict:
        return VERDICT_CODES[str(certificate.verdict)]
    return FAILED_CELLS if failed_cells(sieve) else 0

"""`fleetsieve run DIR`."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetsieve.cli import options
from fleetsieve.errors import UsageError
from fleetsieve.extensions import look_in_current_folder
from fleetsieve.files import read_instance, read_measurements, read_predictions, resolve
from fleetsieve.keys import DEFAULT_VARIANT
from fleetsieve.runs import layout
from fleetsieve.runs.journal import Journal
from fleetsieve.runs.making import create
from fleetsieve.runs.start import RunStart

if TYPE_CHECKING:
    from fleetsieve.cli.probing import Probing


@click.command("run")
@options.folder
@click.option("--probe", type=click.Choice(["replay", "vllm"]),
              help="Measure live vLLM servers, or replay the rows of DIR/measurements.csv one by one.")  # fmt: skip
@click.option("--replay", is_flag=True, help="The same as --probe replay.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE",
              help="serve.toml of a live run: the model, its servers, and the load.")  # fmt: skip
@click.option("--endpoint", "endpoints", multiple=True, metavar="TP=URL",
              help="Measure a running server with this TP at URL (repeatable).")  # fmt: skip
@click.option(
    "--max-servers", type=int, metavar="N", help="Number of servers that are measured side by side (default 1)."
)
@click.option(
    "--dry-run",
    "dry",
    is_flag=True,
    help="Show the exact commands and the estimated cost of a live run; start nothing.",
)
@click.option("--policy", metavar="NAME",
              help="The policy that chooses the next cell: decision-gap (default), paper, random, grid, joint-uncertainty, "
                   "shared-feature, targeted, voi, constrained-bo, or module:Class for a policy of your own.")  # fmt: skip
@click.option("--seed", type=int, metavar="N", help="Seed of the policy (default 0).")
@click.option("--stop-when-unprofitable", "horizon_h", type=float, metavar="HOURS",
              help="Stop when closing the gap costs more requests than it can gain in HOURS of deployment.")  # fmt: skip
@click.option("--prior", type=click.Path(path_type=Path), metavar="FILE",
              help="Predictions of another tool (prior.csv), or a measurements.csv (the median of a cell's ok rows "
                   "counts): they order the search and certify nothing.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="RUN",
              help="The run folder to create (default: runs/NAME-POLICY-SEED).")  # fmt: skip
@click.option("--resume", "resumed", is_flag=True, help="Continue the run in --out, or in DIR if DIR is a run.")
@options.as_json
@options.exit_code
def command(
    folder: str,
    probe: str | None,
    replay: bool,
    config: Path | None,
    endpoints: tuple[str, ...],
    max_servers: int | None,
    dry: bool,
    policy: str | None,
    seed: int | None,
    horizon_h: float | None,
    prior: Path | None,
    out: Path | None,
    resumed: bool,
    as_json: bool,
    by_verdict: bool,
) -> int:
    """Measure the cells that decide, one at a time, until the verdict is certain.

    Every measurement is stored in the run folder at once: a run that was killed continues with --resume and ends with the same
    bytes as one that was never killed.
    """
    from fleetsieve.cli import probing as probings
    from fleetsieve.cli.dry_run import dry_run
    from fleetsieve.cli.run_loop import go_on
    from fleetsieve.loop.policies import policy_named
    from fleetsieve.presentation.terminal import messages, say

    source = resolve(folder)
    wished = probings.asked(replay, probe, config, endpoints, max_servers)
    if resumed and out is None and (source / layout.STEPS).is_file():
        out = source
    wanted = RunStart(policy or "decision-gap", 0 if seed is None else seed, horizon_h)
    look_in_current_folder(wanted.policy)
    policy_named(wanted.policy)
    if wanted.seed < 0:
        raise UsageError(f"--seed is {wanted.seed}, not a whole number >= 0")
    if horizon_h is not None and not (math.isfinite(horizon_h) and horizon_h > 0.0):
        raise UsageError(f"--stop-when-unprofitable is {horizon_h:g}, not a finite number of hours > 0")
    if dry:
        return dry_run(source, wished, wanted, prior, as_json=as_json)
    out = out if out is not None else Path("runs") / f"{_name(source)}-{wanted.policy.replace(':', '.')}-{wanted.seed}"
    if not (resumed and (out / layout.STEPS).is_file()):
        if resumed and wished is None:
            raise UsageError(
                f"there is no run to resume at {out}", f"start one: fleetsieve run {folder} --replay --out {out}"
            )
        _create(source, out, wanted, prior, wished)
        if resumed:
            say(messages(), f"no run at {out}: starting one")
    with Journal(out) as journal:
        stated = journal.start
        look_in_current_folder(stated.policy)
        asked = ((policy, stated.policy), (seed, stated.seed), (horizon_h, stated.horizon_h))
        if any(given is not None and given != began for given, began in asked):
            raise UsageError(f"{out} was started with {_options(stated)}", "resume it with the same options")
        if prior is not None and _digest(prior) != journal.prior_sha256:
            began = "no prior" if journal.prior_sha256 is None else f"another prior, which is its {layout.PRIOR}"
            raise UsageError(f"{out} was started with {began}", "resume it without --prior: the run folder has a copy")
        probing = probings.Probing.of(journal.start)
        other = wished is not None and (
            wished.probe != probing.probe or wished.endpoints not in ({}, probing.endpoints)
        )
        if other:
            raise UsageError(
                f"{out} was started with --probe {probing.probe}", "resume it without --probe and --endpoint"
            )
        if wished is not None and wished.live:  # ports and deadlines may be fixed on the way
            probing = replace(probing, config=wished.config, max_servers=max_servers or probing.max_servers)
        elif probing.live:
            probing = probings.newest(probing, out)
        return go_on(journal, probing, as_json=as_json, by_verdict=by_verdict)


def _options(start: RunStart) -> str:
    """What a run was started with, as it is written on the command line."""
    stop = f" --stop-when-unprofitable {start.horizon_h:g}" if start.horizon_h is not None else ""
    return f"--policy {start.policy} --seed {start.seed}{stop}"


def _name(folder: Path) -> str:
    """What a folder is called, also one that is written `.` or `..`; the root of the file system is called by nothing but that."""
    given = folder.name
    return given if given not in ("", "..") else folder.resolve().name or "root"


def _digest(path: Path) -> str | None:
    """SHA-256 of a file; None where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _create(source: Path, out: Path, wanted: RunStart, prior: Path | None, probing: Probing | None) -> None:
    """Make the run folder, after every check that could refuse it."""
    from fleetsieve.cli import probing as probings
    from fleetsieve.engines.solving import ready
    from fleetsieve.presentation.terminal import tell_suspicions

    if probing is None:
        raise UsageError(
            "run needs a source of measurements: --replay reveals the rows of DIR/measurements.csv, --probe vllm starts servers",
            "fleetsieve run DIR --replay --out RUN, or fleetsieve run DIR --probe vllm --config serve.toml --out RUN",
        )
    read = read_instance(source)
    tell_suspicions(read.suspicions)
    table = None
    if probing.live:
        probings.prepared(probing, read, wanted.seed)
    else:
        table = source / layout.HIDDEN
        table = table if os.path.lexists(table) else source / layout.MEASURED
        if not table.exists():
            raise UsageError(f"{source} has no {layout.MEASURED} to replay")
        rows = read_measurements(table, read.instance) if table.name == layout.HIDDEN else read.measurements
        if not rows:
            raise UsageError(f"{table} has no rows to replay", "measure it, simulate it, or run live with --probe vllm")
    if prior is not None:
        tell_suspicions(read_predictions(prior, read.instance).suspicions)

    ready()
    start = replace(
        wanted,
        probe=probing.probe,
        config=probing.config if probing.live else None,
        endpoints=probing.endpoints,
        max_servers=probing.max_servers,
    )
    variants = any(cell.key.variant != DEFAULT_VARIANT for cell in read.instance.cells)
    create(
        source, out, start.line(read.instance.name), hidden=table, prior=prior, serve=probing.config, variants=variants
    )

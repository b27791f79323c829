"""`fleetsieve compare DIR...`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetsieve.cli import options
from fleetsieve.cli.labels import distinct
from fleetsieve.cli.main import emit
from fleetsieve.errors import FleetSieveError, UsageError

if TYPE_CHECKING:
    from fleetsieve.studies.compare import Store

RESULTS = "results.jsonl"


@click.command("compare")
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--policies",
    default="all",
    show_default=True,
    metavar="NAMES",
    help="all (the bundled ones), or names with commas between; module:Class for a policy of your own.",
)
@click.option("--orders", type=click.IntRange(1), default=200, show_default=True, metavar="N",
              help="Runs of a policy that has a seed.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, metavar="S", help="First seed of the orders."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="J", help="Processes.")
@click.option("--clairvoyant/--no-clairvoyant", "floor", default=True, help="Find the cheapest certifying set too.")
@click.option("--floor-limit", type=click.FloatRange(0.0), default=60.0, show_default=True, metavar="SECONDS",
              help="Time for the floor of one instance; its proven bounds are told after that.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep finished work here.")
@click.option("--resume", is_flag=True, help="Take finished work from --out instead of refusing it.")
@click.option("--csv", "table", type=options.ResultFile(), metavar="FILE", help="Write one row a run.")
@click.option("--plot", type=options.ResultFile(), metavar="FILE", help="Regret over GPU-seconds: .svg, .png or .html.")
@options.as_json
def command(
    folders: tuple[str, ...],
    policies: str,
    orders: int,
    seed: int,
    jobs: int,
    floor: bool,
    floor_limit: float,
    out: Path | None,
    resume: bool,
    table: Path | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Compare policies on measured tables: GPU-seconds to the same certificate, regret on the way, wrong certificates.

    Each DIR is an instance with its whole table (or a bundled instance's name), which is revealed cell by cell. A policy without a
    seed runs once: its run does not depend on the order. Instances of one name are told apart by their folders.
    """
    from fleetsieve.extensions import look_in_current_folder
    from fleetsieve.files import read_instance
    from fleetsieve.files.results import check_result, write_result
    from fleetsieve.loop.policies import POLICIES
    from fleetsieve.presentation.comparison import show_comparison
    from fleetsieve.presentation.comparison_plot import check_plot, regret_plot, write_plot
    from fleetsieve.presentation.progress import progress
    from fleetsieve.presentation.terminal import messages, results, say, tell_suspicions
    from fleetsieve.studies.compare import Case, compare
    from fleetsieve.studies.comparison import csv_text, document
    from fleetsieve.studies.decision_rules import RULES
    from fleetsieve.studies.rules import judged

    chosen = list(POLICIES) if policies == "all" else _chosen(policies)
    for name in chosen:
        look_in_current_folder(name)
    if plot is not None:
        check_plot(plot)
    for path in (table, plot):
        if path is not None:
            check_result(path)
    instances = []
    for folder in folders:
        read = read_instance(folder)
        tell_suspicions(read.suspicions)
        if not read.measurements:
            raise UsageError(f"{folder} has no measured table to reveal", "measure it, or simulate it")
        instances.append(read)
    labels = distinct([read.instance.name for read in instances], [read.path for read in instances])
    cases = [Case(label, read.instance, read.measurements) for label, read in zip(labels, instances, strict=True)]
    store = _store(out, resume)
    try:
        with progress("tasks") as advance:
            found = compare(
                cases, chosen, orders=orders, seed=seed, jobs=jobs, floor=floor, floor_limit_s=floor_limit,
                store=store, progress=advance,
            )  # fmt: skip
    except KeyboardInterrupt:
        kept = f"finished work is in {out}; go on with the same command and --resume"
        say(messages(), kept if out is not None else "nothing is kept; with --out FOLDER finished work is")
        raise
    ruled = [[judged(case, rule) for rule in RULES.values()] for case in cases]
    if table is not None:
        write_result(table, csv_text(found))
    if plot is not None:
        write_plot(regret_plot(found), plot)
    if as_json:
        whole = document(found, seed=seed)
        for entry, rules in zip(whole["instances"], ruled, strict=True):
            entry["rules"] = [rule.document for rule in rules]
        emit(whole)
    else:
        for own, rules in zip(found, ruled, strict=True):
            show_comparison(results(), own, rules)
    return 0


def _chosen(policies: str) -> list[str]:
    """The names in `--policies`; one that is named twice would count each of its runs twice."""
    names = [name.strip() for name in policies.split(",")]
    if "" in names:
        raise UsageError(
            f"--policies {policies!r} has an empty name", "for example --policies decision-gap,random, or all"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise UsageError(f"--policies names {', '.join(twice)} more than once", "name each policy once")
    return names


def _store(out: Path | None, resume: bool) -> Store:
    """Where finished work is kept; work of before is taken with --resume alone."""
    from fleetsieve.studies.compare import Store

    if out is None:
        if resume:
            raise UsageError("--resume needs --out, the folder of the work to go on with")
        return Store()
    if (out / RESULTS).exists() and not resume:
        raise UsageError(f"{out / RESULTS} is there already", "go on with it by --resume, or choose another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise FleetSieveError(f"cannot make {out}: {fault.strerror or fault}") from fault
    return Store(out / RESULTS)

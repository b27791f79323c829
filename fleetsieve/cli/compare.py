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
from fleetsieve.extensions import look_in_current_folder
from fleetsieve.files import read_instance
from fleetsieve.files.results import check_result, write_result

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
    help="all (the bundled ones), or names separated by commas; module:Class for a policy of your own.",
)
@click.option("--orders", type=click.IntRange(1), default=200, show_default=True, metavar="N",
              help="Number of runs of each policy that has a seed.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, metavar="S", help="Seed of the first run."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="J", help="Number of processes.")
@click.option(
    "--clairvoyant/--no-clairvoyant", "floor", default=True, help="Also find the cheapest set of cells that certifies."
)
@click.option("--floor-limit", type=click.FloatRange(0.0), default=60.0, show_default=True, metavar="SECONDS",
              help="Time limit of that search for each instance; then its proven bounds are shown.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Store finished runs in this folder.")
@click.option("--resume", is_flag=True, help="Continue with the finished runs in --out.")
@click.option(
    "--csv", "table", type=options.ResultFile(), metavar="FILE", help="Write a CSV file with one row per run."
)
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
    """Compare policies on measured tables: GPU-seconds to the certificate, regret before it, wrong certificates.

    Each DIR is an instance with all its measurements (or the name of a bundled one), which are revealed cell by cell. A policy
    without a seed runs once: its run does not depend on an order. Instances with the same name are labelled by their folders.
    """
    from fleetsieve.loop.policies import POLICIES
    from fleetsieve.presentation.comparison import show_comparison
    from fleetsieve.presentation.comparison_plot import check_plot, regret_plot, write_plot
    from fleetsieve.presentation.progress import progress
    from fleetsieve.presentation.terminal import messages, results, say, tell_suspicions
    from fleetsieve.studies.compare import Case, compare
    from fleetsieve.studies.comparison import csv_text, document
    from fleetsieve.studies.decision_rules import RULES
    from fleetsieve.studies.rules import rule_result

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
            raise UsageError(f"{folder} has no measurements to reveal", "measure it, or simulate it")
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
        kept = f"finished runs are in {out}; continue with the same command and --resume"
        say(messages(), kept if out is not None else "no results are stored; --out FOLDER stores finished runs")
        raise
    ruled = [[rule_result(case, rule) for rule in RULES.values()] for case in cases]
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
        for comparison, rules in zip(found, ruled, strict=True):
            show_comparison(results(), comparison, rules)
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
            raise UsageError("--resume needs --out, the folder with the finished runs")
        return Store()
    if (out / RESULTS).exists() and not resume:
        raise UsageError(f"{out / RESULTS} already exists", "continue it with --resume, or choose another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FleetSieveError(f"cannot make {out}: {error.strerror or error}") from error
    return Store(out / RESULTS)

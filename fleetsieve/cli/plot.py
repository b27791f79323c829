"""`fleetsieve plot KIND DIR`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.errors import UsageError
from fleetsieve.files import Folder, read_instance
from fleetsieve.files.faults import close_match

KINDS = {
    "capacity": "feasible requests/s per GPU, by class and TP",
    "tails": "p99 over the load, by class and TP, with the SLO's line",
    "grid": "the cells as a heat map: measured or not, and the results",
    "allocation": "the plan on the GPUs of the fleet",
    "served": "served of demand, by class",
    "gap": "the gap over the GPU-seconds of a run",
    "demand": "least fulfilment and goodput over the demand scale",
}


@click.command("plot", epilog="KIND is one of: " + "; ".join(f"{kind}: {what}" for kind, what in KINDS.items()) + ".")
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
@options.folder
@click.option("-o", "--out", type=options.ResultFile(), required=True, metavar="FILE",
              help="The file to write: .svg, .png or .html (which needs no network).")  # fmt: skip
@click.option("--class", "class_name", metavar="C", help="One class only (tails and grid).")
@click.option("--dark", is_flag=True, help="Use light colours on a dark background.")
@options.as_json
def command(kind: str, folder: str, out: Path, class_name: str | None, dark: bool, as_json: bool) -> int:
    """Draw one figure of an instance or run (needs the extra `plots`)."""
    from fleetsieve.figures import check_path, write_figure
    from fleetsieve.presentation.progress import working
    from fleetsieve.presentation.terminal import results, say, tell_suspicions

    check_path(out, "-o")
    read = read_instance(folder)
    tell_suspicions(read.suspicions)
    if class_name is not None and class_name not in read.instance.class_by_name:
        names = [c.name for c in read.instance.classes]
        raise UsageError(
            f"--class {class_name!r} is not a class{close_match(class_name, names)}", f"there are {', '.join(names)}"
        )
    if class_name is not None and kind not in ("tails", "grid"):
        raise UsageError(f"--class works with tails and grid, not with {kind}")
    with working("drawing"):
        write_figure(_chart(kind, read, class_name, dark=dark), out, f"{read.instance.name}: {KINDS[kind]}")
    if as_json:
        emit({"figure": str(out), "kind": kind})
    else:
        say(results(), f"figure: {out}")
    return 0


def _chart(kind: str, read: Folder, class_name: str | None, *, dark: bool) -> Any:

    from fleetsieve import figures
    from fleetsieve.bounds.envelope import Envelope
    from fleetsieve.certificate import certify
    from fleetsieve.engines.choosing import Automatic
    from fleetsieve.runs.history import read_history

    palette = figures.DARK if dark else figures.LIGHT
    envelope = Envelope.of(read.instance, read.measurements)
    engine = Automatic()
    if kind == "gap":
        history = read_history(read.path)
        if history is None or not history.steps:
            raise UsageError(
                f"{read.path} has no steps of a run, so there is no gap to plot",
                f"fleetsieve run {read.path} --replay --out RUN, then plot RUN",
            )
        start = certify(Envelope.of(read.instance), engine).gap
        return figures.gap(history, read.instance.certificate.epsilon, start, palette)
    certificate = certify(envelope, engine)
    if kind == "demand":
        return figures.demand(certificate, engine, palette)
    if kind == "tails":
        return figures.tails(certificate, palette, class_name)
    if kind == "grid":
        return figures.grid(certificate, palette, class_name)
    drawn = {"capacity": figures.capacity, "allocation": figures.allocation, "served": figures.served}[kind]
    return drawn(certificate, palette)

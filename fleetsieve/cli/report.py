"""`fleetsieve report DIR`."""

from __future__ import annotations

from pathlib import Path

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.files import read_instance
from fleetsieve.files.results import check_result, write_result
from fleetsieve.runs.layout import STEPS


@click.command("report")
@options.folder
@click.option("-o", "--out", type=options.ResultFile(), metavar="FILE",
              help="The file to write (default: report.html in a run's folder, else here).")  # fmt: skip
@click.option("--sensitivity/--no-sensitivity", default=True, show_default=True,
              help="Include how far limits, demand and GPUs can move before the plan changes (the slowest part).")  # fmt: skip
@options.as_json
def command(folder: str, out: Path | None, sensitivity: bool, as_json: bool) -> int:
    """Write an HTML report of a run or an instance: verdict, plan, evidence and steps (needs the extra `report`).

    The report is one file that needs no network. It is readable on a phone and in print, in light and dark.
    """
    from fleetsieve.presentation.progress import working
    from fleetsieve.presentation.terminal import results, say, tell_suspicions
    from fleetsieve.report import report_html

    read = read_instance(folder)
    tell_suspicions(read.suspicions)
    path = out if out is not None else (read.path if (read.path / STEPS).is_file() else Path()) / "report.html"
    check_result(path)
    faster = " (faster with --no-sensitivity)" if sensitivity else ""
    with working(f"writing the report{faster}"):
        page = report_html(read, folder, sensitivity=sensitivity)
    write_result(path, page)
    if as_json:
        emit({"report": str(path), "bytes": len(page.encode())})
    else:
        say(results(), f"report: {path}")
    return 0

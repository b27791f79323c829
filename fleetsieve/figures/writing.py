"""Figures as files."""

from __future__ import annotations

from pathlib import Path

from fleetsieve.errors import FleetSieveError, UsageError
from fleetsieve.figures.drawing import Chart, altair
from fleetsieve.figures.html import page
from fleetsieve.files import replace_file
from fleetsieve.files.replacing import replace_bytes

FORMATS = (".html", ".png", ".svg")


def check_path(path: Path, flag: str) -> None:
    """Refuse a figure that could not be made, before the work.

    Raises:
        UsageError: when the suffix is none of FORMATS.
        SolverMissing: when the plotting library is not installed.
    """
    if path.suffix not in FORMATS:
        raise UsageError(f"{flag} {path}: the suffix must be one of {', '.join(FORMATS)}")
    altair()


def write_figure(chart: Chart, path: Path, title: str) -> None:
    """Write a chart as its suffix says; an html file needs no network.

    Raises:
        FleetSieveError: when the file cannot be written.
    """
    altair()
    import vl_convert

    try:
        if path.suffix == ".html":
            replace_file(path, page(chart, title))
        elif path.suffix == ".svg":
            replace_file(path, vl_convert.vegalite_to_svg(chart.to_dict()))
        else:
            replace_bytes(path, vl_convert.vegalite_to_png(chart.to_dict(), scale=2.0))
    except OSError as fault:
        raise FleetSieveError(f"cannot write {path}: {fault.strerror or fault}") from fault

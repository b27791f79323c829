"""Figures as files."""

from __future__ import annotations

from pathlib import Path

from fleetsieve.errors import UsageError
from fleetsieve.figures.drawing import Chart, altair
from fleetsieve.figures.html import page
from fleetsieve.files.results import check_result, write_result

FORMATS = (".html", ".png", ".svg")


def check_path(path: Path, flag: str) -> None:
    """Refuse a figure that could not be made, before the work.

    Raises:
        UsageError: when the suffix is none of FORMATS, or an instance is read from that file.
        SolverMissing: when the plotting library is not installed.
    """
    if path.suffix not in FORMATS:
        raise UsageError(f"{flag} {path}: the suffix must be one of {', '.join(FORMATS)}")
    check_result(path)
    altair()


def write_figure(chart: Chart, path: Path, title: str) -> None:
    """Write a chart as its suffix states; an html file needs no network.

    Raises:
        FleetSieveError: when the file cannot be written.
    """
    altair()
    import vl_convert

    if path.suffix == ".html":
        write_result(path, page(chart, title))
    elif path.suffix == ".svg":
        write_result(path, vl_convert.vegalite_to_svg(chart.to_dict()))
    else:
        write_result(path, vl_convert.vegalite_to_png(chart.to_dict(), scale=2.0))

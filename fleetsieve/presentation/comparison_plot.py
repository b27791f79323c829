"""The plot of a comparison: how fast each policy's plan gets good. Needs the extra `plots` (altair, vl-convert)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fleetsieve.errors import SolverMissing, UsageError
from fleetsieve.figures import write_figure
from fleetsieve.studies.compare import Results
from fleetsieve.studies.comparison import regret_at

POINTS = 200
FORMATS = (".html", ".png", ".svg")


def check_plot(path: Path) -> None:
    """Refuse a plot that could not be made, before hours of work.

    Raises:
        UsageError: when the suffix is none of FORMATS.
        SolverMissing: when the plotting library is not installed.
    """
    if path.suffix not in FORMATS:
        raise UsageError(f"--plot {path}: the suffix must be one of {', '.join(FORMATS)}")
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise SolverMissing(f"a plot needs {error.name}", "pip install 'fleetsieve[plots]'") from error


def regret_plot(found: Sequence[Results]) -> Any:
    """An altair chart, one panel an instance: mean regret over the GPU-seconds spent, and where 80 % of the orders lie."""
    import altair as alt
    import pandas as pd

    panels = []
    for results in found:
        spent = np.linspace(0.0, results.case.grid_gpu_s, POINTS)
        rows = []
        for policy, runs in results.runs.items():
            curves = np.array([regret_at(run, spent.tolist()) for run in runs])
            low, high = np.quantile(curves, [0.1, 0.9], axis=0)
            rows.append(
                pd.DataFrame(
                    {"spent": spent / 1e3, "regret": curves.mean(axis=0), "low": low, "high": high, "policy": policy}
                )
            )
        base = alt.Chart(pd.concat(rows), title=alt.TitleParams(results.case.name, anchor="start")).encode(
            x=alt.X("spent:Q", title="thousand GPU-seconds spent"),
            color=alt.Color("policy:N", title=None, sort=list(results.runs)),
        )
        band = base.mark_area(opacity=0.15, interpolate="step-after").encode(
            y=alt.Y("low:Q", title="largest stage regret of the committed plan"), y2="high:Q"
        )
        line = base.mark_line(interpolate="step-after").encode(y="regret:Q", tooltip=["policy", "spent", "regret"])
        panels.append((band + line).properties(width=520, height=280))
    return alt.vconcat(*panels)


def write_plot(chart: Any, path: Path) -> None:
    """Write a chart as its suffix states; an html file needs no network, and no name in it can run.

    Raises:
        FleetSieveError: when the file cannot be written.
    """
    write_figure(chart, path, path.stem)

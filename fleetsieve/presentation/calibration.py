"""A noise study for a person to read."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetsieve.certificate import Verdict
from fleetsieve.presentation.terminal import literal, say, show_table
from fleetsieve.studies.calibrate_counts import Counts, Rate
from fleetsieve.studies.judging import FAULTS


def show_calibration(console: Console, name: str, noise: str, nominal: float, counts: Sequence[Counts]) -> None:
    """One column a treatment: verdicts, wrong certificates with their intervals, cost."""
    table = Table(title=literal(f"{name}, {noise}"), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    table.add_column("", overflow="fold")
    for counted in counts:
        table.add_column(literal(counted.treatment), justify="right", overflow="fold")
    rows = [
        ("trials", [f"{c.trials:,}" for c in counts]),
        *((str(verdict), [f"{c.verdicts[verdict]:,}" for c in counts]) for verdict in Verdict),
        ("wrong certified-feasible", [_rate(c.wrong_feasible) for c in counts]),
        ("wrong certified-infeasible", [_rate(c.wrong_infeasible) for c in counts]),
        ("undecided", [_rate(c.undecided) for c in counts]),
        ("GPU-seconds, mean", [f"{c.mean_gpu_s:,.0f}" for c in counts]),
        ("... relative to the exact table", [_ratio(c) for c in counts]),
        ("measurements (cells), mean", [f"{c.mean_looks:.1f} ({c.mean_cells:.1f})" for c in counts]),
    ]
    for title, cells in rows:
        table.add_row(Text(title), *(Text(cell) for cell in cells))
    show_table(console, table)
    for counted in counts:
        for fault, count in counted.faults.items():
            say(console, f"{counted.treatment}: {FAULTS[fault]}: {count:,}")
        say(console, _against_nominal(counted, nominal))


def _rate(rate: Rate) -> str:
    return f"{rate.count:,} = {rate.share:.2%} ({rate.ci95.lo:.2%} to {rate.ci95.hi:.2%})"


def _ratio(c: Counts) -> str:
    return f"{c.mean_gpu_s / c.exact_gpu_s:.2f} x {c.exact_gpu_s:,.0f}" if c.exact_gpu_s > 0.0 else "-"


def _against_nominal(c: Counts, nominal: float) -> str:
    """Whether the rate of wrong certificates is below, above or not distinguished from the nominal one."""
    where = (
        "within" if c.wrong.ci95.hi <= nominal else "above" if c.wrong.ci95.lo > nominal else "not distinguishable from"
    )
    return f"{c.treatment}: {c.wrong.share:.2%} of the trials certified wrongly, {where} the nominal {nominal:.2%}"

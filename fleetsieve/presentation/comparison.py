"""A comparison of policies for a person to read: one table an instance."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetsieve.presentation.terminal import literal, say, show_table
from fleetsieve.studies.compare import FloorFound, Results
from fleetsieve.studies.comparison import Interval95, Summary, policy_summary
from fleetsieve.studies.rules import Verdictless


def show_comparison(console: Console, results: Results, rules: Sequence[Verdictless]) -> None:
    """GPU-seconds to the certificate per policy and class, against random, the floor and the truth; then the rules without one."""
    case = results.case
    summaries = [policy_summary(results, policy) for policy in results.runs]
    table = Table(
        title=literal(f"{case.name}, thousand GPU-seconds"), box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False
    )
    table.add_column("policy")
    names = [c.name for c in case.instance.classes]
    for title in (
        "to the certificate",
        *names,
        "saved",
        "random beaten",
        "of the floor",
        "regret",
        "AUC",
        "wrong",
        "undecided",
    ):
        table.add_column(literal(title), justify="right", overflow="fold")
    for s in sorted(summaries, key=lambda s: (s.mean_gpu_s, s.policy)):
        table.add_row(Text(s.policy), *(Text(cell) for cell in _cells(s, names)))
    show_table(console, table)
    say(console, f"full grid: {case.grid_gpu_s / 1e3:,.1f}; {_floor_text(results.floor)}")
    for rule in rules:
        say(console, f"{rule.name}, a rule without a certificate: {rule.sentence}")


def _cells(s: Summary, classes: Sequence[str]) -> list[str]:
    ratio = "" if s.ratio_to_clairvoyant is None else f"{s.ratio_to_clairvoyant:.2f}x"
    return [
        _thousand(s.mean_gpu_s, s.ci95_gpu_s),
        *(f"{s.class_gpu_s[name] / 1e3:,.1f}" for name in classes),
        _share(s.saving_vs_random, s.ci95_saving),
        _share(s.beats_random_share, None),
        ratio,
        f"{s.max_regret:z.3f}",
        f"{s.regret_auc:z.3f}",
        str(s.wrong_certificates),
        str(s.undecided),
    ]


def _thousand(value: float, interval: Interval95) -> str:
    text = f"{value / 1e3:,.1f}"
    return text if interval[0] == interval[1] else f"{text} ({interval[0] / 1e3:,.1f} to {interval[1] / 1e3:,.1f})"


def _share(value: float | None, interval: Interval95 | None) -> str:
    if value is None:
        return ""
    text = f"{value:z.1%}"
    return text if interval is None else f"{text} ({interval[0]:z.1%} to {interval[1]:z.1%})"


def _floor_text(floor: FloorFound | None) -> str:
    if floor is None:
        return "clairvoyant floor: not requested"
    if floor.upper_gpu_s is None:
        return f"no clairvoyant floor: {floor.reason}"
    lower = f"{floor.lower_gpu_s / 1e3:,.1f}"
    if floor.exact:
        return f"clairvoyant floor: {lower} (exact)"
    return f"clairvoyant floor: between {lower} and {floor.upper_gpu_s / 1e3:,.1f} ({floor.reason})"

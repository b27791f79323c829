"""`fleetsieve sensitivity DIR`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetsieve.cli import options
from fleetsieve.cli.main import emit
from fleetsieve.errors import UsageError
from fleetsieve.files import Folder, read_instance
from fleetsieve.files.durations import duration, seconds_of_ms
from fleetsieve.files.limits import measured_medians, too_long, too_short
from fleetsieve.files.plausibility import wide_slack
from fleetsieve.files.results import check_result, write_result
from fleetsieve.files.spelling import respelled
from fleetsieve.instance import Instance

if TYPE_CHECKING:
    from fleetsieve.answers.sensitivity import Axis, SloAxis

MAX_AXES = 2
SLO_EXAMPLE, SLO_EXAMPLE_MS = "--slo chat.e2e_p99_s=10:60", "--slo chat.ttft_p99_s=200ms:800ms"


@click.command("sensitivity")
@options.folder
@click.option("--slo", "slos", multiple=True, metavar="CLASS.METRIC=LO:HI",
              help="Range of a limit: ttft_p99_s, e2e_p99_s, tpot_p99_s (seconds, or 200ms:800ms) or min_success.")  # fmt: skip
@click.option(
    "--demand", "demands", multiple=True, metavar="CLASS=LO:HI", help="Range of factors for the demand of one class."
)
@click.option(
    "--demand-scale",
    "scales",
    multiple=True,
    metavar="LO:HI",
    help="Range of factors for all demands; floors do not change.",
)
@click.option(
    "--epsilon", "epsilons", multiple=True, metavar="LO:HI", help="Range of epsilon, the largest gap that certifies."
)
@click.option("--gpus", "sizes", multiple=True, metavar="LO:HI", help="Range of the number of GPUs in the fleet.")
@click.option(
    "--eta",
    type=float,
    metavar="F",
    help="Fairness slack of the goodput stage (default: the instance's, or epsilon / 2).",
)
@click.option("--given", "plan_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Show where this plan holds: an allocation, a certificate, or the output of solve --json.")  # fmt: skip
@click.option(
    "--csv",
    "table",
    type=options.ResultFile(),
    metavar="FILE",
    help="Write a CSV file with one row per interval or region.",
)
@click.option(
    "--plot",
    type=options.ResultFile(),
    metavar="FILE",
    help="Step curves, or a map of two axes: .svg, .png or .html.",
)
@options.as_json
def command(
    folder: str,
    slos: tuple[str, ...],
    demands: tuple[str, ...],
    scales: tuple[str, ...],
    epsilons: tuple[str, ...],
    sizes: tuple[str, ...],
    eta: float | None,
    plan_file: Path | None,
    table: Path | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Show how the plan changes with an SLO limit, the demand, epsilon or the number of GPUs: one axis or two.

    Break points are computed, not sampled: between two of them the plan and the verdict are constant. Where they cannot be
    computed, the output is marked as sampled.
    """
    from fleetsieve.answers.sensitivity import read_given, study, study_two
    from fleetsieve.answers.sensitivity.document import map_csv, map_document, study_csv, study_document
    from fleetsieve.presentation.progress import Advancing, progress
    from fleetsieve.presentation.sensitivity import show_map, show_study
    from fleetsieve.presentation.terminal import messages, results, say, tell_suspicions

    axes = _axes(slos, demands, scales, epsilons, sizes)
    if eta is not None and not 0.0 <= eta < 1.0:
        raise UsageError(f"--eta is {eta}, not a fraction in [0, 1)")
    if plot is not None:
        from fleetsieve.figures import check_path

        check_path(plot, "--plot")
    if table is not None:
        check_result(table)
    read = read_instance(folder)
    tell_suspicions(read.suspicions)
    instance = read.instance
    axes = [_spelled(axis, instance) for axis in axes]
    for sentence in _implausible(axes, read):
        say(messages(), f"warning: {sentence}", "yellow")
    if eta is not None:
        instance = replace(instance, certificate=replace(instance.certificate, eta=eta))
        if why := wide_slack(instance.certificate):
            say(messages(), f"warning: {why}", "yellow")
    given = read_given(plan_file, instance) if plan_file is not None else None
    if len(axes) == 1:
        found = study(instance, read.measurements, axes[0], given, Advancing("ranges searched"))
        document, text = study_document(found), study_csv(found)
    else:
        with progress("strips") as advance:
            mapped = study_two(instance, read.measurements, axes[0], axes[1], given, advance)
        document, text = map_document(mapped), map_csv(mapped)
    if table is not None:
        write_result(table, text)
    if plot is not None:
        from fleetsieve.figures import write_figure
        from fleetsieve.presentation.sensitivity_plot import map_plot, study_plot

        chart = study_plot(found) if len(axes) == 1 else map_plot(mapped)
        write_figure(chart, plot, f"{instance.name}: sensitivity to {' and '.join(axis.name for axis in axes)}")
    if as_json:
        emit(document)
    elif len(axes) == 1:
        show_study(results(), found)
    else:
        show_map(results(), mapped)
    return 0


def _axes(
    slos: tuple[str, ...],
    demands: tuple[str, ...],
    scales: tuple[str, ...],
    epsilons: tuple[str, ...],
    sizes: tuple[str, ...],
) -> list[Axis]:
    """The axes asked for, in the order of the options.

    Raises:
        UsageError: when a text is no axis, or there is none or more than two.
    """
    from fleetsieve.answers.sensitivity import DemandAxis, EpsilonAxis, GpusAxis

    axes: list[Axis] = [_slo_axis(text) for text in slos]
    for text in demands:
        name, low, high = _ranged("--demand", text, "--demand chat=0.5:2")
        axes.append(DemandAxis(name, low, high))
    axes += [DemandAxis(None, *_range("--demand-scale", text, "--demand-scale 0.5:2")) for text in scales]
    axes += [EpsilonAxis(*_range("--epsilon", text, "--epsilon 0.01:0.2")) for text in epsilons]
    axes += [GpusAxis(*_range("--gpus", text, "--gpus 8:64")) for text in sizes]
    if not 1 <= len(axes) <= MAX_AXES:
        raise UsageError(
            f"{len(axes)} axes are given, not one or two" if axes else "no axis is given",
            "for example --slo chat.e2e_p99_s=10:60, or --demand-scale 0.5:2 --gpus 8:64",
        )
    return axes


def _slo_axis(text: str) -> SloAxis:
    """`CLASS.METRIC=LO:HI`, a tail in seconds: `ttft_p99_ms` and numbers with a unit are converted here.

    The last `=` separates, so a class name may hold one.
    """
    from fleetsieve.answers.sensitivity import SloAxis
    from fleetsieve.answers.sensitivity.axes import METRICS, SUCCESS

    place, equals, span = text.rpartition("=")
    name, dot, metric = place.rpartition(".")
    if not equals or not dot or not name:
        raise UsageError(f"--slo {text!r} is not CLASS.METRIC=LO:HI", f"for example {SLO_EXAMPLE}")
    in_s = metric.removesuffix("_ms") + "_s"
    in_ms = metric.endswith("_ms") and in_s in METRICS
    if metric == SUCCESS:
        return SloAxis(name, metric, *_range("--slo", text, f"--slo {name}.{SUCCESS}=0.9:0.99", span))
    ends = [duration(end, "ms" if in_ms else "s") for end in span.split(":")]
    low, high = ends if len(ends) == 2 else (None, None)
    if low is None or high is None:
        raise UsageError(f"--slo {text!r} has no range LO:HI", f"for example {SLO_EXAMPLE}, or {SLO_EXAMPLE_MS}")
    return SloAxis(name, in_s, seconds_of_ms(low), seconds_of_ms(high)) if in_ms else SloAxis(name, metric, low, high)


def _spelled(axis: Axis, instance: Instance) -> Axis:
    """The axis with its class written as the instance writes it."""
    from fleetsieve.answers.sensitivity import DemandAxis, SloAxis

    if not isinstance(axis, SloAxis | DemandAxis) or axis.class_name is None:
        return axis
    return replace(axis, class_name=respelled([axis.class_name], instance.class_by_name)[0])


def _implausible(axes: Iterable[Axis], read: Folder) -> Iterator[str]:
    """Ranges of limits that lie as a whole where no limit of an SLO does: mostly milliseconds."""
    from fleetsieve.answers.sensitivity import SloAxis
    from fleetsieve.answers.sensitivity.axes import METRICS, SUCCESS

    tails = set(METRICS) - {SUCCESS}
    limits = [axis for axis in axes if isinstance(axis, SloAxis) and axis.metric in tails and axis.lo <= axis.hi]
    medians = measured_medians(read.instance.classes, read.measurements) if limits else {}
    for axis in limits:
        metric = axis.metric.removesuffix("_p99_s")
        why = too_long(metric, axis.lo, medians.get((axis.class_name, metric))) or too_short(metric, axis.hi)
        if why:
            yield f"{axis.name} from {axis.lo:g} to {axis.hi:g} s: {why}"


def _ranged(flag: str, text: str, example: str) -> tuple[str, float, float]:
    """`NAME=LO:HI`; the last `=` separates, so a class name may hold one."""
    name, equals, span = text.rpartition("=")
    if not equals or not name:
        raise UsageError(f"{flag} {text!r} names nothing before a range", f"for example {example}")
    return name, *_range(flag, text, example, span)


def _range(flag: str, text: str, example: str, span: str | None = None) -> tuple[float, float]:
    """`LO:HI`, of `span` where that is a part of the option's `text`."""
    low, colon, high = (text if span is None else span).partition(":")
    try:
        return float(low), float(high) if colon else float("")
    except ValueError:
        raise UsageError(f"{flag} {text!r} has no range LO:HI", f"for example {example}") from None

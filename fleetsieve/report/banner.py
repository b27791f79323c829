"""The top of a page: what the plan serves, the verdict, the evidence, and the figures at a glance."""

from __future__ import annotations

from fleetsieve.certificate import Certificate, Verdict
from fleetsieve.certificate.sentence import floors_as_demand, kinds_of_figures, listed, measured_cells
from fleetsieve.instance import Status
from fleetsieve.live.serving.register import measured_starts_s
from fleetsieve.loop.cost import grid_cost_gpu_s
from fleetsieve.loop.stopping import Stop
from fleetsieve.report.failing import last_failures, lost_gpu_s
from fleetsieve.report.headroom import by_class
from fleetsieve.report.rounding import PER_CENT, gap_part, points, rate, share
from fleetsieve.report.subject import Report

MEANINGS = {
    Verdict.FEASIBLE: "Certified-feasible means: about the best that this fleet can do, if what the verdict assumes is true. "
    "It does not mean that all demand is met.",
    Verdict.UNDECIDED: "Undecided means: what was measured does not show yet whether a much better plan, or one that keeps every "
    "floor, exists.",
    Verdict.INFEASIBLE: "Certified-infeasible means: if what the verdict assumes is true, no plan "
    "for this fleet keeps every floor.",
}
"""What each verdict means to somebody who meets it for the first time."""

SIMULATED = "simulated"
"""A source that has this word covers no GPU."""


def lead(certificate: Certificate) -> str:
    """The first sentences: what is served of the demand, class by class, and the verdict."""
    sentences = [_served(certificate), _certified(certificate)]
    return " ".join(sentences[::-1] if certificate.verdict is Verdict.INFEASIBLE else sentences)


def _served(c: Certificate) -> str:
    plan, gpus = c.conservative, c.envelope.instance.fleet.gpus
    total = plan.problem.total_demand_rps
    if plan.replica_counts:
        return (
            f"On {plan.gpus_used} of {gpus} GPUs the plan serves {rate(plan.goodput_rps)} of {total:g} requests/s: {by_class(c)} "
            "of the demand."
        )
    upper = (
        f", at most {_greatest_goodput(c)} of {total:g} requests/s by the bounds"
        if c.upper.goodput_rps is not None
        else ""
    )
    why = "no measured cell keeps its SLO" if measured_cells(c.envelope) else "nothing was measured"
    return f"There is no plan yet, for {why}; what {gpus} GPUs can serve is open{upper}."


def _greatest_goodput(c: Certificate) -> str:
    return rate(min(c.upper.goodput_rps or 0.0, c.conservative.problem.total_demand_rps), lower=False)


def _certified(c: Certificate) -> str:
    demands = c.conservative.problem.classes
    floors = [
        f"{w.name} {w.floor_rps:g}"
        for w in c.envelope.instance.classes
        if w.floor_rps is not None and w.demand_rps > 0.0
    ]
    if c.verdict is Verdict.INFEASIBLE:
        return f"No plan on these GPUs keeps every floor ({listed(floors, 6)} requests/s), not even in the best case."
    unservable = f"No cell can serve {listed(c.unservable, 5)} within the SLO. " if c.unservable else ""
    if c.verdict is Verdict.FEASIBLE:
        kept = (
            f"Every floor is kept{floors_as_demand(c.envelope)}. " if any(d.floor is not None for d in demands) else ""
        )
        within = f"{100.0 * c.epsilon:g} points better"
        return (
            f"{unservable}{kept}No other plan on these GPUs serves the worst-served class more than {within}, "
            f"or in all more than {100.0 * c.epsilon:g} % of the demand more."
        )
    return unservable + _open(c)


def _open(c: Certificate) -> str:
    if c.blocking == "solver":
        return "Whether another plan is better is not known: the solver was cut short."
    sentences = []
    if c.blocking == "shortfall":
        sentences.append("Measured cells do not keep every floor yet, and it is not shown that none can.")
    if c.open_classes:
        sentences.append(f"No measured cell can serve {listed(c.open_classes, 5)} yet.")
    gains = []
    if c.gap.min_fulfilment > c.epsilon:
        gains.append(f"serve the worst-served class up to {points(c.gap.min_fulfilment)} better")
    if c.gap.goodput > c.epsilon:
        gains.append(f"serve in all up to {share(c.gap.goodput, lower=False)} of the demand more")
    if gains:
        sentences.append(
            f"Whether a better plan exists is not settled: in the worst case, another could {' and '.join(gains)}."
        )
    return " ".join(sentences)


def caveats(report: Report) -> list[str]:
    """What is behind the figures: where they come from, and with what confidence."""
    c = report.certificate
    if not measured_cells(c.envelope):
        return [
            "Nothing was measured: the verdict follows from the demand, the floors, the SLOs and the assumptions alone."
        ]
    return [_sources(report), _confidence(c)]


def _sources(report: Report) -> str:
    rows = [row for row in report.read.measurements if row.status is Status.OK]
    sources = list(dict.fromkeys(row.source for row in rows if row.source)) or [report.read.instance.source]
    sources = [source for source in sources if source]
    if not sources:
        return "Where the measured figures come from is not recorded."
    named = (
        "; ".join(sources) if len(sources) <= 2 else f"{len(sources)} notes in measurements.csv, such as: {sources[0]}"
    )
    simulated = all(SIMULATED in source.lower() for source in sources)
    return f"{'Simulated figures, not from GPUs' if simulated else 'Where the figures come from'}: {named}."


def _confidence(c: Certificate) -> str:
    counts, settings = kinds_of_figures(c.envelope), c.envelope.instance.certificate
    total = sum(counts.values())
    words = {
        "point values": "were measured once and are taken at face value, so no confidence level applies",
        "stated bounds": "are taken at the bounds that their rows state",
        "repeats": "are taken at the range of their repeats, without statistics",
        "records": f"are bounded from their requests, at a confidence of {settings.confidence:g}",
        "runs": f"are widened by the spread between runs, at a confidence of {settings.confidence:g}",
    }
    sentences = [
        f"{count} of {total} measured cells {words[kind] if count > 1 else _of_one(words[kind])}"
        for kind, count in counts.items()
    ]
    return "; ".join(sentences) + "."


def _of_one(words: str) -> str:
    """A sentence about several cells, in the singular."""
    verb, rest = words.split(" ", 1)
    rest = rest.replace("their rows state", "its row states").replace("their", "its")
    return f"{'was' if verb == 'were' else 'is'} {rest}".replace(" and are ", " and is ")


def stop_words(stop: Stop | None) -> str:
    """Why a stop rule ended the run; "" where none did."""
    if stop is None:
        return ""
    return (
        f"The run was stopped before a verdict, by its option --stop-when-unprofitable {stop.horizon_h:g}: closing the gap is worth"
        f" at most {stop.worth_requests:,.0f} requests in {stop.horizon_h:g} h of service ({stop.gap_rps:.3g} requests/s), and is"
        f" expected to take {stop.to_close_gpu_s:,.0f} GPU-seconds of measuring, in which the GPUs could serve"
        f" {stop.price_requests:,.0f} requests ({stop.rps_per_gpu:.3g} requests/s per GPU)."
    )


def facts(report: Report) -> list[tuple[str, str, str]]:
    """What a reader sees at once: a name, a figure, and what it is measured by."""
    c = report.certificate
    instance, plan = c.envelope.instance, c.conservative
    total = plan.problem.total_demand_rps
    counted = any(demand.in_minimum and demand.demand_rps > 0.0 for demand in plan.problem.classes)
    left_out = " of those that a cell can serve" if c.unservable else ""
    if plan.replica_counts:
        least = share(plan.min_fulfilment) if counted else "-"
        served = [
            ("Worst-served class", least, f"of its demand (least fulfilment{left_out})"),
            ("Served in all", rate(plan.goodput_rps), f"of {total:g} requests/s demanded (goodput)"),
        ]
    else:
        best = c.upper.min_fulfilment
        fulfilment = (
            f"; the bounds allow up to {share(min(1.0, best), lower=False)}" if best is not None and counted else ""
        )
        goodput = (
            f"; the bounds allow up to {_greatest_goodput(c)} of {total:g} requests/s"
            if c.upper.goodput_rps is not None
            else ""
        )
        served = [
            ("Worst-served class", "no plan", f"least fulfilment{left_out}{fulfilment}"),
            ("Served in all", "no plan", f"goodput{goodput}"),
        ]
    return [
        ("GPUs in use", f"{plan.gpus_used}" if plan.replica_counts else "no plan", f"of {instance.fleet.gpus} GPUs"),
        *served,
        _gap_tile(c),
        _cells_tile(report),
        _spent_tile(report),
    ]


def _gap_tile(c: Certificate) -> tuple[str, str, str]:
    stages = {"least fulfilment": c.gap.min_fulfilment, "goodput": c.gap.goodput}
    if c.gap.shortfall > 0.0:
        stages = {"floors": c.gap.shortfall, **stages}
    parts = {name: gap_part(value) for name, value in stages.items()}
    within = f"certifies at {c.epsilon:g} or less"
    if set(parts.values()) == {"0"}:
        return "Gap to the best possible", "none", f"below 0.000001 in {listed(list(parts))}; {within}"
    figures = [value for value in parts.values() if value != "?"]
    largest = "unknown" if len(figures) < len(parts) else max(figures, key=float)
    text = ", ".join(f"{name} {part}" for name, part in parts.items())
    return "Gap to the best possible", largest, f"{text} of the demand; {within}"


def _cells_tile(report: Report) -> tuple[str, str, str]:
    c = report.certificate
    cells = [cell for cell in report.read.instance.cells if not cell.excluded]
    failed = last_failures(c)
    measured = {known.key for known in measured_cells(c.envelope)} - {known.key for known in failed}
    left = len({cell.key for cell in cells} - measured - {known.key for known in failed})
    parts = [f"of {len(cells)} cells"]
    parts += [f"{len(failed)} failed"] if failed else []
    parts += [f"{left} not measured"] if left else []
    return "Measured", f"{len(measured)}", ", ".join(parts)


def _spent_tile(report: Report) -> tuple[str, str, str]:
    instance, rows = report.read.instance, report.read.measurements
    cells = [cell for cell in instance.cells if not cell.excluded]
    grid, spent = grid_cost_gpu_s(instance, cells, measured_starts_s(report.read.path)), report.sieve.spent_gpu_s
    parts = [
        f"GPU-seconds, {100.0 * spent / grid:.0f}{PER_CENT} of measuring every cell once ({grid:,.0f})"
        if grid > 0.0
        else "GPU-seconds"
    ]
    if lost := sum(lost_gpu_s(instance, rows).values()):
        parts.append(f"{lost:,.0f} of it on measurements that failed")
    if len(rows) > len({row.key for row in rows}):
        parts.append("some cells were measured more than once")
    return "Spent on measuring", f"{spent:,.0f}", "; ".join(parts)

"""How much room a plan leaves, and what fewer and more GPUs would do: all computed from what is known today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fleetsieve_models.problem import FleetProblem

from fleetsieve.allocation import TIE
from fleetsieve.answers.diagnosis.cells import limit_name
from fleetsieve.answers.sensitivity import GpusAxis
from fleetsieve.answers.shortage import shortage_of
from fleetsieve.answers.what_if import with_floors, with_gpus
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.certificate import Certificate, Verdict, certify
from fleetsieve.certificate.floors import out_of_reach
from fleetsieve.certificate.sentence import listed
from fleetsieve.engines.choosing import engine_for, engine_of
from fleetsieve.engines.frontier import counting_places_all
from fleetsieve.engines.solving import optimise_fewest_gpus
from fleetsieve.errors import SolveFailed
from fleetsieve.files import Folder
from fleetsieve.instance import TAIL_METRICS, CellKey, Instance
from fleetsieve.report.rounding import rate, share

NARROW = 0.05
"""A p99 closer to its limit than this share of the limit is named at the top of the page."""

FEWER = 0.25
"""The share of the GPUs that is taken away where the fleet states no nodes."""


@dataclass(frozen=True)
class Margin:
    """How far below its limit a p99 of the plan stays, as a share of the limit; 0 is at the limit.

    `exact`: the tail is taken as a value, not as the upper end of an interval.
    """

    class_name: str
    metric: str
    tail_s: float
    limit_s: float
    exact: bool

    @property
    def share(self) -> float:
        """1 - tail / limit."""
        return 1.0 - self.tail_s / self.limit_s


def margins(certificate: Certificate) -> list[Margin]:
    """The margins of the plan's cells, the narrowest first."""
    margins_found = []
    for key in certificate.conservative.replica_counts:
        if not isinstance(key, CellKey):
            continue
        slo = certificate.envelope.instance.class_by_name[key.class_name].slo
        for metric in TAIL_METRICS:
            limit = slo.limit_s(metric)
            if limit is not None and limit > 0.0:
                tail = certificate.envelope[key].tails_s[metric]
                margins_found.append(Margin(key.class_name, limit_name(metric), tail.hi, limit, tail.is_point))
    return sorted(margins_found, key=lambda margin: margin.share)


def utilisations(certificate: Certificate) -> Mapping[str, float]:
    """For each class that the plan serves, what it serves of what its replicas sustained when measured."""
    limit = certificate.envelope.instance.fleet.max_utilisation
    return {
        class_plan.class_name: class_plan.utilisation * limit
        for class_plan in certificate.conservative.classes
        if class_plan.replicas
    }


def room(certificate: Certificate) -> list[str]:
    """How close to its limits the plan runs, in sentences; none where nothing is planned."""
    sentences = []
    if used := utilisations(certificate):
        full = [name for name, value in used.items() if value >= 1.0 - TIE]
        if full:
            sentences.append(
                f"No spare capacity: the replicas of {listed(full, 5)} serve all that they sustained when measured."
            )
        else:
            name = max(used, key=lambda name: used[name])
            sentences.append(
                f"The fullest replicas are those of {name}: {share(used[name], lower=False)} of what they sustained."
            )
    if narrow := margins(certificate):
        least = narrow[0]
        often = "another run may exceed it" if least.exact else "that is its upper bound"
        warning = f", under {100.0 * NARROW:g} %: {often}" if least.share < NARROW else ""
        tail = f"{'' if least.exact else 'at most '}{least.tail_s:.4g} s"
        sentences.append(
            f"The narrowest latency margin is {least.class_name}'s {least.metric}: {tail} of {least.limit_s:g} s, "
            f"{share(max(0.0, least.share))} below the limit{warning}."
        )
    return sentences


def fewer_gpus(instance: Instance) -> int | None:
    """The GPUs with one node fewer, or a quarter fewer where there is but one, or none; None where nothing is left, or of pools."""
    if len(instance.fleet.pools) != 1:
        return None
    pool = instance.fleet.pools[0]
    left = pool.gpus - (pool.gpus_per_node or pool.gpus)
    left = left if left > 0 else pool.gpus - max(1, round(FEWER * pool.gpus))
    return left if left > 0 else None


def with_fewer(read: Folder) -> str:
    """What today's measurements guarantee on a node (or a quarter) fewer GPUs; "" where nothing is known."""
    left = fewer_gpus(read.instance)
    if left is None:
        return ""
    envelope = Envelope.of(with_gpus(read.instance, left), read.measurements)
    try:
        c = certify(envelope, engine_of(envelope))
    except SolveFailed:
        return ""
    node = read.instance.fleet.gpus - left == read.instance.fleet.pools[0].gpus_per_node
    what = f"With one node fewer ({left} GPUs)" if node else f"With a quarter fewer GPUs ({left})"
    if c.verdict is Verdict.INFEASIBLE:
        return f"{what} a floor could not be met."
    total = f"{rate(c.conservative.goodput_rps)} of {c.conservative.problem.total_demand_rps:g} requests/s"
    return f"{what} the plan would serve {total} ({by_class(c)})."


def by_class(certificate: Certificate, limit: int = 6) -> str:
    """The share of its demand that each class is sure to get: "chat 94.1 %, code 100 %"."""
    parts = [
        f"{class_plan.class_name} {share(class_plan.fulfilment)}"
        for class_plan in certificate.conservative.classes
        if class_plan.demand_rps > 0.0
    ]
    more = f" and {len(parts) - limit} more" if len(parts) > limit else ""
    return ", ".join(parts[:limit]) + more


def to_serve_all(certificate: Certificate) -> list[str]:
    """The fewest GPUs that serve every class in full: by measured cells, and at least, whatever is still measured.

    [] where the plan serves all; a class that no cell can serve is left out, and the sentence names it.
    """
    c = certificate
    plan = c.conservative
    if plan.problem.total_demand_rps <= 0.0 or all(class_plan.fulfilment >= 1.0 - TIE for class_plan in plan.classes):
        return []
    enough, least = _on_whole_fleets(c.envelope, _fewest(c.envelope.conservative)), _fewest(c.envelope.optimistic)
    what = f"all demand except that of {listed(c.unservable, 3)}" if c.unservable else "all demand"
    sentences = []
    if enough is not None:
        no_fewer = ", and no fewer can" if least == enough else ""
        on = _on_pools(c.envelope.conservative)
        sentences.append(f"{enough} GPUs{on} meet {what} with the cells measured so far{no_fewer}.")
    elif least is not None:
        sentences.append(f"How many GPUs meet {what} is not known yet from the cells measured so far.")
    if least is not None and least != enough:
        sentences.append(f"At least {least} GPUs are needed for that in any case.")
    return sentences


def _on_pools(problem: FleetProblem) -> str:
    """Where the fewest GPUs stand, in a fleet of several pools."""
    if len(problem.pools) == 1:
        return ""
    need = optimise_fewest_gpus(problem)
    return f" ({', '.join(f'{count} on {pool}' for pool, count in need.gpus.items() if count)})"


def _on_whole_fleets(envelope: Envelope, gpus: int | None) -> int | None:
    """The least number from `gpus` on at which a fleet of so many GPUs serves all: its last node may have less than the others.

    None where there is none up to a whole node more; with several pools, where each has its own number, `gpus` as it is.
    """
    pools = envelope.instance.fleet.pools
    if gpus is None or len(pools) != 1 or counting_places_all(envelope.conservative):
        return gpus
    for count in range(gpus, gpus + (pools[0].gpus_per_node or 1)):
        problem = GpusAxis(count, count).at(envelope, count).conservative
        plan = engine_for(problem).optimise(problem).allocation
        counted = zip(problem.classes, plan.classes, strict=True) if plan is not None else ()
        if plan is not None and all(
            class_plan.fulfilment >= 1.0 - TIE for demand, class_plan in counted if demand.in_minimum
        ):
            return count
    return None


def largest_floors(certificate: Certificate) -> list[str]:
    """How far all floors would have to fall together so that the bounds rule them out no more, to 0.1 % of them.

    Both neighbouring shares are tried: at the lower one the best of the bounds keeps every floor, at the higher one it does not.
    """
    instance = certificate.envelope.instance
    floors = {w.name: w.floor_rps for w in instance.classes if w.floor_rps is not None and w.demand_rps > 0.0}

    def kept(thousandths: int) -> bool:
        envelope = certificate.envelope
        lower = with_floors(instance, {name: floor * thousandths / 1000.0 for name, floor in floors.items()})
        views = {w.name: replace(envelope.classes[w.name].view, workload=w) for w in lower.classes}
        classes = {name: replace(envelope.classes[name], view=view) for name, view in views.items()}
        problem = replace(envelope, instance=lower, classes=classes).optimistic
        engine = engine_for(problem)
        found = engine.optimise(problem, ("shortfall",))
        least = found.bounds.get("shortfall")
        return least is not None and not out_of_reach(problem, least, found.allocation, engine)

    low, high = 0, 1000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    if low == 0:
        return []
    some = listed([f"{name} {rate(floor * low / 1000.0)}" for name, floor in floors.items()], 6)
    return [f"Floors of {low / 10:g} % of these ({some} requests/s) are not ruled out, floors of {high / 10:g} % are."]


def _fewest(problem: FleetProblem) -> int | None:
    """The fewest GPUs of all pools together that serve all demand; None where no number does, or it was not proven."""
    try:
        need = optimise_fewest_gpus(problem)
    except SolveFailed:
        return None
    return sum(need.gpus.values()) if need.optimum.allocation is not None and need.optimum.proven else None


def why_short(certificate: Certificate) -> list[str]:
    """What a certified-infeasible fleet lacks at least, in sentences; [] for every other verdict."""
    if certificate.verdict is not Verdict.INFEASIBLE:
        return []
    try:
        shortage, exact = shortage_of(certificate)
    except SolveFailed:
        return []
    fleet, sentences = certificate.envelope.instance.fleet, []
    if shortage.unservable:
        have = "has" if len(shortage.unservable) == 1 else "have"
        sentences.append(
            f"{listed(shortage.unservable)} {have} no configuration that meets the SLO, on any number of GPUs."
        )
    for pool, count in shortage.gpus.items():
        where = f" on {pool}" if len(fleet.pools) > 1 else ""
        gpus = fleet.pool(pool).gpus
        more = f"{'' if exact else ' at least'} {count} GPU{'s' if count > 1 else ''} more{where}: {gpus + count} not {gpus}."
        sentences.append(f"The floors need{more}{'' if exact else ' Measuring may show that more are needed.'}")
    sentences += largest_floors(certificate) if not shortage.unservable else []
    if shortage.lacking_rps:
        lacks = [f"{name} {rate(value)}" for name, value in shortage.lacking_rps.items()]
        under = "" if exact else " under the best of the bounds"
        sentences.append(
            f"On today's GPUs, the plan with the smallest shortage{under} lacks {listed(lacks)} requests/s."
        )
    return sentences

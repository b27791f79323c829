"""Why critical floors cannot be met, in one sentence with numbers."""

from __future__ import annotations

import math

from fleetsieve_models.problem import FleetProblem

from fleetsieve.allocation import Shortage, tolerance
from fleetsieve.certificate import Certificate, Verdict
from fleetsieve.certificate.sentence import listed
from fleetsieve.engines.choosing import least_shortage
from fleetsieve.interval import lower_text


def explain(problem: FleetProblem) -> str:
    """Why the floors of the most optimistic realisation are missed: classes without a configuration, GPUs, requests/s.

    Takes the optimistic problem. Gives, for instance, "short by 3 GPUs; code lacks 2.1 requests/s": the GPUs to add so
    that every floor can be met, and what critical classes lack at least with the GPUs there are (rounded down, so that
    it stays true). A class that no number of GPUs helps is named first.

    Raises:
        SolverMissing: when the frontier does not know it, and HiGHS is absent, too old or fails its self-test.
        SolveFailed: when the question was not solved to optimality.
    """
    return sentence(least_shortage(problem), several_pools=len(problem.pools) > 1)


def why_infeasible(certificate: Certificate) -> str:
    """`explain` for a certified-infeasible verdict; "" for every other.

    Where bounds take the place of measurements the sentence states it: the GPUs are the fewest then, and who lacks what is that
    of one plan.

    Raises:
        SolverMissing, SolveFailed: as `explain`.
    """
    if certificate.verdict is not Verdict.INFEASIBLE:
        return ""
    shortage, exact = shortage_of(certificate)
    text = sentence(shortage, several_pools=len(certificate.envelope.optimistic.pools) > 1)
    return (
        text
        if exact
        else f"{text} (at the best bounds of what is not measured; measurements may show that more is missing)"
    )


def shortage_of(certificate: Certificate) -> tuple[Shortage, bool]:
    """What a fleet lacks at least, and whether that is exact: measured cells alone leave the same shortage.

    Raises:
        SolverMissing, SolveFailed: as `explain`.
    """
    least = least_shortage(certificate.envelope.optimistic)
    return least, least == least_shortage(certificate.envelope.conservative)


def sentence(shortage: Shortage, *, several_pools: bool = False) -> str:
    """A shortage in words; pools are named where there are several.

    >>> sentence(Shortage({"default": 3}, {"code": 2.15}, ()))
    'short by 3 GPUs; code lacks 2.1 requests/s'
    >>> sentence(Shortage({}, {}, ("chat",)))
    'chat has no configuration that meets its SLO'
    """
    parts = []
    if len(shortage.unservable) == 1:
        parts.append(f"{shortage.unservable[0]} has no configuration that meets its SLO")
    elif shortage.unservable:
        parts.append(f"{listed(shortage.unservable)} have no configuration that meets their SLOs")
    if shortage.gpus:
        counts = [
            f"{count} GPU{'s' if count != 1 else ''}{f' on {pool}' if several_pools else ''}"
            for pool, count in shortage.gpus.items()
        ]
        parts.append(f"short by {listed(counts)}")
    if shortage.lacking_rps:
        lacks = [f"{name} lacks {_rate(rate)} requests/s" for name, rate in shortage.lacking_rps.items()]
        parts.append(listed(lacks))
    return "; ".join(parts) or "every critical floor can be met"


def _rate(rate_rps: float) -> str:
    """A rate rounded down to two significant digits or one decimal, whichever has more digits."""
    known = rate_rps + tolerance(rate_rps)
    return lower_text(known, max(1, 1 - math.floor(math.log10(known))))

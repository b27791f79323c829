"""From how many GPUs on no further one changes anything.

A plan uses one step of each class's curve (`frontier.curves`). Where the last steps of all classes fit together, the fleet's size
binds no plan: on more GPUs the steps are the same, so the decision is. The curves of the largest fleet hold those of every smaller
one, and whether counting GPUs places replicas does not depend on the fleet's size once the largest replica fits.
"""

from __future__ import annotations

from fleetsieve.answers.sensitivity.given import GivenPlan
from fleetsieve.answers.sensitivity.stretches import Span, whole_spans
from fleetsieve.bounds.envelope import Envelope
from fleetsieve.engines.frontier import Frontier, problem_curves


def gpus_spans(lo: int, hi: int, largest: Envelope, given: GivenPlan | None = None) -> list[Span]:
    """One span for each number of GPUs from `lo` to `hi` at which the decision may differ, the last one up to `hi`.

    `largest` is the envelope on `hi` GPUs, `given` the plan that is held against the fleet, if any.
    """
    enough = gpus_enough(largest, given)
    if enough is None or enough >= hi:
        return whole_spans(lo, hi)
    first = max(lo, enough)
    return [*whole_spans(lo, first - 1), Span(first, hi, True, True, first)]


def gpus_enough(largest: Envelope, given: GivenPlan | None = None) -> int | None:
    """The GPUs from which on up to those of `largest` the decision is one; None where the MILP decides."""
    problems = (largest.conservative, largest.optimistic)
    if not all(Frontier.accepts(problem) for problem in problems):
        return None
    needs = [0]
    for problem in problems:
        needs += [q.gpus for configurations in problem.configurations_of.values() for q in configurations]
        needs.append(sum(int(c.gpus[-1]) for c in problem_curves(problem)))
    if given is not None:
        needs.append(sum(largest[key].cell.gpus * count for key, count in given.counts.items()))
    return max(needs)

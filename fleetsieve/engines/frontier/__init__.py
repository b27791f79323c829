"""The fast exact evaluator: the lexicographic fleet decision without a solver.

For each class, what k GPUs can serve at most is a step function of k (the class's frontier). On these steps
 - the least shortfall is 0 when the GPUs that the floors need fit, else a knapsack over GPUs;
 - the greatest min fulfilment is a search over the break points of the steps, since what a fulfilment r needs is the first
   step that reaches r, class by class;
 - the greatest goodput is a knapsack over GPUs on the steps that reach m* - η, and the later stages ride along as the
   tie-breaks of that knapsack. A shortfall limit that is neither 0 nor the least possible is a side constraint: then
   Pareto labels (GPUs, shortfall, goodput) take the knapsack's place.

A step that uses more GPUs and serves no more is in no lexicographic optimum (fewest GPUs comes before every later stage),
so the strictly rising steps are enough for all stages.

It accepts one GPU pool where counting GPUs is enough to place replicas; everything else is the MILP's. Results are equal to the
MILP's in all stages: a property test compares them on thousands of random instances.
"""

from fleetsieve.engines.frontier.curves import Curve, curve, problem_curves
from fleetsieve.engines.frontier.engine import Frontier
from fleetsieve.engines.frontier.shortage import counting_places_all, frontier_shortage, knows_shortage
from fleetsieve.engines.frontier.values import greatest_goodput, greatest_min_fulfilment, least_shortfall

__all__ = [
    "Curve",
    "Frontier",
    "counting_places_all",
    "curve",
    "frontier_shortage",
    "greatest_goodput",
    "greatest_min_fulfilment",
    "knows_shortage",
    "least_shortfall",
    "problem_curves",
]

"""The fleet decision solved: the only package that touches Pyomo's solver interface and HiGHS."""

from fleetsieve.engines.solving.highs import highs_version, ready, self_test, threads_in_use
from fleetsieve.engines.solving.milp import Milp
from fleetsieve.engines.solving.requirements import Need, optimise_fewest_gpus, optimise_shortage

__all__ = [
    "Milp",
    "Need",
    "highs_version",
    "optimise_fewest_gpus",
    "optimise_shortage",
    "ready",
    "self_test",
    "threads_in_use",
]

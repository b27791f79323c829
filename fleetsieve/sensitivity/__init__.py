"""How the decision moves with an SLO threshold, the demand, ε or the number of GPUs: break points computed, not sampled."""

from fleetsieve.sensitivity.axes import METRICS, Axis, DemandAxis, EpsilonAxis, GpusAxis, SloAxis
from fleetsieve.sensitivity.deciding import BROKEN, Decider, Decision
from fleetsieve.sensitivity.given import GivenPlan, read_given
from fleetsieve.sensitivity.stretches import Span, Stretch
from fleetsieve.sensitivity.study import Map, Region, Study, study, study_two

__all__ = [
    "BROKEN",
    "METRICS",
    "Axis",
    "Decider",
    "Decision",
    "DemandAxis",
    "EpsilonAxis",
    "GivenPlan",
    "GpusAxis",
    "Map",
    "Region",
    "SloAxis",
    "Span",
    "Stretch",
    "Study",
    "read_given",
    "study",
    "study_two",
]

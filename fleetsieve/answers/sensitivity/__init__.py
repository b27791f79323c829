"""How the decision moves with an SLO threshold, the demand, ε or the number of GPUs: break points computed, not sampled.

>>> from fleetsieve.files import read_instance
>>> read = read_instance("sim-chat-code-16gpu")
>>> found = study(read.instance, read.measurements, SloAxis("chat", "e2e_p99_s", 10.0, 60.0))
>>> [round(at, 2) for at in found.breaks]
[11.55, 14.15, 19.9, 25.16, 50.69]
>>> found.stretch_at(30.0).first.goodput_rps
32.0
"""

from fleetsieve.answers.sensitivity.axes import METRICS, Axis, DemandAxis, EpsilonAxis, GpusAxis, SloAxis
from fleetsieve.answers.sensitivity.deciding import BROKEN, Decider, Decision
from fleetsieve.answers.sensitivity.given import GivenPlan, read_given
from fleetsieve.answers.sensitivity.stretches import Span, Stretch
from fleetsieve.answers.sensitivity.study import Map, Region, Study, study, study_two

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

"""Whether this machine can do what it is asked for. Nothing is changed, and nothing that is found raises."""

from fleetsieve.doctor.check import Check
from fleetsieve.doctor.live import examine_live
from fleetsieve.doctor.solving import examine

__all__ = ["Check", "examine", "examine_live"]

"""Figures of a decision: functions that take a certificate (or the history of a run) and give an altair chart.

Nothing heavy is imported before the first figure is drawn; it needs the extra `plots` (altair, vl-convert).

>>> from fleetsieve import figures
>>> from fleetsieve.certificate import certify
>>> from fleetsieve.bounds.envelope import Envelope
>>> from fleetsieve.files import read_instance
>>> from fleetsieve.engines.frontier import Frontier
>>> read = read_instance("paper-h100-31b")
>>> certificate = certify(Envelope.of(read.instance, read.measurements), Frontier())
>>> chart = figures.capacity(certificate)  # an altair chart: a notebook shows it, `chart.save` writes it
>>> chart.to_dict()["height"]
240
"""

from fleetsieve.figures.allocation import allocation
from fleetsieve.figures.capacity import capacity
from fleetsieve.figures.demand import demand
from fleetsieve.figures.gap import gap
from fleetsieve.figures.grid import grid
from fleetsieve.figures.ladder import ladder, tails
from fleetsieve.figures.palette import DARK, LIGHT, PAGE, Palette
from fleetsieve.figures.served import served
from fleetsieve.figures.writing import FORMATS, check_path, write_figure

__all__ = [
    "DARK",
    "FORMATS",
    "LIGHT",
    "PAGE",
    "Palette",
    "allocation",
    "capacity",
    "check_path",
    "demand",
    "gap",
    "grid",
    "ladder",
    "served",
    "tails",
    "write_figure",
]

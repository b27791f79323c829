"""Probes: what makes a measurement. One protocol; each engine or table behind it is one file."""

from fleetsieve.probes.protocol import Probe, SideBySide
from fleetsieve.probes.replay import Replay

__all__ = ["Probe", "Replay", "SideBySide"]

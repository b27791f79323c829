"""What the loop asks of a probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fleetsieve.instance import CellKey, Measurement


class Probe(Protocol):
    """Measures cells."""

    @property
    def looks(self) -> Mapping[CellKey, int] | None:
        """How often each cell can be measured; a cell that is absent cannot be. None: as often as one likes."""
        ...

    def measure(self, key: CellKey, look: int) -> Measurement:
        """The `look`-th measurement of a cell, from 0. A failure is a result: it comes back with its status."""
        ...


class SideBySide(Probe, Protocol):
    """Measures several cells at once, each in a thread of its own."""

    @property
    def most(self) -> int:
        """How many at once."""
        ...

    def fits(self, keys: Sequence[CellKey]) -> bool:
        """Whether these cells can be measured at once."""
        ...

    def cancel(self) -> None:
        """End the measurements under way, in whatever thread; their `measure` raises."""
        ...

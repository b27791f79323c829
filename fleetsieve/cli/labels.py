"""What to call several folders in one output: by the name of the instance, and by as much of the path as distinguishes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fleetsieve.errors import UsageError


def distinct(names: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """One label a folder, no two alike: its name in `names` where no other has it, else the end of its path that no other has.

    >>> distinct(["grid", "grid", "other"], [Path("/data/x/grid"), Path("/data/y/grid"), Path("/data/z")])
    ['x/grid', 'y/grid', 'other']

    Raises:
        UsageError: when one folder is given twice: nothing distinguishes it from itself.
    """
    places = [folder.resolve() for folder in folders]
    for place, count in Counter(places).items():
        if count > 1:
            raise UsageError(f"{folders[places.index(place)]} is given {count} times", "name each folder once")
    steps = [0] * len(names)
    while True:
        labels = [_label(*one) for one in zip(names, places, steps, strict=True)]
        counts = Counter(labels)
        shared = [number for number, label in enumerate(labels) if counts[label] > 1]
        if not shared:
            return labels
        for number in shared:
            steps[number] += 1


def _label(name: str, place: Path, step: int) -> str:
    """The name, or the last `step` parts of the path; the whole path where it has no more of them."""
    return name if step == 0 else "/".join(place.parts[-step:]) if step < len(place.parts) else str(place)

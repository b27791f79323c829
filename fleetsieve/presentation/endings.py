"""Why a run ended without a verdict, in one sentence that is true of that ending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fleetsieve.bounds.standing import candidates
from fleetsieve.certificate.sentence import listed
from fleetsieve.instance import CellKey
from fleetsieve.loop.sieve import Sieve

MAX_NAMES = 3
"""Cells that are named; of the others their number is given."""


def ending(sieve: Sieve, *, live: bool) -> str:
    """Why a finished run asks for nothing more, and what would help; "" where its verdict is reached."""
    if sieve.stopped is not None:
        return sieve.stopped.sentence
    if not sieve.certificate.blocking:
        return ""
    taken, looks = Counter(row.key for row in sieve.measurements), sieve.looks
    open_keys = candidates(sieve.envelope)
    left = [key for key in open_keys if looks is None or taken[key] < looks.get(key, 0)]
    if left:
        return _futile(sieve, left)
    unmeasured = [key for key in open_keys if not taken[key]]
    used = [key for key in open_keys if taken[key]]
    failed = _failed(sieve, open_keys)
    why, help_ = [], []
    if unmeasured:
        why.append(f"{'no server can measure' if live else 'the table has no row for'} {_named(unmeasured)}")
        help_.append("measure " + _them(unmeasured))
    if used:
        why.append(
            f"{_named(used)} {'was' if len(used) == 1 else 'were'} measured as often as max_looks allows"
            if live
            else f"the table has no further row for {_named(used)}"
        )
        help_.append("give cells a longer window or more repeats" if live else f"measure {_them(used)} again")
    if failed:
        why.append(f"{_named(failed)} failed and {'is' if len(failed) == 1 else 'are'} not tried again")
        help_.append("fix the cause and measure again, or exclude " + _them(failed))
    if stuck := [key for key in _stuck(sieve, open_keys) if key not in failed]:
        why.append(f"{_named(stuck)} may or may not meet the SLO, and another measurement cannot decide that")
        help_.append(f"exclude {_them(stuck)}")
    why = why or ["no cell is left that a measurement could resolve"]
    help_ = [*dict.fromkeys(help_), "or relax an SLO or the demand"] if help_ else ["relax an SLO or the demand"]
    return f"no further measurement can settle the verdict: {'; '.join(why)}; {', '.join(help_)}"


def _futile(sieve: Sieve, left: list[CellKey]) -> str:
    """Where cells are left, and none of them can help."""
    stuck = _stuck(sieve, left)
    cells = "the cell that is left" if len(left) == 1 else f"any of the {len(left)} cells that are left"
    return (
        f"no further measurement can settle the verdict, not even one of {cells}: {_named(stuck)} may or may not meet the SLO and "
        f"cannot be measured again; measure {_them(stuck)} for longer, exclude {_them(stuck)}, or relax an SLO or the demand"
    )


def _stuck(sieve: Sieve, asked: Collection[CellKey]) -> list[CellKey]:
    """Measured cells that may meet their SLO or not, and are not among those `asked` for."""
    return [
        key
        for class_envelope in sieve.envelope.classes.values()
        for key, b in class_envelope.bounds.items()
        if b.possible and not b.committable and not b.cell.excluded and b.measured and key not in asked
    ]


def _failed(sieve: Sieve, open_keys: Collection[CellKey]) -> list[CellKey]:
    """Cells that failed, may work all the same, and are not tried again."""
    return [
        key
        for class_envelope in sieve.envelope.classes.values()
        for key, b in class_envelope.bounds.items()
        if b.possible and not b.cell.excluded and key not in open_keys
        if (known := class_envelope.view.known.get(key)) is not None and known.failed
    ]


def _named(keys: list[CellKey]) -> str:
    return listed([str(key) for key in keys], MAX_NAMES)


def _them(keys: list[CellKey]) -> str:
    return "it" if len(keys) == 1 else "them"

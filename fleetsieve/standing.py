"""Whether a run may ask for a cell, and why (not): the loop asks by it, and an account prints it."""

from __future__ import annotations

from enum import StrEnum


class Standing(StrEnum):
    """Why a run may ask for a cell (`asks`), or why it does not.

    The bounds of the cell decide the first ten; what else there is to measure, and the verdict, the last five.
    """

    NEW = "it was not measured yet"
    RETRY = "its last measurement failed, and may not fail again"
    LACKING = "its rows lack a value that a decision needs"
    STRADDLES = "its bounds straddle the SLO, and another measurement narrows them"
    WIDE = "another measurement narrows what it promises"
    UNUSABLE = (
        "no plan may use it: excluded, closed, ruled out, too large for a node, or of a class that demands nothing"
    )
    GIVEN_UP = "it failed as often as a run tries"
    LOOKS_USED = "it was measured as often as max_looks allows"
    SETTLED = "another measurement would say no more of it"
    NO_ROW = "the run cannot measure it"
    ROWS_USED = "the run has no further row of it"
    SET_ASIDE = "neither plan uses it, and something else is left to measure"
    FUTILE = "the verdict stays undecided even if all that is left turns out as good, or as bad, as its bounds allow"
    DECIDED = "the verdict is reached"

    @property
    def asks(self) -> bool:
        """Whether a run may ask for the cell."""
        return self in _ASKS

    @property
    def may_commit(self) -> bool:
        """Whether the measurement may make the cell one that a plan can commit, which it is not now."""
        return self in _ASKS and self is not Standing.WIDE


_ASKS = frozenset({Standing.NEW, Standing.RETRY, Standing.LACKING, Standing.STRADDLES, Standing.WIDE})

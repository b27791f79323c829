"""Whether the servers of a run can start at all: a fault of the configuration is no evidence about a cell, and ends the run."""

from __future__ import annotations

import threading

from fleetsieve.errors import EngineMissing, FleetSieveError, UsageError
from fleetsieve.serving.failures import About, Failure, words

SHOWN_LINES = 5
"""Last lines of a log that stand in a message."""


class Starts:
    """What the starts of a run came to. `ever_ready` says whether a server of it has been ready before.

    Servers that end at their start with words that nobody knows may be flakes. Where none has ever been ready, the same words
    again are not: they have nothing to do with the cell.
    """

    def __init__(self, *, ever_ready: bool = False) -> None:
        self._ever_ready = ever_ready
        self._heard: set[str] = set()
        self._changing = threading.Lock()

    def ready(self) -> None:
        """A server was ready."""
        self._ever_ready = True

    def refuse(self, tp: int, failure: Failure, way_on: str) -> None:
        """Refuse to go on where the failed start of a server with `tp` was no matter of its cell; `way_on` is what goes on.

        Raises:
            UsageError: when the configuration is at fault: nothing of it may be stored as evidence.
            EngineMissing: when the command cannot be run.
        """
        if failure.about is About.CELL:
            return
        if failure.about is not About.UNKNOWN:
            raise self._refusal(tp, failure, f"the server of TP {tp} cannot be measured: {failure.reason}", way_on)
        with self._changing:
            heard = words(failure)
            again = heard in self._heard
            self._heard.add(heard)
        if again and not self._ever_ready:
            told = f"no server has started, and that of TP {tp} failed as one before: {failure.reason}"
            raise self._refusal(tp, failure, told, way_on)

    def _refusal(self, tp: int, failure: Failure, told: str, way_on: str) -> FleetSieveError:
        lines = failure.last_lines[-SHOWN_LINES:]
        if failure.log:
            told += f"\n  its log is {failure.log}" + ("; its last lines:" if lines else ", which is empty")
        told += "".join(f"\n    {line}" for line in lines)
        hint = f"mend serve.toml{'' if failure.log else ' or that server'}, then go on with: {way_on}"
        if self._ever_ready:
            hint += f"; or, where TP {tp} alone cannot start, start a new run with its cells excluded in cells.csv"
        return (EngineMissing if failure.about is About.COMMAND else UsageError)(told, hint)

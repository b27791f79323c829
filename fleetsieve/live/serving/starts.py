"""Whether the servers of a run can start at all: an error of the configuration is no evidence about a cell, and ends the run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fleetsieve.errors import EngineMissing, FleetSieveError, UsageError
from fleetsieve.keys import ServerKey
from fleetsieve.live.serving.failures import About, Failure
from fleetsieve.live.serving.replica import Replica

SHOWN_LINES = 5
"""Last lines of a log that stand in a message."""


class Starts:
    """What the starts of a run came to. `ever_ready` states whether a server of it has been ready before.

    A server that ends at its start for a reason that nobody knows may be a flake. As long as none has ever been ready, it states
    nothing of its cell: it is tried once more, and the second such failure, of whatever TP, ends the run. `tell` is called with
    what a person should know.
    """

    def __init__(self, *, ever_ready: bool = False, tell: Callable[[str], None] = lambda _: None) -> None:
        self._ever_ready, self._tell = ever_ready, tell
        self._first: tuple[ServerKey, Failure] | None = None
        self._changing = threading.Lock()

    def started(self, server: ServerKey, start: Callable[[], Replica | Failure], way_on: str) -> Replica | Failure:
        """The `server` that `start` gives, or a failure that is evidence about its cell; `way_on` is what continues.

        Raises:
            UsageError: when the configuration is at error, or as good as certain to be: nothing of it may be stored as evidence.
            EngineMissing: when the command cannot be run.
        """
        while True:
            replica = start()
            if not isinstance(replica, Failure):
                self._ever_ready = True
                return replica
            if not self._again(server, replica, way_on):
                return replica

    def _again(self, server: ServerKey, failure: Failure, way_on: str) -> bool:
        """Whether a failed start is made once more; refused where it shows nothing about its cell and another would not help."""
        if failure.about is About.CELL:
            return False
        if failure.about is not About.UNKNOWN:
            said = f"the server of TP {server.degree} cannot be measured: {failure.reason}{_log(failure)}"
            raise self._refusal(said, [(server, failure)], way_on)
        with self._changing:
            if self._ever_ready:
                return False
            first, self._first = self._first, (server, failure)
        if first is None:
            self._tell(
                f"the server of TP {server.degree} did not start, and none has yet: {failure.reason}; one more start is tried"
            )
            return True
        both = [first, (server, failure)]
        said = "no server has started, and two starts failed:"
        said += "".join(f"\n  that of TP {tried.degree}: {one.reason}{_log(one)}" for tried, one in both)
        raise self._refusal(said, both, way_on)

    def _refusal(self, said: str, failed: list[tuple[ServerKey, Failure]], way_on: str) -> FleetSieveError:
        names = sorted({server.degree for server, _ in failed})
        logged = all(failure.log for _, failure in failed)
        hint = f"fix serve.toml{'' if logged else ' or that server'}, then continue with: {way_on}"
        if len(names) == 1 and (self._ever_ready or len(failed) > 1):
            hint += (
                f"; or, where TP {names[0]} alone cannot start, start a new run with its cells excluded in cells.csv"
            )
        missing = any(failure.about is About.COMMAND for _, failure in failed)
        return (EngineMissing if missing else UsageError)(said, hint)


def _log(failure: Failure) -> str:
    """Where the log of a failed start lies, and its last lines."""
    lines = failure.last_lines[-SHOWN_LINES:]
    where = (
        f"\n  its log is {failure.log}" + ("; its last lines:" if lines else ", which is empty") if failure.log else ""
    )
    return where + "".join(f"\n    {line}" for line in lines)

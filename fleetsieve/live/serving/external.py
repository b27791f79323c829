"""A server that somebody else runs: measured, never started and never stopped."""

from __future__ import annotations

import time
from collections.abc import Callable

from fleetsieve.instance import Status
from fleetsieve.keys import DEFAULT_VARIANT
from fleetsieve.live.serving.config import PREFIX_CACHE
from fleetsieve.live.serving.endpoint import Endpoint
from fleetsieve.live.serving.failures import About, Failure
from fleetsieve.live.serving.metrics import Scrape
from fleetsieve.live.serving.replica import Stopped

_POLL_S = 0.2


class ExternalServer:
    """The server at `endpoint`, which is stated to have `tp`. Its GPU-seconds count while it is measured."""

    def __init__(self, endpoint: Endpoint, tp: int, ready_s: float = 10.0, reset: str = PREFIX_CACHE) -> None:
        self.endpoint, self.tp, self.variant = endpoint, tp, DEFAULT_VARIANT
        self._ready_s, self._reset = ready_s, reset
        self._from_s = time.monotonic()
        self._stopped: Stopped | None = None

    @property
    def gpu_s(self) -> float:
        """GPU-seconds since it is used here, until now or `stop`."""
        return ((time.monotonic() if self._stopped is None else self._until_s) - self._from_s) * self.tp

    def wait_ready(self, deadline_s: float | None = None, each: Callable[[], None] = lambda: None) -> Failure | None:
        """Wait until it answers and serves our model; the failure when it does not within `deadline_s`."""
        allowed_s = self._ready_s if deadline_s is None else deadline_s
        until_s = time.monotonic() + allowed_s
        while True:
            each()
            served = self.endpoint.served() if self.endpoint.health() == 200 else None
            if served is not None:
                if self.endpoint.served_name in served:
                    return None
                reason = f"{self.endpoint.url} names {', '.join(served) or 'no model'}, not {self.endpoint.served_name}"
                return Failure(Status.FAILED_START, reason, False, about=About.CONFIGURATION)
            if time.monotonic() >= until_s:
                return Failure(Status.TIMEOUT, f"{self.endpoint.url} does not answer within {allowed_s:g} s", True)
            time.sleep(_POLL_S)

    def reset_cache(self) -> str | None:
        """Empty the prefix cache, where its development mode allows that; why it could not."""
        return self.endpoint.reset_cache() if self._reset == PREFIX_CACHE else None

    def scrape(self) -> Scrape | None:
        """What its /metrics reports now."""
        return self.endpoint.scrape()

    def alive(self) -> bool:
        """True: its processes are somebody else's."""
        return True

    def failure(self) -> Failure | None:
        """A failure when it reports that it is unhealthy, or does not answer."""
        status = self.endpoint.health()
        if status == 200:
            return None
        return Failure(Status.CRASHED, f"{self.endpoint.url} answers /health with {status or 'nothing'}", True)

    def stop(self, stop_s: float | None = None) -> Stopped:
        """Stop counting; the server itself is left as it is."""
        if self._stopped is None:
            self._until_s = time.monotonic()
            self._stopped = Stopped(None, False, (), 0.0)
        return self._stopped

"""What a probe measures: a server of this run, or one that somebody else runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fleetsieve.live.serving.endpoint import Endpoint
from fleetsieve.live.serving.failures import Failure
from fleetsieve.live.serving.metrics import Scrape


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a server ended: its exit code, whether SIGKILL was needed, what would not go, and how long the stop took."""

    exit_code: int | None
    killed: bool
    left: tuple[int, ...]
    stop_s: float


class Replica(Protocol):
    """What a probe measures: started here or not."""

    tp: int
    variant: str
    endpoint: Endpoint

    @property
    def gpu_s(self) -> float:
        """The GPU-seconds so far: until now, or until the last process was gone."""
        ...

    def wait_ready(self, deadline_s: float | None = None, each: Callable[[], None] = lambda: None) -> Failure | None:
        """Wait until it can be measured; the failure when it never can. `each` is called at every look at it."""
        ...

    def reset_cache(self) -> str | None:
        """Empty the prefix cache; why it could not, None when it is empty or serve.toml asks for none."""
        ...

    def scrape(self) -> Scrape | None:
        """What its /metrics reports now."""
        ...

    def alive(self) -> bool:
        """Whether there is anything left to measure, as far as is known without asking it; `failure` asks."""
        ...

    def failure(self) -> Failure | None:
        """What has become of it since it was ready: None while it lives."""
        ...

    def stop(self, stop_s: float | None = None) -> Stopped:
        """Stop it, with everything that it started; at once with `stop_s` 0. A second call changes nothing."""
        ...

"""Several measurements at once, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from fleetsieve.instance import Measurement
from fleetsieve.loop.sieve import Experiment, Sieve
from fleetsieve.probes import SideBySide


class Together:
    """Makes as many measurements at once as the probe has room for, and gives them in the order in which they end.

    What is asked while others are under way is asked without their results. It is a context: when an error or an interrupt
    leaves it, the measurements under way are cancelled.
    """

    def __init__(self, probe: SideBySide) -> None:
        self._probe = probe
        self._pool = ThreadPoolExecutor(max_workers=probe.most)
        self._started: dict[Future[Measurement], Experiment] = {}

    def __enter__(self) -> Together:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._probe.cancel()
        self._pool.shutdown()

    def next(self, sieve: Sieve) -> Experiment | None:
        """What the sieve asks beside the measurements under way; None where there is no room for it."""
        if sieve.finished or len(self._started) >= self._probe.most:
            return None
        busy = [experiment.key for experiment in self._started.values()]
        return sieve.ask_beside(busy, lambda key: self._probe.fits([*busy, key]))

    def start(self, experiment: Experiment) -> None:
        """Begin to measure, in a thread of its own."""
        self._started[self._pool.submit(self._probe.measure, experiment.key, experiment.look)] = experiment

    def ended(self) -> Iterator[tuple[Experiment, Measurement]]:
        """Wait until at least one measurement ends, and give those that have, in the order in which they were started."""
        done, _ = wait(self._started, return_when=FIRST_COMPLETED)
        for future in [one for one in self._started if one in done]:
            yield self._started.pop(future), future.result()

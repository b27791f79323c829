"""What one measurement sends: when each request is due and how many tokens it has, the same for the same seed.

A measurement has three parts: the warm-up, which is not measured, the window, and a cool-down that keeps the load up until the last
requests of the window have ended. Moments count from the start of the window.

Open loop: each part holds round(rate x length) requests, so the offered rate is exact. From a trace these are as many
consecutive rows, from a first row that the seed draws, and the gaps between them are scaled to fill the part: the arrival
scale. A trace is cut when it is longer than the measurement and continues from its start when it ends; the gap between its end
and its start is its mean gap. A synthetic shape has Poisson arrivals, given their number.

Closed loop: `concurrency` requests are in flight at all times, each sent when another ends. The warm-up lasts at least until
`concurrency` requests have ended.

Prompts are token ids drawn again for every seed, so that no measurement finds those of another in a prefix cache.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from fleetsieve.errors import UsageError
from fleetsieve.instance import CellKey
from fleetsieve.live.load.traces import Ints, Trace
from fleetsieve.records import Floats

LEAST_TOKEN_S = 0.002
"""No server is expected to answer faster than this per output token: it bounds the requests that a closed loop may need."""

FEW_REQUESTS = 2_000
"""So many are always made: they cost a second, and a mock server may be faster than any real one."""

_ARRIVALS, _PROMPTS = 0, 1


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of requests: uniform from `least` to `most`, or log-normal with the mean `mean` inside these limits.

    `spread` is the coefficient of variation of the log-normal; the mean holds as long as the limits cut little.

    >>> Tokens(100, 100).draw(np.random.default_rng(0), 3).tolist()
    [100, 100, 100]
    """

    least: int | None = None
    most: int | None = None
    mean: float | None = None
    spread: float = 0.5

    def __post_init__(self) -> None:
        least, most = self.least if self.least is not None else 1, self.most if self.most is not None else math.inf
        meant = self.mean is not None or (self.least is not None and self.most is not None)
        if not (
            meant and 1 <= least <= most and least <= (self.mean or least) <= most and 0.0 <= self.spread < math.inf
        ):
            raise UsageError(f"token counts with {self}", "give a mean, or least and most, of at least 1 token")

    @property
    def expected(self) -> float:
        """The mean."""
        return self.mean if self.mean is not None else ((self.least or 1) + (self.most or 1)) / 2.0

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """The tokens of `count` requests."""
        if self.mean is None:
            drawn: Ints = rng.integers(self.least or 1, (self.most or 1) + 1, size=count)
            return drawn
        sigma = math.sqrt(math.log1p(self.spread**2))
        raw = self.mean * np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2.0)
        return np.clip(np.rint(raw), self.least or 1, self.most).astype(np.int64)

    def __str__(self) -> str:
        limits = "" if self.least is None and self.most is None else f"{self.least or 1} to {self.most or 'any'}"
        if self.mean is None:
            return str(self.least) if self.least == self.most else limits
        return f"{self.mean:g}" + (f" ({limits})" if limits else "")


@dataclass(frozen=True, slots=True)
class Shape:
    """Synthetic traffic: tokens in and out, independent of each other."""

    inputs: Tokens
    outputs: Tokens

    @property
    def mean_output_tokens(self) -> float:
        """The mean of the tokens out."""
        return self.outputs.expected

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Ints, Ints]:
        """Tokens in and out of `count` requests."""
        return self.inputs.draw(rng, count), self.outputs.draw(rng, count)

    def __str__(self) -> str:
        return f"{self.inputs} tokens in and {self.outputs} out"


Source = Trace | Shape


@dataclass(frozen=True, eq=False)
class Schedule:
    """Everything that one measurement sends.

    `due_s` has a moment per request, negative in the warm-up and from `window_s` on in the cool-down; None in a closed loop,
    which sends as many of the requests as it needs. `token_ids` are the first id of prompts and the one after the last. In a
    closed loop the window lasts until `min_requests` have been sent in it too, at most `max_window_s`; `sized` states that all of
    its requests are meant to be sent. `origin` states where the requests come from.
    """

    due_s: Floats | None
    input_tokens: Ints
    output_tokens: Ints
    warmup_s: float
    window_s: float
    seed: int
    token_ids: tuple[int, int]
    concurrency: int | None = None
    min_requests: int | None = None
    max_window_s: float | None = None
    origin: str = ""
    sized: bool = False

    def __len__(self) -> int:
        return len(self.input_tokens)

    def prompt(self, request: int) -> list[int]:
        """The token ids of one request's prompt, by its place in the schedule."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_PROMPTS, request)))
        ids: list[int] = rng.integers(*self.token_ids, size=int(self.input_tokens[request])).tolist()
        return ids


def look_seed(seed: int, key: CellKey, look: int) -> int:
    """A seed of its own for the `look`-th measurement of a cell in a run with the seed `seed`."""
    digest = hashlib.sha256(repr((seed, *key.parts, look)).encode()).digest()
    return int.from_bytes(digest[:6], "big")


def open_loop(
    source: Source,
    rate_rps: float,
    *,
    warmup_s: float,
    window_s: float,
    cooldown_s: float = 0.0,
    seed: int,
    token_ids: tuple[int, int],
    least_warmup_requests: int = 0,
) -> Schedule:
    """Requests that arrive at `rate_rps` whatever the server does; the warm-up is lengthened to `least_warmup_requests`.

    Raises:
        UsageError: when a length, the rate or the ids cannot be meant, or the window would hold no request.
    """
    _check(warmup_s, window_s, token_ids)
    if not 0.0 < rate_rps < math.inf or not 0.0 <= cooldown_s < math.inf:
        raise UsageError(f"a rate of {rate_rps:g} requests/s and a cool-down of {cooldown_s:g} s")
    warmup_s = max(warmup_s, least_warmup_requests / rate_rps)
    lengths_s = (warmup_s, window_s, cooldown_s)
    counts = [round(rate_rps * length_s) for length_s in lengths_s]
    if not counts[1]:
        hint = f"a window of at least {1.0 / rate_rps:.3g} s holds one"
        raise UsageError(f"no request is due in {window_s:g} s at {rate_rps:g} requests/s", hint)
    rng = _rng(seed)
    starts_s = (-warmup_s, 0.0, window_s)
    if isinstance(source, Shape):
        parts = [np.sort(rng.uniform(0.0, length_s, count)) for length_s, count in zip(lengths_s, counts, strict=True)]
        inputs, outputs = source.draw(rng, sum(counts))
        origin = f"Poisson arrivals, {source}"
    else:
        rows = _Rows(source, int(rng.integers(len(source))))
        parts = [rows.arrivals(count, length_s, rng) for length_s, count in zip(lengths_s, counts, strict=True)]
        inputs, outputs = source.input_tokens[rows.taken], source.output_tokens[rows.taken]
        origin = f"{rows.text()}, arrivals scaled from {source.rate_rps:.4g} to {rate_rps:.4g} requests/s"
    due_s = np.concatenate([start_s + part for start_s, part in zip(starts_s, parts, strict=True)])
    return Schedule(due_s, inputs, outputs, warmup_s, window_s, seed, token_ids, origin=origin)


def closed_loop(
    source: Source,
    concurrency: int,
    *,
    warmup_s: float,
    window_s: float,
    seed: int,
    token_ids: tuple[int, int],
    min_requests: int | None = None,
    max_window_s: float | None = None,
    max_requests: int | None = None,
) -> Schedule:
    """`concurrency` requests in flight at all times, of at most `max_requests` (None: as many as LEAST_TOKEN_S admits).

    Raises:
        UsageError: when a length, the concurrency or the ids cannot be meant.
    """
    _check(warmup_s, window_s, token_ids)
    if concurrency < 1:
        raise UsageError(f"a concurrency of {concurrency}", "it is a whole number of at least 1")
    rng = _rng(seed)
    if max_requests is None:
        fastest_s = source.mean_output_tokens * LEAST_TOKEN_S
        longest_s = warmup_s + max(window_s, max_window_s or 0.0)
        made = max(FEW_REQUESTS, concurrency * (3 + math.ceil(longest_s / fastest_s)))
    else:
        made = max_requests
    if isinstance(source, Shape):
        inputs, outputs = source.draw(rng, made)
        origin = str(source)
    else:
        rows = _Rows(source, int(rng.integers(len(source))))
        rows.take(made)
        inputs, outputs = source.input_tokens[rows.taken], source.output_tokens[rows.taken]
        origin = f"{rows.text()}, arrivals not used"
    return Schedule(
        None,
        inputs,
        outputs,
        warmup_s,
        window_s,
        seed,
        token_ids,
        concurrency,
        min_requests,
        max_window_s,
        origin,
        max_requests is not None,
    )


def _check(warmup_s: float, window_s: float, token_ids: tuple[int, int]) -> None:
    if not (0.0 <= warmup_s < math.inf and 0.0 < window_s < math.inf):
        raise UsageError(f"a warm-up of {warmup_s:g} s and a window of {window_s:g} s", "the window is longer than 0 s")
    if not 0 <= token_ids[0] < token_ids[1] - 1:
        what = f"prompts of the token ids {token_ids[0]} to {token_ids[1] - 1}"
        raise UsageError(
            what, "give at least two ids >= 0, such as 1000 to 20000: equal prompts would hit a prefix cache"
        )


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_ARRIVALS,)))


class _Rows:
    """Consecutive rows of a trace, taken part by part; after the last row comes the first."""

    def __init__(self, trace: Trace, first: int) -> None:
        self._trace, self._first = trace, first
        self._gaps_s = np.append(np.diff(trace.arrival_s), 1.0 / trace.rate_rps)  # from each row to the next
        self.taken: Ints = np.zeros(0, dtype=np.int64)

    def take(self, count: int) -> Ints:
        """The places of the next `count` rows in the trace."""
        places = (self._first + len(self.taken) + np.arange(count)) % len(self._trace)
        self.taken = np.concatenate([self.taken, places])
        return places

    def arrivals(self, count: int, length_s: float, rng: np.random.Generator) -> Floats:
        """The next `count` rows as moments in [0, length_s), their gaps scaled to fill it; where the first falls is drawn."""
        if not count:
            return np.zeros(0)
        gaps = self._gaps_s[self.take(count)]
        if not gaps.sum() > 0.0:  # all of them at one moment: that moment is anywhere
            return np.full(count, rng.uniform(0.0, length_s))
        gaps = gaps * (length_s / gaps.sum())
        moments: Floats = np.append(0.0, np.cumsum(gaps[:-1])) + rng.uniform() * gaps[-1]
        return np.minimum(moments, np.nextafter(length_s, 0.0))

    def text(self) -> str:
        """Which rows were taken."""
        rows, count = len(self._trace), len(self.taken)
        last = (self._first + count - 1) % rows
        how = "cut" if self._first + count <= rows else "cycled" if count > rows else "cut, going on from its start"
        return f"{self._trace.name} rows {self._first + 1:,} to {last + 1:,} of {rows:,} ({how})"

"""The server's own view of a run: what its /metrics reports before and after, against what the client saw.

The histograms' buckets are too coarse for a p99, so means are compared: the sums and counts are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from prometheus_client.parser import text_string_to_metric_families

NAMES: dict[str, tuple[str, ...]] = {
    "ttft_sum_s": ("vllm:time_to_first_token_seconds_sum",),
    "ttft_count": ("vllm:time_to_first_token_seconds_count",),
    "e2e_sum_s": ("vllm:e2e_request_latency_seconds_sum",),
    "e2e_count": ("vllm:e2e_request_latency_seconds_count",),
    "queue_sum_s": ("vllm:request_queue_time_seconds_sum",),
    "queue_count": ("vllm:request_queue_time_seconds_count",),
    "preemptions": ("vllm:num_preemptions_total",),
    "finished": ("vllm:request_success_total",),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
}
"""The series of each number; the first name that is there counts (later ones are of older versions)."""

_GAUGES = ("running", "waiting")

OVERHEAD_S = 0.02
OVERHEAD_SHARE = 0.1
"""What a client may see beyond the server: the way there and back and its own work (3 to 8 ms at the p99 in our trials, more on a
busy machine). Beyond both together, one of the two is wrong."""

COUNTS_AGREE, LEAST_APART = 0.1, 2
"""Counts of requests may differ by this share, and by this many, beyond what may be unrecorded: beyond that the client sent
requests that it does not know of, or recorded some that it did not send."""

SLOW_SHARE = 0.25
"""A mean at the client may exceed the server's by this share of the class's limit: beyond it the client shapes the tail."""

SLOW_FACTOR, SLOW_S = 2.0, 0.05
"""Without a limit: by this factor, and by this many seconds beyond it."""

HIT_SHARE = 0.01
"""Synthetic prompts share nothing, so hits in their tokens beyond this mean that the cell measured a warm cache."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """What /metrics reported at one moment, summed over engines; None where the server does not have it."""

    ttft_sum_s: float | None = None
    ttft_count: float | None = None
    e2e_sum_s: float | None = None
    e2e_count: float | None = None
    queue_sum_s: float | None = None
    queue_count: float | None = None
    preemptions: float | None = None
    finished: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    running: float | None = None
    waiting: float | None = None

    @property
    def in_flight(self) -> tuple[tuple[float, str], ...]:
        """The requests in the server: (number, what they do), those that are reported."""
        gauges = ((self.running, "running"), (self.waiting, "waiting"))
        return tuple((number, what) for number, what in gauges if number is not None)


@dataclass(frozen=True, slots=True)
class ServerDeltas:
    """What the server counted between two scrapes; None where either lacks it, or the counter went backwards (a restart)."""

    requests: float | None
    ttft_mean_s: float | None
    e2e_mean_s: float | None
    queue_mean_s: float | None
    preemptions: float | None
    finished: float | None
    prefix_hit_share: float | None
    ttft_sum_s: float | None = None
    e2e_sum_s: float | None = None
    before: float = 0.0
    """Requests that were in the server at the first scrape: of somebody else, and counted as they end."""


@dataclass(frozen=True, slots=True)
class ClientMeans:
    """What the client saw of the same requests: how many succeeded, and the means of theirs.

    `unheard` more may have been answered without a record; `recorded` are those with one, well or not.
    """

    succeeded: int
    ttft_mean_s: float | None
    e2e_mean_s: float | None
    unheard: int = 0
    recorded: int = 0


def read_scrape(text: str) -> Scrape:
    """The numbers in a Prometheus text; what cannot be read is as good as absent."""
    totals: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    except ValueError:  # what was read until then counts
        pass
    found = {key: next((totals[name] for name in names if name in totals), None) for key, names in NAMES.items()}
    return Scrape(**{key: value for key, value in found.items() if value is not None and math.isfinite(value)})


def deltas(before: Scrape | None, after: Scrape | None) -> ServerDeltas:
    """What the server counted from `before` to `after`."""

    def delta(name: str) -> float | None:
        first, last = getattr(before, name, None), getattr(after, name, None)
        return None if first is None or last is None or last < first else last - first

    def share(part: str, whole: str) -> float | None:
        above, below = delta(part), delta(whole)
        return above / below if above is not None and below else None

    return ServerDeltas(
        requests=delta("e2e_count"),
        ttft_mean_s=share("ttft_sum_s", "ttft_count"),
        e2e_mean_s=share("e2e_sum_s", "e2e_count"),
        queue_mean_s=share("queue_sum_s", "queue_count"),
        preemptions=delta("preemptions"),
        finished=delta("finished"),
        prefix_hit_share=share("prefix_hits", "prefix_queries"),
        ttft_sum_s=delta("ttft_sum_s"),
        e2e_sum_s=delta("e2e_sum_s"),
        before=0.0 if before is None else sum(number for number, _ in before.in_flight),
    )


def missing(scrape: Scrape) -> tuple[str, ...]:
    """The series that a scrape lacks, by their present name: the server is of another version or kind."""
    return tuple(NAMES[field.name][0] for field in fields(Scrape) if getattr(scrape, field.name) is None)


def mean_differences(client: ClientMeans, server: ServerDeltas) -> list[str]:
    """Sentences on what the client and the server disagree on beyond the noise, and on what spoils the cell; [] when all is well.

    Both must have seen the same requests: the scrapes stand right before the first and right after the last one.
    """
    warnings = []
    if server.requests is not None and not 0 <= round(server.requests) - client.succeeded <= client.unheard:
        warnings.append(f"the client counts {client.succeeded} answered requests, the server {server.requests:g}")
    pairs: Sequence[tuple[str, float | None, float | None]] = (
        ("time to first token", client.ttft_mean_s, server.ttft_mean_s),
        ("completion time", client.e2e_mean_s, server.e2e_mean_s),
    )
    for what, seen_s, server_s in pairs:
        if seen_s is None or server_s is None:
            continue
        allowed_s = OVERHEAD_S + OVERHEAD_SHARE * server_s
        if abs(seen_s - server_s) > allowed_s:
            warnings.append(
                f"mean {what}: {seen_s:.3f} s at the client, {server_s:.3f} s at the server, "
                f"more than {allowed_s:.3f} s apart"
            )
    if server.prefix_hit_share is not None and server.prefix_hit_share > HIT_SHARE:
        warnings.append(
            f"{server.prefix_hit_share:.1%} of the prompt tokens came from the prefix cache: prompts were not new"
        )
    if server.preemptions:
        warnings.append(f"the server preempted {server.preemptions:g} times: its KV cache was full")
    return warnings


def contradictions(
    client: ClientMeans, server: ServerDeltas, ttft_limit_s: float | None = None, e2e_limit_s: float | None = None
) -> list[str]:
    """Sentences on what no client that held the load and the time right can have seen; [] when there is nothing of that kind.

    The limits are those of the class, in seconds. The server may have had other requests too (those that failed, those that
    nobody recorded): all that it counted in sum bounds the mean of the client's, so these contradict nothing.
    """
    reasons = []
    if server.requests is not None:
        upper = max(client.succeeded, client.recorded) + client.unheard + server.before
        allowed = max(LEAST_APART, COUNTS_AGREE * max(client.succeeded, client.recorded))
        if not client.succeeded - allowed <= server.requests <= upper + allowed:
            reasons.append(
                f"the client has records of {max(client.succeeded, client.recorded)} requests, "
                f"the server answered {server.requests:g}"
            )
    pairs = (
        ("time to first token", client.ttft_mean_s, server.ttft_mean_s, server.ttft_sum_s, ttft_limit_s),
        ("completion time", client.e2e_mean_s, server.e2e_mean_s, server.e2e_sum_s, e2e_limit_s),
    )
    for what, seen_s, mean_s, sum_s, limit_s in pairs:
        if seen_s is None or mean_s is None or sum_s is None or not client.succeeded:
            continue
        server_s = max(mean_s, sum_s / client.succeeded)
        if limit_s is None:
            upper_s = SLOW_FACTOR * server_s + SLOW_S
        else:
            upper_s = server_s + max(SLOW_SHARE * limit_s, OVERHEAD_S + OVERHEAD_SHARE * server_s)
        if seen_s > upper_s:
            reasons.append(
                f"the client was slow: a mean {what} of {seen_s:.3f} s, where the server took {mean_s:.3f} s"
            )
    return reasons

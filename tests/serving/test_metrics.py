"""What a server says of itself against what a client saw."""

from __future__ import annotations

import http.client
import json
import time

import pytest

from fleetsieve.live.serving.metrics import (
    ClientMeans,
    Scrape,
    ServerDeltas,
    contradictions,
    deltas,
    mean_differences,
    missing,
    read_scrape,
)

TEXT = """
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 4.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 4.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 0.5
vllm:time_to_first_token_seconds_count{engine="1",model_name="m"} 1.0
vllm:time_to_first_token_seconds_sum{engine="1",model_name="m"} 0.25
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0",model_name="m"} 3.0
vllm:num_preemptions_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 1.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 4.0
# TYPE vllm:gpu_prefix_cache_hits counter
vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 9.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} NaN
"""


def test_a_scrape_sums_engines_and_reasons_and_takes_older_names() -> None:
    scrape = read_scrape(TEXT)
    assert (scrape.ttft_sum_s, scrape.ttft_count) == (0.75, 5.0)
    assert (scrape.preemptions, scrape.finished, scrape.prefix_hits) == (3.0, 5.0, 9.0)
    assert scrape.in_flight == ((2.0, "running"),)
    assert scrape.e2e_sum_s is None
    assert "vllm:e2e_request_latency_seconds_sum" in missing(scrape)
    assert "vllm:prefix_cache_hits_total" not in missing(scrape)


@pytest.mark.parametrize("text", ["", "<html>no</html>", "engine:requests_total 5\n", "vllm:x{ 1\n"])
def test_what_is_no_metrics_of_vllm_is_tolerated(text: str) -> None:
    assert read_scrape(text) == Scrape()
    nothing = deltas(read_scrape(text), read_scrape(text))
    assert set(missing(read_scrape(text))) > {"vllm:num_preemptions_total"}
    assert mean_differences(ClientMeans(5, 0.1, 1.0), nothing) == []


def test_a_text_that_breaks_off_is_read_until_there() -> None:
    assert read_scrape(TEXT + "broken{ 1\n").finished == 5.0


def test_deltas_are_means_and_a_restart_is_no_delta() -> None:
    before = Scrape(ttft_sum_s=1.0, ttft_count=10, e2e_count=10, prefix_queries=100, prefix_hits=0, preemptions=2)
    after = Scrape(ttft_sum_s=2.0, ttft_count=14, e2e_count=14, prefix_queries=300, prefix_hits=50, preemptions=1)
    seen = deltas(before, after)
    assert (seen.requests, seen.ttft_mean_s, seen.prefix_hit_share) == (4, 0.25, 0.25)
    assert (seen.preemptions, seen.e2e_mean_s) == (None, None)
    assert deltas(None, after).requests is None
    assert deltas(after, after).ttft_mean_s is None


AGREED = ServerDeltas(100, 0.10, 1.00, 0.0, 0.0, 100.0, 0.0)


def test_agreement_says_nothing() -> None:
    assert mean_differences(ClientMeans(100, 0.125, 1.10), AGREED) == []
    assert mean_differences(ClientMeans(100, None, None), AGREED) == []


@pytest.mark.parametrize(
    ("client", "server", "told"),
    [
        (ClientMeans(99, 0.1, 1.0), AGREED, "the client counts 99 answered requests, the server 100"),
        (ClientMeans(100, 0.14, 1.0), AGREED, "mean time to first token: 0.140 s at the client, 0.100 s at the server"),
        (ClientMeans(100, 0.1, 0.8), AGREED, "mean completion time: 0.800 s at the client, 1.000 s at the server"),
        (ClientMeans(1, None, None), ServerDeltas(1, None, None, None, 2.0, 1.0, None), "preempted 2 times"),
        (ClientMeans(1, None, None), ServerDeltas(1, None, None, None, None, None, 0.5), "50.0% of the prompt tokens"),
    ],
)
def test_a_disagreement_is_told(client: ClientMeans, server: ServerDeltas, told: str) -> None:
    (sentence,) = mean_differences(client, server)
    assert told in sentence


def measured(server, count: int = 5) -> tuple[ClientMeans, ServerDeltas]:
    """`count` streamed requests one after the other: what this client saw, and what the server counted."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    before, ttft_s, e2e_s = server.scrape(), [], []
    for number in range(count):
        began = time.monotonic()
        body = {"model": "tiny", "prompt": [number, 7], "max_tokens": 20, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        answer = connection.getresponse()
        answer.readline()
        ttft_s.append(time.monotonic() - began)
        answer.read()
        e2e_s.append(time.monotonic() - began)
    connection.close()
    return ClientMeans(count, sum(ttft_s) / count, sum(e2e_s) / count), deltas(before, server.scrape())


@pytest.mark.slow
def test_a_true_server_agrees_and_a_false_one_is_found_out(start) -> None:
    true = start("--ttft-s", "0.08", "--tpot-s", "0.005")
    assert true.wait_ready() is None
    client, server = measured(true)
    assert mean_differences(client, server) == []
    assert server.ttft_mean_s == pytest.approx(0.08, abs=0.02)
    assert server.prefix_hit_share == 0.0
    false = start("--ttft-s", "0.08", "--tpot-s", "0.005", "--false-metrics")
    assert false.wait_ready() is None
    assert len(mean_differences(*measured(false))) == 2


@pytest.mark.parametrize("fault", ["--no-metrics", "--renamed-metrics"])
def test_missing_metrics_spoil_nothing(start, fault: str) -> None:
    server = start(fault)
    assert server.wait_ready() is None
    client, own = measured(server, 2)
    assert mean_differences(client, own) == []
    assert server.reset_cache() is None


def of_server(requests: int, ttft_s: float, e2e_s: float, before: float = 0.0) -> ServerDeltas:
    """Counters of a server whose `requests` took so long on average."""
    sums = (requests * ttft_s, requests * e2e_s, before)
    return ServerDeltas(requests, ttft_s, e2e_s, 0.0, 0.0, requests, 0.0, *sums)


@pytest.mark.parametrize(
    ("client", "server", "limits", "told"),
    [
        (ClientMeans(100, 0.1, 1.0, 0, 100), of_server(110, 0.1, 1.0), (None, None), ""),
        (ClientMeans(100, 0.1, 1.0, 0, 100), of_server(111, 0.1, 1.0), (None, None), "100 requests, the server answered 111"),
        (ClientMeans(100, 0.1, 1.0, 0, 100), of_server(89, 0.1, 1.0), (None, None), "the server answered 89"),
        (ClientMeans(100, 0.1, 1.0, 30, 100), of_server(140, 0.1, 1.0), (None, None), ""),
        (ClientMeans(60, 0.1, 1.0, 0, 100), of_server(100, 0.1, 1.0), (None, None), ""),
        (ClientMeans(100, 0.1, 1.0, 0, 100), of_server(130, 0.1, 1.0, before=20.0), (None, None), ""),
        (ClientMeans(3, 0.1, 1.0, 0, 3), of_server(5, 0.1, 1.0), (None, None), ""),
        # The trials of docs: 36 ms at the client where the server took 32, and a server whose own time begins later.
        (ClientMeans(60, 0.036, 0.353, 0, 60), of_server(60, 0.032, 0.353), (0.05, 0.5), ""),
        (ClientMeans(60, 2.10, 4.0, 0, 60), of_server(60, 1.95, 3.9), (0.2, 5.0), ""),
        (ClientMeans(60, 0.010, 0.610, 0, 60), of_server(60, 0.008, 0.009), (None, 0.5), "a mean completion time of 0.610 s"),
        (ClientMeans(60, 0.610, 0.610, 0, 60), of_server(60, 0.6, 0.6), (0.5, 0.5), ""),
        (ClientMeans(60, 0.160, 0.5, 0, 60), of_server(60, 0.1, 0.5), (0.2, None), "a mean time to first token of 0.160 s"),
        (ClientMeans(60, 0.240, 0.5, 0, 60), of_server(60, 0.1, 0.5), (None, None), ""),
        (ClientMeans(60, 0.260, 0.5, 0, 60), of_server(60, 0.1, 0.5), (None, None), "a mean time to first token of 0.260 s"),
        # Nine in ten answers were short, so the server's mean is far below that of those that were whole.
        (ClientMeans(10, 0.1, 1.0, 0, 100), of_server(100, 0.1, 0.19), (0.5, 1.0), ""),
    ],
)  # fmt: skip
def test_what_no_client_can_have_seen(client: ClientMeans, server: ServerDeltas, limits, told: str) -> None:
    said = contradictions(client, server, *limits)
    assert len(said) == bool(told), said
    assert told in "".join(said)


def test_a_server_that_tells_nothing_contradicts_nothing() -> None:
    assert contradictions(ClientMeans(5, 0.1, 1.0, 0, 5), deltas(None, None), 0.01, 0.01) == []

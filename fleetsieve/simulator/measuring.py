"""One cell measured on a simulated replica: what a load generator would report of it, and its records.

A cell's load starts at time 0; the measured requests are those sent in [warmup_s, warmup_s + window_s). The load stays
up after the window until the last of them has ended, which is at most `timeout_s` later, so that no latency is cut off:
sent = ok + timed out, nothing stays unfinished. With X successes among them:

    throughput_rps = X / window_s        success_rate = X / sent
    ttft = first token - sent            e2e = last token - sent        tpot = (e2e - ttft) / (output tokens - 1)

p50 and p99 are percentiles over the successes with linear interpolation between order statistics (as vLLM's benchmark
takes them); tpot leaves out requests of one token. Failures count against success and never into latency.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetsieve.errors import UsageError
from fleetsieve.instance import DEFAULT_VARIANT, CellKey, LoadKind, Measurement, Reading, ServerKey, Status
from fleetsieve.simulator.batching import Request, Served, SimulatedServer
from fleetsieve.simulator.hardware import replica
from fleetsieve.simulator.spec import Simulation, load_label
from fleetsieve.simulator.traffic import cell_generators, length_pairs, segment_arrivals

RECORD_COLUMNS = ("sent_at_s", "input_tokens", "output_tokens", "ttft_s", "e2e_s", "status")
DECIMALS = 6


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run of one cell: the row of measurements.csv, the measured requests, and what the engine did.

    `served` is None when the server could not start (the weights, or one longest request, do not fit its memory).
    """

    measurement: Measurement
    requests: tuple[Request, ...]
    served: Served | None
    window_start_s: float

    def records(self) -> list[tuple[float, int, int, float | None, float | None, str]]:
        """The requests under RECORD_COLUMNS, those of the warm-up that ended well in the window first; None for no value.

        `sent_at_s` counts from the start of the window. Without the warm-up's the first completions of the window would lack.
        """
        carried_over = [
            r
            for r in (self.served.requests if self.served is not None else ())
            if r.sent_s < self.window_start_s and r.status == "ok" and (r.ended_s or 0.0) >= self.window_start_s
        ]
        return [
            (
                round(r.sent_s - self.window_start_s, DECIMALS),
                r.input_tokens,
                r.output_tokens,
                _since(r, r.first_token_s),
                _since(r, r.ended_s) if r.status == "ok" else None,
                r.status,
            )
            for r in (*carried_over, *self.requests)
        ]

    def records_csv_gz(self) -> bytes:
        """The records as gzipped CSV; the same bytes for the same run."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(RECORD_COLUMNS)
        writer.writerows(self.records())
        return gzip.compress(text.getvalue().encode(), mtime=0)


def simulate_cell(
    spec: Simulation, class_name: str, tp: int, load: str, repeat: int = 0, variant: str = DEFAULT_VARIANT
) -> CellRun:
    """Run the cell (class, TP, load label, engine variant) of `spec`; the same arguments always give the same result.

    All variants get the same requests.

    Raises:
        UsageError: when the spec has no such cell, or `repeat` < 0.
    """
    if variant != DEFAULT_VARIANT and variant not in spec.variants:
        raise UsageError(f"{spec.name} has no variant {variant!r}")
    for class_index, workload in enumerate(spec.classes):
        ladder = workload.loads.get(tp, ())
        labels = [load_label(workload.load_kind, offered) for offered in ladder]
        if workload.stated.name == class_name and load in labels and repeat >= 0:
            return _run(spec.of(variant), class_index, ServerKey(tp, variant=variant), labels.index(load), repeat)
    raise UsageError(f"{spec.name} has no cell ({class_name}, TP{tp}, {load}), repeat {repeat}")


def _run(spec: Simulation, class_index: int, replica_server: ServerKey, load_index: int, repeat: int) -> CellRun:
    workload, tp = spec.classes[class_index], replica_server.tp
    offered = workload.loads[tp][load_index]
    key = CellKey(workload.stated.name, replica_server, load_label(workload.load_kind, offered))
    machine = replica(spec.llm, spec.gpu, spec.engine, tp)
    start, window = spec.measure.warmup_s, spec.measure.window_s
    end = start + window
    arrivals, input_rng, output_rng = cell_generators(spec.seed, class_index, tp, load_index, repeat)
    if machine.kv_tokens < workload.inputs.most + workload.outputs.most:
        row = Measurement(
            key, seed=repeat, status=Status.FAILED_START, cost_gpu_s=spec.measure.startup_s * tp, source=spec.source
        )
        return CellRun(row, (), None, start)
    if closed := workload.load_kind is LoadKind.CONCURRENCY:
        sends = [0.0] * int(offered)
    else:
        parts = ((0.0, start), (start, end), (end, end + spec.timeout_s))
        sends = [at for a, b in parts for at in segment_arrivals(arrivals, a, b, offered, workload.arrival_cv)]
    server = SimulatedServer(
        machine,
        spec.engine,
        sends,
        length_pairs(workload.inputs, workload.outputs, input_rng, output_rng),
        closed=closed,
        window_start_s=start,
        window_end_s=end,
        timeout_s=spec.timeout_s,
    )
    served = server.run()
    measured = tuple(r for r in served.requests if start <= r.sent_s < end)
    return CellRun(_summary(spec, key, repeat, measured), measured, served, start)


def _summary(spec: Simulation, key: CellKey, repeat: int, measured: Sequence[Request]) -> Measurement:
    window = spec.measure.window_s
    good = [r for r in measured if r.status == "ok"]
    ttft = [r.first_token_s - r.sent_s for r in good if r.first_token_s is not None]
    e2e = [r.ended_s - r.sent_s for r in good if r.ended_s is not None]
    tpot = [
        (whole - first) / (r.output_tokens - 1)
        for r, first, whole in zip(good, ttft, e2e, strict=True)
        if r.output_tokens > 1
    ]
    return Measurement(
        key,
        seed=repeat,
        status=Status.OK if good else Status.TIMEOUT,
        throughput_rps=Reading(round(len(good) / window, DECIMALS)),
        success_rate=Reading(round(len(good) / len(measured), DECIMALS) if measured else None),
        ttft_p99_s=Reading(_percentile(ttft, 99)),
        e2e_p99_s=Reading(_percentile(e2e, 99)),
        tpot_p99_s=Reading(_percentile(tpot, 99)),
        requests=len(measured),
        ttft_p50_s=_percentile(ttft, 50),
        e2e_p50_s=_percentile(e2e, 50),
        window_s=window,
        cost_gpu_s=(spec.measure.warmup_s + window) * key.tp,
        source=spec.source,
    )


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return round(float(np.percentile(values, percent)), DECIMALS) if values else None


def _since(request: Request, moment: float | None) -> float | None:
    return None if moment is None else round(moment - request.sent_s, DECIMALS)

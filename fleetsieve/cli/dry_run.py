"""`fleetsieve run --dry-run`: what a live run would start and what it may cost."""

from __future__ import annotations

import shlex
from pathlib import Path

from fleetsieve.cli.main import emit
from fleetsieve.cli.probing import Probing, prepared
from fleetsieve.engines.solving import Milp
from fleetsieve.errors import UsageError
from fleetsieve.files import read_instance, read_predictions
from fleetsieve.keys import DEFAULT_VARIANT, ServerKey
from fleetsieve.live.serving.command import command_of, environment_of
from fleetsieve.loop.cost import cost_gpu_s, grid_cost_gpu_s
from fleetsieve.presentation.progress import working
from fleetsieve.presentation.terminal import messages, results, say
from fleetsieve.runs.start import RunStart
from fleetsieve.runs.state import state_at_start
from fleetsieve.studies.forecast import forecast_gpu_s

DRAWS = 5


def dry_run(source: Path, probing: Probing | None, wanted: RunStart, prior: Path | None, *, as_json: bool) -> int:
    """Print the commands and the cost of a live run; nothing is started and nothing written."""
    if probing is None or not probing.live:
        raise UsageError("--dry-run needs a live run", "add --probe vllm --config serve.toml")

    read = read_instance(source)
    ready = prepared(probing, read, wanted.seed, dry=True)
    for sentence in ready.warnings:
        say(messages(), f"warning: {sentence}", "yellow")
    config, cells = ready.config, ready.cells
    predictions = read_predictions(prior, read.instance).predictions if prior is not None else None
    kinds = {ServerKey(cell.key.tp, variant=cell.key.variant) for cell in cells}
    servers = [] if probing.endpoints else sorted(kinds)
    configs = {server: config.of(server.variant) for server in servers}
    commands = {server: command_of(configs[server], server.tp, config.ports[0]) for server in servers}
    environments = {server: environment_of(configs[server], server.tp, config.gpus[: server.tp]) for server in servers}
    if not as_json:  # before the simulated runs, which may take a minute
        for server in servers:
            words = [f"{name}={value}" for name, value in environments[server].items()]
            say(results(), f"TP {server.degree}: {shlex.join([*words, *commands[server]])}")
        for tp, url in probing.endpoints.items():
            say(results(), f"TP {tp}: measured at {url}")
        say(results(), f"load generator: {config.load.generator}")
        results().file.flush()
    looks = read.instance.measure.max_looks
    with working(f"simulating {DRAWS} runs to estimate the cost"):
        allowed = {cell.key: looks for cell in cells}
        sieve = state_at_start(wanted, read.instance, Milp(), looks=allowed, prior=predictions)
        first = None if sieve.finished else sieve.ask()
        costs_gpu_s = forecast_gpu_s(sieve, DRAWS, wanted.seed)
    grid = grid_cost_gpu_s(read.instance, cells)
    worst = sum(looks * cost_gpu_s(read.instance, cell) for cell in cells)
    if as_json:
        emit(
            {
                "cells": len(cells),
                "first": None if first is None else str(first.key),
                "expected_gpu_s": costs_gpu_s[len(costs_gpu_s) // 2],
                "expected_range_gpu_s": [costs_gpu_s[0], costs_gpu_s[-1]],
                "full_grid_gpu_s": grid,
                "worst_case_gpu_s": worst,
                "servers": [
                    {
                        "tp": server.tp,
                        **({} if server.variant == DEFAULT_VARIANT else {"variant": server.variant}),
                        "command": commands[server],
                        "environment": environments[server],
                    }
                    for server in servers
                ],
                "endpoints": {str(tp): url for tp, url in probing.endpoints.items()},
                "generator": config.load.generator,
            }
        )
        return 0
    named = first.key if first is not None else "none"
    say(results(), f"{len(cells)} cells may be measured; the first would be {named}")
    low, middle, high = costs_gpu_s[0], costs_gpu_s[len(costs_gpu_s) // 2], costs_gpu_s[-1]
    expected = (
        f"{middle:,.0f} GPU-seconds ({low:,.0f} to {high:,.0f} in {DRAWS} simulated runs with exact measurements)"
    )
    say(results(), f"expected: {expected}")
    say(results(), f"full grid: {grid:,.0f} GPU-seconds")
    say(results(), f"worst case, every cell measured {looks} times with a server start each: {worst:,.0f} GPU-seconds")
    return 0

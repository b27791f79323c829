"""`fleetsieve run --dry-run`: what a live run would start and what it may cost."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from fleetsieve.cli.main import emit
from fleetsieve.cli.probing import Probing, prepared
from fleetsieve.cli.run_loop import Request, sieve_of
from fleetsieve.errors import UsageError
from fleetsieve.keys import DEFAULT_VARIANT, ServerKey

DRAWS = 5


def dry_run(source: Path, probing: Probing | None, wanted: Request, prior: Path | None, *, as_json: bool) -> int:
    """Print the commands and the cost of a live run; nothing is started and nothing written."""
    if probing is None or not probing.live:
        raise UsageError("--dry-run needs a live run", "add --probe vllm --config serve.toml")
    from fleetsieve.files import read_instance, read_predictions
    from fleetsieve.live.serving.command import command_of, environment_of
    from fleetsieve.loop.cost import cost_gpu_s, grid_cost_gpu_s
    from fleetsieve.presentation.progress import working
    from fleetsieve.presentation.terminal import messages, results, say
    from fleetsieve.studies.forecast import forecast_gpu_s

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
    if not as_json:  # before the imagined runs, which may take a minute
        for server in servers:
            words = [f"{name}={value}" for name, value in environments[server].items()]
            say(results(), f"TP {server.degree}: {shlex.join([*words, *commands[server]])}")
        for tp, url in probing.endpoints.items():
            say(results(), f"TP {tp}: measured at {url}")
        say(results(), f"load generator: {config.load.generator}")
        results().file.flush()
    looks = read.instance.measure.max_looks
    with working(f"simulating {DRAWS} runs to estimate the cost"):
        sieve = sieve_of(read, wanted, _Allowed({cell.key: looks for cell in cells}), predictions)
        first = None if sieve.finished else sieve.ask()
        imagined = forecast_gpu_s(sieve, DRAWS, wanted.seed)
    grid = grid_cost_gpu_s(read.instance, cells)
    worst = sum(looks * cost_gpu_s(read.instance, cell) for cell in cells)
    if as_json:
        emit(
            {
                "cells": len(cells),
                "first": None if first is None else str(first.key),
                "expected_gpu_s": imagined[len(imagined) // 2],
                "expected_range_gpu_s": [imagined[0], imagined[-1]],
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
    low, middle, high = imagined[0], imagined[len(imagined) // 2], imagined[-1]
    told = f"{middle:,.0f} GPU-seconds ({low:,.0f} to {high:,.0f} in {DRAWS} simulated runs with exact measurements)"
    say(results(), f"expected: {told}")
    say(results(), f"full grid: {grid:,.0f} GPU-seconds")
    say(results(), f"worst case, every cell measured {looks} times with a server start each: {worst:,.0f} GPU-seconds")
    return 0


class _Allowed:
    """How often each cell may be looked at, of a probe that is not opened."""

    def __init__(self, looks: dict[Any, int]) -> None:
        self.looks = looks

    def measure(self, key: Any, look: int) -> Any:
        raise AssertionError("a dry run measures nothing")

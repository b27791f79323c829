"""From serve.toml and an instance to what a live run sends, and which cells it can measure at all."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from fleetsieve.bounds.statistics import Rules
from fleetsieve.bounds.statistics.counting import OTHER_LENGTH
from fleetsieve.bounds.statistics.intervals import requests_for_upper_p99
from fleetsieve.errors import UsageError
from fleetsieve.instance import TAIL_METRICS, Cell, CellKey, Instance, LoadKind, WorkloadClass
from fleetsieve.keys import DEFAULT_VARIANT
from fleetsieve.live.load.generators import holding_concurrency
from fleetsieve.live.load.schedule import Shape, Source, Tokens
from fleetsieve.live.load.traces import read_trace
from fleetsieve.live.probe import Sending
from fleetsieve.live.serving.command import refuse_impossible
from fleetsieve.live.serving.config import ServeConfig
from fleetsieve.live.serving.load_config import ClassLoad, LoadConfig, TokenCounts
from fleetsieve.loop.cost import expected_window_s

ANY_VOCABULARY = (1000, 20000)
"""Token ids that every common tokenizer has, and that are no special ones; where the model's own vocabulary is not known."""


def sending_of(instance: Instance, config: ServeConfig, seed: int) -> Sending:
    """What the classes of `instance` are sent, as `config` states; `seed` is the run's.

    Raises:
        UsageError: when classes have neither a trace nor token counts, or answers of quite another length; it names all of them.
        InputError: with every error of a trace.
    """
    load = config.load
    _refuse_unknown_load(instance, load)
    sources = {c.name: source_of(c, load.of_class(c.name)) for c in instance.classes}
    _refuse_other_lengths(instance, sources)
    return Sending(
        load.kind.make(load.program, load.request_timeout_s),
        sources,
        load.token_ids or vocabulary_of(Path(config.model)) or ANY_VOCABULARY,
        load.request_timeout_s,
        load.run_deadline_s,
        load.fresh_warmup_s,
        seed + load.seed,
    )


def source_of(workload: WorkloadClass, stated: ClassLoad) -> Source:
    """Where the requests of a class come from: its trace, its shape, or the means of classes.csv."""
    if stated.trace is not None:
        trace = read_trace(stated.trace, stated.format)
        trace = trace if stated.token_scale is None else trace.shrunk(stated.token_scale)
        return trace if stated.max_total_tokens is None else trace.fitting(stated.max_total_tokens)
    if stated.input_tokens is not None and stated.output_tokens is not None:
        return Shape(_tokens(stated.input_tokens), _tokens(stated.output_tokens))
    return Shape(Tokens(mean=workload.input_tokens), Tokens(mean=workload.output_tokens))


def _refuse_unknown_load(instance: Instance, load: LoadConfig) -> None:
    """Refuse classes of which nothing shows what they are sent, all at once."""

    def known(workload: WorkloadClass) -> bool:
        stated = load.of_class(workload.name)
        shaped = stated.input_tokens is not None and stated.output_tokens is not None
        return stated.trace is not None or shaped or None not in (workload.input_tokens, workload.output_tokens)

    names = [workload.name for workload in instance.classes if not known(workload)]
    if names:
        one = len(names) == 1
        raise UsageError(
            f"{'class' if one else 'classes'} {', '.join(names)} {'has' if one else 'have'} neither a trace nor token counts",
            f"write [load.class.{names[0]}] with trace = ... into serve.toml, or input_tokens and output_tokens into classes.csv"
            + ("" if one else "; likewise for the others"),
        )


def _refuse_other_lengths(instance: Instance, sources: Mapping[str, Source]) -> None:
    """Refuse answers of which no measurement would count (see `statistics.counting`), all at once."""
    other = []
    for workload in instance.classes:
        asked, stated = sources[workload.name].mean_output_tokens, workload.output_tokens
        if stated and not stated / OTHER_LENGTH <= asked <= stated * OTHER_LENGTH:
            other.append((workload.name, asked, stated))
    if other:
        lengths = "; ".join(
            f"class {name} asks for {a:.4g} output tokens on average, and classes.csv says {s:g}"
            for name, a, s in other
        )
        hint = "write what is sent into classes.csv: a measurement with answers of another length is not of its class"
        raise UsageError(lengths, hint)


def _tokens(stated: TokenCounts) -> Tokens:
    return Tokens(stated.least, stated.most, stated.mean)


def vocabulary_of(model: Path) -> tuple[int, int] | None:
    """Ids of a model folder's vocabulary without its first tenth, where special tokens and single bytes are; None when unknown."""
    try:
        content = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    size = content.get("vocab_size") if isinstance(content, dict) else None
    return (size // 10, size) if isinstance(size, int) and size >= 100 else None


def measurable(
    instance: Instance, config: ServeConfig, endpoints: Iterable[int] = ()
) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """The cells that a live run can measure, and a sentence for each reason why others are left out.

    With `endpoints` only their TPs can be measured; else those that can start.
    """
    served = frozenset(endpoints)
    kept: list[Cell] = []
    reasons: dict[str, int] = {}
    for cell in instance.cells:
        if cell.excluded:
            continue
        why = _unmeasurable(cell, config, served)
        if why:
            reasons[why] = reasons.get(why, 0) + 1
        else:
            kept.append(cell)
    return tuple(kept), tuple(f"{why}: {count} cells are left out" for why, count in reasons.items())


def _unmeasurable(cell: Cell, config: ServeConfig, served: frozenset[int]) -> str:
    if cell.offered is None or not 0.0 < cell.offered < math.inf:
        return f"class {cell.key.class_name}: a load without a number cannot be sent"
    if cell.load_kind is LoadKind.CONCURRENCY and cell.offered != round(cell.offered):
        return f"class {cell.key.class_name}: a concurrency must be a whole number"
    if cell.load_kind is LoadKind.CONCURRENCY and not config.load.kind.holds_concurrency:
        able = ", ".join(holding_concurrency())
        return f"{config.load.generator} cannot hold a concurrency for a given time ({able} can)"
    if served:
        if cell.key.variant != DEFAULT_VARIANT:
            return f"an --endpoint serves no variant: {cell.key.variant} has none"
        return "" if cell.key.tp in served else f"no --endpoint has TP {cell.key.tp}"
    try:
        refuse_impossible(config.of(cell.key.variant), cell.key.tp)
    except UsageError as refused:
        return f"{refused.message} ({refused.hint})" if refused.hint else refused.message
    return ""


def too_few_requests(instance: Instance, cells: Iterable[Cell]) -> str | None:
    """A sentence when a measurement of some of `cells` sends too few requests to bound a p99 that its SLO limits; None when all do.

    With too few a measurement decides nothing about its SLO.
    """
    needed = requests_for_upper_p99(Rules.of(instance).spent(1))
    short: dict[CellKey, int] = {}
    for cell in cells:
        slo = instance.class_by_name[cell.key.class_name].slo
        if all(slo.limit_s(metric) is None for metric in TAIL_METRICS):
            continue
        if cell.load_kind is LoadKind.RATE:
            sent = round((cell.offered or 0.0) * expected_window_s(instance.measure, cell))
        else:
            sent = instance.measure.min_requests or 0  # beyond that it depends on the server
        if sent < needed and (cell.load_kind is LoadKind.RATE or sent):
            short[cell.key] = sent
    if not short:
        return None
    key = min(short, key=lambda key: (short[key], key))
    return (
        f"one measurement of {key} sends {short[key]:,} requests, but a bound of its p99 at the stated confidence needs {needed:,} "
        f"({len(short)} cells have too few): in instance.toml set [measure] min_requests = {needed}, with a max_window_s that lets "
        "them be sent"
    )

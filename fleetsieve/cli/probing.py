"""What a run measures with: the probe that its log names, opened for as long as the run continues."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleetsieve.errors import EngineMissing, FleetSieveError, InputError, UsageError
from fleetsieve.files import Folder, read_measurements
from fleetsieve.instance import Cell, Instance
from fleetsieve.keys import DEFAULT_VARIANT
from fleetsieve.live.probe import Live, Sending
from fleetsieve.live.replicas import Replicas
from fleetsieve.live.sending import measurable, sending_of, too_few_requests
from fleetsieve.live.serving.command import program_path, why_not_run
from fleetsieve.live.serving.config import ServeConfig, read_serve_config
from fleetsieve.live.serving.endpoint import Endpoint
from fleetsieve.live.serving.register import GpuSeconds, leave_others, stop_orphans
from fleetsieve.presentation.live import LiveView
from fleetsieve.presentation.terminal import messages, say
from fleetsieve.probes import Probe, Replay
from fleetsieve.runs.layout import HIDDEN, SERVE
from fleetsieve.runs.start import REPLAY, VLLM, RunStart


@dataclass(frozen=True)
class Probing:
    """What a run measures with, as its command line or the first line of its log gives it.

    Relative paths in `config` are seen from `folder` (None: its own).
    """

    probe: str = REPLAY
    config: Path | None = None
    endpoints: Mapping[int, str] = field(default_factory=dict)
    max_servers: int = 1
    folder: Path | None = None

    @property
    def live(self) -> bool:
        """Whether servers are measured."""
        return self.probe == VLLM

    @classmethod
    def of(cls, start: RunStart) -> Probing:
        """What a run measures with, as it was started."""
        return cls(start.probe, start.config, start.endpoints, start.max_servers)


def newest(probing: Probing, run: Path) -> Probing:
    """`probing` with the serve.toml that counts for a run that continues: the one it was started with, or the one in its folder.

    The run keeps a copy of what it used. Where the two differ one was fixed, and the one that was written last counts.
    """

    given, kept = probing.config, run / SERVE
    if given is None or not kept.is_file():
        return probing
    try:
        if given.read_bytes() == kept.read_bytes() or given.stat().st_mtime_ns >= kept.stat().st_mtime_ns:
            return probing
    except OSError:
        pass  # it is gone, or cannot be read
    return replace(probing, config=kept, folder=given.parent)


def asked(
    replay: bool, probe: str | None, config: Path | None, endpoints: tuple[str, ...], max_servers: int | None
) -> Probing | None:
    """What the options ask for; None when they request nothing.

    Raises:
        UsageError: when they contradict each other.
    """
    named = probe or (REPLAY if replay else VLLM if config is not None else None)
    if named is None:
        if endpoints or max_servers is not None:
            raise UsageError("--endpoint and --max-servers need --probe vllm", "add --probe vllm --config serve.toml")
        return None
    if replay and named != REPLAY:
        raise UsageError(f"--replay and --probe {named} exclude each other")
    if named == REPLAY:
        if config is not None or endpoints or max_servers is not None:
            raise UsageError("--config, --endpoint and --max-servers work with --probe vllm, not with a replay")
        return Probing()
    if config is None:
        raise UsageError(
            "--probe vllm needs --config serve.toml", 'a serve.toml with [serve] and model = "..." is enough'
        )
    if max_servers is not None and max_servers < 1:
        raise UsageError(f"--max-servers is {max_servers}, not a whole number >= 1")
    return Probing(VLLM, config, _by_tp(endpoints), max_servers or 1)


def _by_tp(texts: tuple[str, ...]) -> dict[int, str]:
    """`TP=URL` texts as a mapping."""
    found: dict[int, str] = {}
    for text in texts:
        tp, equals, url = text.removeprefix("tp").partition("=")
        if not equals or not tp.isdecimal() or int(tp) < 1 or int(tp) in found:
            raise UsageError(f"--endpoint {text!r} is not TP=URL", "for example --endpoint 4=http://127.0.0.1:8000")
        found[int(tp)] = url
    return found


@dataclass(frozen=True)
class Prepared:
    """A live run before anything is started: serve.toml, what is sent, the cells that can be measured, what to know before."""

    config: ServeConfig
    sending: Sending
    cells: tuple[Cell, ...]
    warnings: tuple[str, ...]


def prepared(probing: Probing, read: Folder, seed: int, *, dry: bool = False) -> Prepared:
    """A live run, after every check that needs no server; a dry one shows what is not there, and continues.

    Raises:
        UsageError: when nothing can be measured, or a class has no load.
        InputError: with every error of serve.toml or of a trace.
    """

    assert probing.config is not None
    config = _stated(probing.config, probing.folder)
    if len(read.instance.fleet.pools) > 1:
        raise UsageError("a live run measures one pool, but the instance has several", "start one run for each pool")
    _refuse_strangers(config, read.instance)
    sending = sending_of(read.instance, config, seed)
    absent = _absent(config, probing.endpoints)
    if absent and not dry:
        raise absent[0]
    cells, left_out = measurable(read.instance, config, probing.endpoints)
    if not cells:
        raise UsageError("no cell of the instance can be measured", "; ".join(left_out) or "cells.csv has none")
    few = too_few_requests(read.instance, cells)
    return Prepared(config, sending, cells, (*(fault.message for fault in absent), *left_out, *filter(None, (few,))))


def _stated(path: Path, folder: Path | None) -> ServeConfig:
    """What the serve.toml at `path` states; where it is the copy of a run, relative paths in it are seen from `folder`.

    Raises:
        InputError: with every error; of a copy whose `folder` is gone, the hint states what fixes that.
    """

    try:
        return read_serve_config(path, folder)
    except InputError as error:
        if folder is None or folder.is_dir():
            raise
        hint = f"paths in {path} are relative to {folder}, which is gone: give a serve.toml beside those files, --config FILE"
        raise InputError(error.faults, hint) from error


def _refuse_strangers(config: ServeConfig, instance: Instance) -> None:
    """Refuse loads and servers of what the instance does not have: a mistyped name would be ignored in silence."""
    classes = list(instance.class_by_name)
    for name in config.load.classes:
        if name not in classes:
            raise UsageError(
                f"serve.toml has [load.class.{name}], and {instance.name} has no such class",
                f"it has {', '.join(classes)}",
            )
    variants = sorted({cell.key.variant for cell in instance.cells} - {DEFAULT_VARIANT})
    for name in config.per_variant:
        if name not in variants:
            raise UsageError(
                f"serve.toml has [serve.variant.{name}], and {instance.name} has no cell of that variant",
                f"its variants are {', '.join(variants)}"
                if variants
                else "give its cells in a column variant of cells.csv",
            )
    if lacking := [name for name in variants if name not in config.per_variant]:
        raise UsageError(
            f"{instance.name} has cells of variant {lacking[0]}, and serve.toml does not say how they are served",
            f"write [serve.variant.{lacking[0]}] with arguments, environment, model or command",
        )
    tps = sorted({cell.key.tp for cell in instance.cells})
    for tp in config.per_tp:
        if tp not in tps:
            known = ", ".join(map(str, tps))
            raise UsageError(
                f"serve.toml has [serve.tp.{tp}], and {instance.name} has no cell of TP {tp}", f"it has TP {known}"
            )


def _absent(config: ServeConfig, endpoints: Mapping[int, str]) -> tuple[FleetSieveError, ...]:
    """The commands that are not there and the endpoints that cannot be measured, looked at before anything is started."""

    absent: list[FleetSieveError] = []
    generator = config.load.program
    if shutil.which(generator[0]) is None:
        absent.append(EngineMissing(why_not_run(generator[0], "sends the load"), config.load.kind.install))
    absent += [
        UsageError(why, "start the server and wait until it is ready, or correct --endpoint")
        for url in endpoints.values()
        if (why := Endpoint(url, config.served_name).unfit()) is not None
    ]
    for name in () if endpoints else (DEFAULT_VARIANT, *config.per_variant):
        if program_path(served := config.of(name)) is None:
            section = "[serve]" if name == DEFAULT_VARIANT else f"[serve.variant.{name}]"
            hint = f"install it, or give its path: {section} command = [...]"
            absent.append(EngineMissing(why_not_run(served.command[0], "starts a server"), hint))
    return tuple(absent)


@contextmanager
def opened(
    probing: Probing,
    read: Folder,
    run: Path,
    seed: int,
    view: LiveView | None,
    paid: Callable[[], GpuSeconds] | None = None,
    *,
    way_on: str,
) -> Iterator[Probe]:
    """The probe of the run at `run`. When this ends, however it ends, no server of it is left.

    `paid` gives what the rows of the run cost before (see `Replicas`); None where it is measured by hand. `way_on` is the command
    that continues when an error has ended it.

    Raises:
        UsageError: when its files, its GPUs or its load generator are not as they must be.
    """
    if not probing.live:
        yield Replay(read_measurements(run / HIDDEN, read.instance), read.measurements)
        return

    assert view is not None
    for server in leave_others(run):
        whose = f"another run, whose process {server.owner[0] if server.owner else ''} still runs"
        say(
            messages(),
            f"the server on port {server.port} (process {server.pid}) belongs to {whose}: it is left running",
        )
    for orphan in stop_orphans(run):
        say(messages(), f"stopped the server that was left on port {orphan.server.port} (process {orphan.server.pid})")
    ready = prepared(probing, read, seed)
    for sentence in ready.warnings:
        say(messages(), f"warning: {sentence}", "yellow")
    replicas = Replicas(
        ready.config,
        run,
        endpoints=probing.endpoints,
        most=probing.max_servers,
        paid=paid,
        tell=view.note,
    )
    with replicas, view:
        yield Live(
            read.instance,
            replicas,
            ready.sending,
            run,
            cells=ready.cells,
            measured=read.measurements,
            tell=view.phase,
            way_on=way_on,
        )

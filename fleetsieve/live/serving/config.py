"""serve.toml: the model, how its server is started, on which GPUs and ports, and what load it gets.

[serve]
model = "meta-llama/Llama-3.1-8B-Instruct"   # or a folder, seen from this file
served_name = "llama"                        # default: the model
command = ["vllm", "serve"]                  # or any other that ends in an OpenAI-compatible server; a path is seen from this file
arguments = ["--max-model-len", "8192"]
environment = { HF_HUB_OFFLINE = "1" }
gpus = [0, 1, 2, 3]                          # indices as nvidia-smi counts, or UUIDs; none: the engine chooses
host = "127.0.0.1"                           # loopback only
ports = 8100                                 # the first one, or [first, last]
ready_s = 900                                # from the start until it must answer
stop_s = 10                                  # from SIGTERM to SIGKILL
reset = "prefix-cache"                       # between cells; or "none"
attention_heads = 32                         # where the model is no folder with a config.json

[serve.tp.4]                                 # added for this TP alone; of an option given twice the last counts
arguments = ["--max-num-seqs", "512"]

[serve.variant.fp8]                          # for the cells of an engine variant: model and command in place of those above,
model = "RedHatAI/Meta-Llama-3.1-8B-FP8"     # arguments after them, variables over them
arguments = ["--kv-cache-dtype", "fp8"]

[load]                                       # see load_config.py
generator = "aiperf"                         # or "vllm-bench"
[load.class.chat]
trace = "chat.csv"
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fleetsieve.errors import InputError, UsageError
from fleetsieve.files.faults import FaultList
from fleetsieve.files.schema import AT_LEAST_ONE, NON_NEGATIVE, POSITIVE, Range
from fleetsieve.files.toml_lines import Place
from fleetsieve.files.toml_reading import TomlTables, read_toml, shown
from fleetsieve.files.toml_schema import SECTIONS, Key, Type
from fleetsieve.keys import DEFAULT_VARIANT
from fleetsieve.live.serving.load_config import LOAD, LoadConfig, local_or_name, read_load, seen_from, words

PREFIX_CACHE, NO_RESET = "prefix-cache", "none"
FIRST_PORT, PORT_COUNT = 8100, 100
OURS = ("--model", "--host", "--port", "--tensor-parallel-size", "-tp", "--served-model-name")
"""Options that a start sets itself: given once more in the arguments, they would make the server another one than was asked."""

SERVE = {
    "model": Key(Type.TEXT, required=True),
    "served_name": Key(Type.TEXT),
    "host": Key(Type.TEXT),
    "ready_s": Key(Type.NUMBER, POSITIVE, "seconds"),
    "stop_s": Key(Type.NUMBER, NON_NEGATIVE, "seconds"),
    "reset": Key(Type.TEXT, choices=(PREFIX_CACHE, NO_RESET)),
    "attention_heads": Key(Type.INTEGER, AT_LEAST_ONE),
}
_PORT = Key(Type.INTEGER, Range(1.0, 65535.0))


@dataclass(frozen=True, slots=True)
class TpOverrides:
    """What the servers of one TP get beyond the rest: arguments after the common ones, variables over the common ones."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VariantOverrides:
    """What the servers of one engine variant get: another model or command (None: the common one), and `more`."""

    more: TpOverrides = field(default_factory=TpOverrides)
    model: str | None = None
    command: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """What serve.toml states. `model` is a name or an absolute path; `ports` are the ports that may be used, in order.

    `gpus` are the ids of the GPUs (index or UUID), none where the engine chooses itself (on a CPU). `attention_heads` is None
    where nothing shows it.
    """

    model: str
    served_name: str
    command: tuple[str, ...] = ("vllm", "serve")
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    ports: range = range(FIRST_PORT, FIRST_PORT + PORT_COUNT)
    ready_s: float = 900.0
    stop_s: float = 10.0
    reset: str = PREFIX_CACHE
    attention_heads: int | None = None
    per_tp: Mapping[int, TpOverrides] = field(default_factory=dict)
    load: LoadConfig = field(default_factory=LoadConfig)
    per_variant: Mapping[str, VariantOverrides] = field(default_factory=dict)

    def of(self, variant: str) -> ServeConfig:
        """What is stated for the servers of one engine variant: what it has of its own in place of, or after, what all have."""
        changed = self.per_variant.get(variant)
        if changed is None:
            return self
        heads = self.attention_heads
        if changed.model is not None:
            heads = heads_of(Path(changed.model)) or heads
        return replace(
            self,
            model=changed.model or self.model,
            command=changed.command or self.command,
            arguments=(*self.arguments, *changed.more.arguments),
            environment={**self.environment, **changed.more.environment},
            attention_heads=heads,
            per_variant={},
        )


def read_serve_config(path: Path, folder: Path | None = None) -> ServeConfig:
    """What the serve.toml at `path` states; relative paths in it are seen from `folder` (default: its own).

    Raises:
        UsageError: when there is no such file, or it is a folder or a pipe.
        InputError: with every error of the file, each with its line.
    """
    _refuse_no_file(path)
    faults = FaultList(path.name)
    tables = read_toml(path, faults)
    config = None if tables is None else _read(tables, path.resolve().parent if folder is None else folder)
    if config is None or faults.errors:
        raise InputError(faults.errors)
    return config


def _refuse_no_file(path: Path) -> None:
    """Refuse what cannot be read as often as a run needs it; a pipe would be waited for."""
    if path.is_file():
        return
    if path.is_dir():
        inside = path / "serve.toml"
        right = f"give the file in it: {inside}" if inside.is_file() else "give the serve.toml itself"
        raise UsageError(f"{path} is a folder, not a file", right)
    if path.exists():
        what = "a pipe" if path.is_fifo() else "a device or a socket"
        raise UsageError(f"{path} is {what}, and a run reads its serve.toml again", "write it to a file, and give that")
    raise UsageError(f"there is no file {path}", 'write a serve.toml: [serve] with model = "..." is enough')


def _read(tables: TomlTables, folder: Path) -> ServeConfig:
    ours = _refuse_misplaced(tables, (), tables.content, SECTIONS, "section '{0}' belongs in instance.toml")
    tables.refuse_unknown((), ours, ["serve", "load"])
    section = tables.table("serve")
    if section is None:
        tables.tell(("serve",), "missing section", 'the section [serve] is missing; write [serve] with model = "..."')
        section = {"model": "x"}
    other = ["command", "arguments", "environment", "gpus", "ports", "tp", "variant"]
    ours = _refuse_misplaced(tables, ("serve",), section, {*LOAD} - {*SERVE, *other}, "'{0}' belongs under [load]")
    tables.refuse_unknown(("serve",), ours, [*SERVE, *other])
    values = tables.values(("serve",), section, SERVE)
    model = values.get("model", "")
    if "model" in values and not model.strip():
        tables.tell(("serve", "model"), "empty field", "model is empty; write the model's name or folder")
    _refuse_no_folder(tables, ("serve", "model"), model, folder)
    values["served_name"] = values.get("served_name") or model
    values["model"] = local_or_name(model, folder) if model else ""
    if "host" in values and not _is_loopback(values["host"]):
        message = f"{values['host']!r} is open to others; a server that is measured must listen on 127.0.0.1"
        tables.tell(("serve", "host"), "not loopback", message)
    if "command" in section:
        values["command"] = _command(tables, ("serve", "command"), section["command"], folder)
    common = _overrides(tables, ("serve",), section)
    if (heads := values.get("attention_heads") or heads_of(Path(values["model"]))) is not None:
        values["attention_heads"] = heads
    return ServeConfig(
        **values,
        arguments=common.arguments,
        environment=common.environment,
        gpus=_gpus(tables, section.get("gpus", [])),
        ports=_ports(tables, section.get("ports", FIRST_PORT)),
        per_tp=_per_tp(tables, section.get("tp", {})),
        load=read_load(tables, folder, values["model"]),
        per_variant=_per_variant(tables, section.get("variant", {}), folder),
    )


def _refuse_no_folder(tables: TomlTables, place: Place, model: str, folder: Path) -> None:
    if model.startswith((".", "/", "~")) and not (folder / Path(model).expanduser()).is_dir():
        tables.tell(place, "missing folder", f"there is no folder {model}; write the model's name or folder")


def _command(tables: TomlTables, place: Place, stated: Any, folder: Path) -> tuple[str, ...]:
    if not stated or not str(stated).strip():
        tables.tell(place, "empty field", 'command is empty; write command = ["vllm", "serve"]')
    return seen_from(folder, words(tables, place, stated))


def _per_variant(tables: TomlTables, section: Any, folder: Path) -> Mapping[str, VariantOverrides]:
    if not isinstance(section, dict) or not all(isinstance(table, dict) for table in section.values()):
        tables.tell(
            ("serve", "variant"), "wrong type", "the settings of a variant are a section; write [serve.variant.NAME]"
        )
        return {}
    read = {}
    for name, table in section.items():
        place = ("serve", "variant", name)
        if name == DEFAULT_VARIANT:
            tables.tell(place, "default variant", f"the settings of the variant {name!r} belong in [serve]")
            continue
        tables.refuse_unknown(place, table, ["model", "command", "arguments", "environment"])
        model = tables.values(place, table, {"model": Key(Type.TEXT)}).get("model")
        if model is not None:
            _refuse_no_folder(tables, (*place, "model"), model, folder)
            model = local_or_name(model, folder) if model else None
        command = _command(tables, (*place, "command"), table["command"], folder) if "command" in table else None
        read[name] = VariantOverrides(_overrides(tables, place, table), model, command)
    return read


def _refuse_misplaced(
    tables: TomlTables, place: Place, table: Mapping[str, Any], elsewhere: Collection[str], right: str
) -> Mapping[str, Any]:
    """Tell what has its place `elsewhere`, in the words of `right`; gives the table without it."""
    for name in table:
        if name in elsewhere:
            tables.tell((*place, name), "wrong place", right.format(name))
    return {name: value for name, value in table.items() if name not in elsewhere}


def heads_of(model: Path) -> int | None:
    """The attention heads of a model folder as its config.json shows; None where it does not."""
    try:
        content = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    for part in (
        (content, *(content.get(name) for name in ("text_config", "llm_config"))) if isinstance(content, dict) else ()
    ):
        heads = part.get("num_attention_heads") if isinstance(part, dict) else None
        if isinstance(heads, int) and heads > 0:
            return heads
    return None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _overrides(tables: TomlTables, place: Place, table: Mapping[str, Any]) -> TpOverrides:
    arguments = tables.values(place, table, {"arguments": Key(Type.TEXTS)}).get("arguments", [])
    for word in arguments:
        if word.split("=")[0] in OURS:
            message = f"{word.split('=')[0]} is set by FleetSieve; remove it from arguments"
            tables.tell((*place, "arguments"), "option of ours", message)
    environment = table.get("environment", {})
    if not isinstance(environment, dict):
        message = f'{shown(environment)} is not a table; write environment = {{ NAME = "value" }}'
        tables.tell((*place, "environment"), "wrong type", message)
        environment = {}
    inner = (*place, "environment")
    return TpOverrides(tuple(arguments), tables.values(inner, environment, dict.fromkeys(environment, Key(Type.TEXT))))


def _per_tp(tables: TomlTables, section: Any) -> Mapping[int, TpOverrides]:
    if not isinstance(section, dict) or not all(isinstance(table, dict) for table in section.values()):
        tables.tell(("serve", "tp"), "wrong type", "the settings of a TP are a section; write [serve.tp.4]")
        return {}
    read = {}
    for name, table in section.items():
        place = ("serve", "tp", name)
        if not (name.isascii() and name.isdigit() and int(name) > 0):
            tables.tell(
                place, "no TP", f"{name!r} is not a tensor-parallel degree; write a whole number, as in [serve.tp.4]"
            )
            continue
        tables.refuse_unknown(place, table, ["arguments", "environment"])
        read[int(name)] = _overrides(tables, place, table)
    return read


def _gpus(tables: TomlTables, value: Any) -> tuple[str, ...]:
    place = ("serve", "gpus")
    right = isinstance(value, list) and all(
        (isinstance(gpu, str) and gpu) or (isinstance(gpu, int) and not isinstance(gpu, bool) and gpu >= 0)
        for gpu in value
    )
    if not right:
        tables.tell(place, "wrong type", "gpus must be a list of GPU indices or UUIDs, as in gpus = [0, 1]")
        return ()
    gpus = tuple(map(str, value))
    for gpu in dict.fromkeys(gpu for gpu in gpus if gpus.count(gpu) > 1):
        tables.tell(place, "duplicate GPU", f"GPU {gpu} appears twice in gpus; write each once")
    return gpus


def _ports(tables: TomlTables, value: Any) -> range:
    place = ("serve", "ports")
    bounds = value if isinstance(value, list) else [value]
    if len(bounds) not in (1, 2) or not all(isinstance(port, int) and not isinstance(port, bool) for port in bounds):
        message = f"{shown(value)} is not a port; ports must be the first one, or [first, last]"
        tables.tell(place, "wrong type", message)
        return range(0)
    if not all(_PORT.range.holds(port) for port in bounds) or bounds[0] > bounds[-1]:
        tables.tell(place, "out of range", f"ports {bounds} are not ports from 1 to 65535 in rising order")
        return range(0)
    return range(bounds[0], (bounds[1] if len(bounds) == 2 else min(65535, bounds[0] + PORT_COUNT - 1)) + 1)

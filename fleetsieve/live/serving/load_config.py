"""What serve.toml states about the load: the generator, its deadlines, and where each class's requests come from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetsieve.errors import UsageError
from fleetsieve.files.schema import AT_LEAST_ONE, NON_NEGATIVE, POSITIVE
from fleetsieve.files.toml_lines import Place
from fleetsieve.files.toml_reading import TomlTables, shown
from fleetsieve.files.toml_schema import Key, Type
from fleetsieve.live.load.generators import DEFAULT, generator_named
from fleetsieve.live.load.protocol import GeneratorKind

TRACE_FORMATS = ("plain", "azure", "burstgpt", "mooncake")

LOAD = {
    "generator": Key(Type.TEXT),
    "request_timeout_s": Key(Type.NUMBER, POSITIVE, "seconds"),
    "run_deadline_s": Key(Type.NUMBER, POSITIVE, "seconds"),
    "fresh_warmup_s": Key(Type.NUMBER, NON_NEGATIVE, "seconds"),
    "tokenizer": Key(Type.TEXT),
    "seed": Key(Type.INTEGER),
}
CLASS = {
    "trace": Key(Type.TEXT),
    "format": Key(Type.TEXT, choices=TRACE_FORMATS),
    "token_scale": Key(Type.NUMBER, POSITIVE),
    "max_total_tokens": Key(Type.INTEGER, AT_LEAST_ONE, "tokens"),
    "seed": Key(Type.INTEGER),
}
_OF_TRACES = ("format", "token_scale", "max_total_tokens")
_COUNT = Key(Type.INTEGER, AT_LEAST_ONE, "tokens")
_TOKENS = {"mean": Key(Type.NUMBER, AT_LEAST_ONE, "tokens"), "min": _COUNT, "max": _COUNT}
_FORMS = "a number of tokens, { mean = ... } or { min = ..., max = ... }"


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """How many tokens the prompts or the answers of a class have: from `least` to `most`, or with the mean `mean`.

    A fixed number has `least` = `most`; with a mean alone both are None.
    """

    least: int | None = None
    most: int | None = None
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class ClassLoad:
    """Where the requests of one class come from: a trace, or synthetic ones of a shape; neither: the means of classes.csv.

    `trace` is an absolute path; `format` None is detected from the file. Its arrivals are compressed until their mean rate
    is the cell's offered one. `token_scale` multiplies its token counts (for a small model); requests of more than
    `max_total_tokens`, in and out together, are left out. `seed` makes the synthetic prompts.
    """

    trace: Path | None = None
    format: str | None = None
    token_scale: float | None = None
    max_total_tokens: int | None = None
    input_tokens: TokenCounts | None = None
    output_tokens: TokenCounts | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """[load]: `command` is what starts the generator, empty where its own name does.

    `request_timeout_s` bounds one request, `run_deadline_s` one run of the generator (None: derived from the cell's window).
    `fresh_warmup_s` is added to the warm-up of the first look at a server, whose first answers are slow.
    `tokenizer` is a name or a folder (default: the model). `token_ids` are the first id of synthetic prompts and the one after
    the last (None: from the model's vocabulary).
    """

    generator: str = DEFAULT
    command: tuple[str, ...] = ()
    request_timeout_s: float = 60.0
    run_deadline_s: float | None = None
    fresh_warmup_s: float = 10.0
    tokenizer: str = ""
    seed: int = 0
    token_ids: tuple[int, int] | None = None
    classes: Mapping[str, ClassLoad] = field(default_factory=dict)

    @property
    def kind(self) -> GeneratorKind:
        """The load generator that is named."""
        return generator_named(self.generator)

    @property
    def program(self) -> tuple[str, ...]:
        """The command that sends the load: the one that is stated, else the generator's own."""
        return self.command or self.kind.program

    def of_class(self, name: str) -> ClassLoad:
        """The load of the class `name`; one that serve.toml does not name has the means of classes.csv."""
        return self.classes.get(name, ClassLoad(seed=self.seed))


def read_load(tables: TomlTables, folder: Path, model: str) -> LoadConfig:
    """[load] of serve.toml in `folder`; its errors go to the tables' list."""
    section = tables.table("load") or {}
    tables.refuse_unknown(("load",), section, [*LOAD, "command", "token_ids", "class"])
    values = tables.values(("load",), section, LOAD)
    try:
        generator_named(values.get("generator", DEFAULT))
    except UsageError as error:
        del values["generator"]
        message = f"{error.message}; {error.hint}" if error.hint else error.message
        tables.tell(("load", "generator"), "unknown word", message)
    command = seen_from(folder, words(tables, ("load", "command"), section.get("command", [])))
    tokenizer = values.pop("tokenizer", "")
    seed = values.get("seed", 0)
    classes = section.get("class", {})
    if not isinstance(classes, dict) or not all(isinstance(table, dict) for table in classes.values()):
        tables.tell(("load", "class"), "wrong type", "the load of a class is a section; write [load.class.NAME]")
        classes = {}
    return LoadConfig(
        command=command,
        tokenizer=local_or_name(tokenizer, folder) if tokenizer else model,
        token_ids=_token_ids(tables, section.get("token_ids")),
        classes={name: _class_load(tables, name, table, folder, seed) for name, table in classes.items()},
        **values,
    )


def _token_ids(tables: TomlTables, value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    whole = isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
    if not whole or len(value) != 2 or not 0 <= value[0] < value[1] - 1:
        message = (
            f"{shown(value)} are not token ids; write the first and the last plus one, as in token_ids = [1000, 20000]"
        )
        tables.tell(("load", "token_ids"), "wrong form", message)
        return None
    return value[0], value[1]


def words(tables: TomlTables, place: Place, value: Any) -> tuple[str, ...]:
    """A command as its words: a list of texts, or one text that is split as a shell would."""
    if isinstance(value, list) and all(isinstance(word, str) and word for word in value):
        return tuple(value)
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            tables.tell(place, "quotes", f"{value!r} cannot be split into words ({error}); write a list of texts")
            return ()
    name = place[-1]
    tables.tell(place, "wrong type", f"{shown(value)} is not a command; {name} must be a text or a list of texts")
    return ()


def seen_from(folder: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    """A command whose program is a path that is there, seen from `folder`: with its absolute path; any other as it is."""
    if not command or "/" not in command[0]:
        return command
    path = os.path.abspath(folder / command[0])  # a link stays one: the python of an environment is
    return (path, *command[1:]) if os.path.exists(path) else command


def local_or_name(text: str, folder: Path) -> str:
    """A model or tokenizer: the absolute path of a folder that is there, seen from `folder`, or the name as it is."""
    path = (folder / Path(text).expanduser()).resolve()
    return str(path) if path.is_dir() else text


def _class_load(tables: TomlTables, name: str, table: Mapping[str, Any], folder: Path, seed: int) -> ClassLoad:
    place: Place = ("load", "class", name)
    tables.refuse_unknown(place, table, [*CLASS, "input_tokens", "output_tokens"])
    values = tables.values(place, table, CLASS)
    trace = None
    if "trace" in values:
        trace = (folder / Path(values["trace"]).expanduser()).resolve()
        if not trace.is_file():
            tables.tell(
                (*place, "trace"),
                "missing file",
                f"there is no file {trace}; write the path of a trace, or leave the class out",
            )
    shape = {
        key: _tokens(tables, (*place, key), table[key]) for key in ("input_tokens", "output_tokens") if key in table
    }
    if shape and "trace" in table:
        key = next(iter(shape))
        tables.tell((*place, key), "two loads", f"trace and {key} exclude each other: a trace has its own tokens")
    if len(shape) == 1:
        (given,) = shape
        (other,) = {"input_tokens", "output_tokens"} - {given}
        tables.tell((*place, given), "missing key", f"{given} needs {other} too; write both")
    for key in _OF_TRACES:
        if key in table and "trace" not in table:
            tables.tell((*place, key), "no trace", f"{key} needs a trace; write trace = ... too")
    return ClassLoad(
        trace=trace,
        format=values.get("format"),
        token_scale=values.get("token_scale"),
        max_total_tokens=values.get("max_total_tokens"),
        seed=values.get("seed", seed),
        **shape,
    )


def _tokens(tables: TomlTables, place: Place, value: Any) -> TokenCounts | None:
    if isinstance(value, dict):
        tables.refuse_unknown(place, value, _TOKENS)
        read = tables.values(place, value, _TOKENS)
        if set(value) not in ({"mean"}, {"min", "max"}):
            tables.tell(place, "wrong form", f"{place[-1]} must be {_FORMS}")
            return None
        if {"min", "max"} <= set(read) and read["min"] > read["max"]:
            tables.tell(place, "out of range", f"min {read['min']} is more than max {read['max']}")
        return TokenCounts(read.get("min"), read.get("max"), read.get("mean"))
    name = str(place[-1])
    if not isinstance(value, int) or isinstance(value, bool):
        tables.tell(place, "wrong type", f"{shown(value)} is not a number of tokens; {name} must be {_FORMS}")
        return None
    read = tables.values(place[:-1], {name: value}, {name: _COUNT})
    return TokenCounts(read.get(name), read.get(name))

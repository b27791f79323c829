"""The settings of an instance -> instance.toml.

Written here and not by a library: the file has two levels, four types and no inline tables but those of [assumptions], and
a fixed order and layout is what makes the same instance the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from fleetsieve.errors import UsageError
from fleetsieve.files.toml_schema import SCHEMA_VERSION
from fleetsieve.instance import DEFAULT_POOL, Facts, Fleet, Instance, Pool

_PLAIN = re.compile("[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def instance_text(instance: Instance) -> str:
    """The whole of instance.toml. Keys whose value is None are left out.

    Raises:
        UsageError: when a text in it cannot be written in UTF-8.
    """
    lines = [f"schema_version = {SCHEMA_VERSION}", f"name = {_value(instance.name)}"]
    if instance.source:
        lines.append(f"source = {_value(instance.source)}")
    lines += _fleet(instance.fleet)
    lines += _section("facts", _facts(instance.facts))
    for name in sorted(instance.facts.variants):
        lines += _section(f"facts.variant.{_key(name)}", _facts(instance.facts.variants[name]))
    # A rule set belongs to a stored run or certificate, never to an instance.
    lines += _section("certificate", asdict(instance.certificate) | {"rule_set": None})
    lines += _section("measure", asdict(instance.measure))
    lines += _section("assumptions", {name: instance.assumptions[name] for name in sorted(instance.assumptions)})
    lines += _section("noise", {name: instance.noise[name] for name in sorted(instance.noise)})
    return "\n".join(lines) + "\n"


def _facts(facts: Facts) -> dict[str, object]:
    return asdict(facts) | {"speculative_decoding": facts.speculative_decoding or None, "variants": None}


def _fleet(fleet: Fleet) -> Iterator[str]:
    scale = {"max_utilisation": fleet.max_utilisation if fleet.max_utilisation != 1.0 else None}
    if len(fleet.pools) == 1 and fleet.pools[0].name == DEFAULT_POOL:
        yield from _section("fleet", _pool(fleet.pools[0]) | scale)
        return
    yield from _section("fleet", scale) or ["", "[fleet]"]
    for pool in fleet.pools:
        yield from ("", "[[fleet.pools]]", f"name = {_value(pool.name)}")
        yield from _keys(_pool(pool))


def _pool(pool: Pool) -> dict[str, object]:
    return {name: value for name, value in asdict(pool).items() if name != "name"}


def _section(name: str, values: Mapping[str, object]) -> list[str]:
    keys = list(_keys(values))
    return ["", f"[{name}]", *keys] if keys else []


def _keys(values: Mapping[str, object]) -> Iterator[str]:
    return (f"{_key(name)} = {_value(value)}" for name, value in values.items() if value is not None)


def _key(name: str) -> str:
    """A key as TOML wants it: only plain ones go without quotes, and an assumption may be called `module:Class`."""
    return name if _PLAIN.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        if list(value) == ["enabled"]:
            return _value(value["enabled"])
        return "{ " + ", ".join(f"{key} = {_value(value[key])}" for key in sorted(value)) + " }" if value else "{}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, str):
        if any("\ud800" <= mark <= "\udfff" for mark in value):
            raise UsageError(f"the text {value!r} cannot be written in UTF-8")
        return '"' + "".join(_ESCAPES.get(mark) or _escaped(mark) for mark in value) + '"'
    return str(value)


def _escaped(mark: str) -> str:
    """Control characters (and the other line ends of Unicode, so that lines stay lines) as escapes."""
    return f"\\u{ord(mark):04x}" if ord(mark) < 0x20 or mark in "\x7f\x85\u2028\u2029" else mark

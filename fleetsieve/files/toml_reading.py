"""A TOML file as tables and values that are checked against keys, with an error for every wrong one, by line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetsieve.files.csv_rows import utf8_bytes
from fleetsieve.files.faults import FaultList, close_match, listed_values
from fleetsieve.files.schema import number_text
from fleetsieve.files.toml_lines import Place, line_of, lines_of_keys
from fleetsieve.files.toml_schema import Key, Type

_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class TomlTables:
    """The content of a TOML file: sections are asked for one by one, and what is wrong with them goes to `faults`."""

    content: Mapping[str, Any]
    lines: Mapping[Place, int]
    faults: FaultList

    def section(self, name: str, keys: Mapping[str, Key]) -> dict[str, Any]:
        """The values of the section `name`, all of whose keys must be `keys`."""
        table = self.table(name) or {}
        self.refuse_unknown((name,), table, keys)
        return self.values((name,), table, keys)

    def table(self, name: str) -> Mapping[str, Any] | None:
        """The section `name`; None when it is absent, empty when it is no section, which is reported."""
        value = self.content.get(name)
        if value is None or isinstance(value, dict):
            return value
        self.tell((name,), "wrong type", f"{name} is a section, not a value; write [{name}] on a line of its own")
        return {}

    def values(self, place: Place, table: Mapping[str, Any], keys: Mapping[str, Key]) -> dict[str, Any]:
        """The values of `keys` that are there and right; the others are reported."""
        read: dict[str, Any] = {}
        for name, key in keys.items():
            if name not in table:
                if key.required:
                    self.tell(
                        (*place, name), "missing key", f"the key {name!r} is missing; write {name} = ({key.remedy})"
                    )
                continue
            kind, message = _fault(name, table[name], key)
            if message:
                self.tell((*place, name), kind, message)
            else:
                read[name] = float(table[name]) if key.type is Type.NUMBER else table[name]
        return read

    def refuse_unknown(self, place: Place, table: Mapping[str, Any], known: Sequence[str] | Mapping[str, Any]) -> None:
        """Tell every name in the table at `place` that is not `known`, the first with those that are."""
        names = f" ({_section(place) or 'here'} takes {listed_values(known, limit=20)})"
        for name in table:
            if name not in known:
                what = "section" if not place and isinstance(table[name], dict) else "key"
                self.tell(
                    (*place, name), f"unknown {what}", f"unknown {what} {name!r}{close_match(name, known)}{names}"
                )
                names = ""

    def tell(self, place: Place, kind: str, message: str) -> None:
        """Add an error at `place`, with its line; `kind` is a short phrase by which errors are counted."""
        column = ".".join(str(part) for part in place if not isinstance(part, int))
        self.faults.add(line_of(self.lines, place), column, kind, message)


def read_toml(path: Path, faults: FaultList) -> TomlTables | None:
    """The tables of the TOML file at `path`; None, with the error, when it is no TOML at all."""
    data = utf8_bytes(path, faults)
    if data is None:
        return None
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = _AT_LINE.search(message)
        line = int(at[1]) if at else text.rstrip().count("\n") + 1
        where = f" (character {at[2]} of the line)" if at else ""
        faults.add(line, "", "syntax", f"this is not TOML: {_AT_LINE.sub('', message)}{where}")
        return None
    return TomlTables(content, lines_of_keys(text), faults)


def _fault(name: str, value: Any, key: Key) -> tuple[str, str]:
    """The kind and message of what is wrong with a value; an empty message when it is right."""
    numeric = key.type in (Type.NUMBER, Type.INTEGER)
    right = {
        Type.TEXT: isinstance(value, str),
        Type.TEXTS: isinstance(value, list) and all(isinstance(text, str) for text in value),
        Type.FLAG: isinstance(value, bool),
        Type.NUMBER: isinstance(value, int | float) and not isinstance(value, bool),
        Type.INTEGER: isinstance(value, int) and not isinstance(value, bool),
    }[key.type]
    if not right:
        return "wrong type", f"{shown(value)} is not {key.type.value}; {name} must be {key.remedy}"
    if numeric and (abs(value) > 1e300 or not math.isfinite(value)):
        return "not a finite number", f"{shown(value)} is not a usable number; {name} must be {key.remedy}"
    if numeric and not key.range.holds(value):
        return key.range.kind_of_fault(value), key.range.fault(name, value)
    if key.choices and value not in key.choices:
        return (
            "unknown word",
            f"{shown(value)} is unknown{close_match(value, key.choices)}; {name} must be {key.remedy}",
        )
    return "", ""


def _section(place: Place) -> str:
    names = ".".join(str(part) for part in place if not isinstance(part, int))
    return f"[{names}]" if names else ""


def shown(value: Any) -> str:
    """A TOML value as it was written, more or less."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and abs(value) <= 1e300:
        return number_text(value)
    return repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"

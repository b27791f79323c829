"""On which line of a TOML text a key is: the parser of the standard library does not show."""

from __future__ import annotations

import re
from collections.abc import Mapping

Place = tuple[str | int, ...]
"""A key by its sections: ("fleet", "gpus"), or ("fleet", "pools", 0, "gpus") in the first of an array of tables."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_PATH = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*\[\s*({_PATH})\s*\]")
_ARRAY = re.compile(rf"\s*\[\[\s*({_PATH})\s*\]\]")
_KEY = re.compile(rf"\s*({_PATH})\s*=")
_MULTILINE = re.compile(r'"""|\'\'\'')


def lines_of_keys(text: str) -> Mapping[Place, int]:
    """The 1-based line of every table and key that starts a line of a valid TOML text.

    Keys inside an inline table are not found: ask for the table that holds them.
    """
    found: dict[Place, int] = {}
    section: Place = ()
    counts: dict[Place, int] = {}
    inside = ""  # the quotes of a multi-line text that is open
    for line, content in enumerate(text.split("\n"), start=1):
        if not inside:
            if match := _ARRAY.match(content):
                section = _parts(match[1])
                counts[section] = counts.get(section, -1) + 1
                found.setdefault(section, line)
                section = (*section, counts[section])
                found[section] = line
            elif match := _TABLE.match(content):
                section = _parts(match[1])
                found.setdefault(section, line)
            elif match := _KEY.match(content):
                path = _parts(match[1])
                for length in range(1, len(path) + 1):
                    found.setdefault((*section, *path[:length]), line)
        for quotes in _MULTILINE.findall(content):
            if not inside:
                inside = quotes
            elif inside == quotes:
                inside = ""
    return found


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """The line of `place`, or of the nearest table around it; 0 when none is known."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 0)


def _parts(path: str) -> Place:
    return tuple(part.strip("\"'") for part in re.findall(_PART, path))

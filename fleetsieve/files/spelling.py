"""One name, written in several ways: an accented letter can be one character or two (Unicode NFC and NFD), and both look alike.

Names are compared after NFC normalisation. What a name is called is what the file states that states it: classes.csv for a class,
instance.toml for a pool, cells.csv for a load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from unicodedata import normalize


def composed(name: str) -> str:
    """The name in NFC: two names are one when these are equal.

    >>> composed("cafe\\u0301") == "caf\\u00e9"
    True
    """
    return normalize("NFC", name)


def respelled(names: list[str], known: Iterable[str]) -> list[str]:
    """`names`, with each that is one of `known` but for its normalisation written as it is there."""
    distinct = set(names)
    if all(map(str.isascii, distinct)):
        return names
    as_stated = {composed(name): name for name in known}
    written = {name: as_stated.get(composed(name), name) for name in distinct}
    return [written[name] for name in names]


def spelled_twice(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The names that differ from an earlier one in their normalisation alone, each with that one."""
    first: dict[str, str] = {}
    for name in dict.fromkeys(names):
        earlier = first.setdefault(composed(name), name)
        if earlier != name:
            yield name, earlier


SPELLED_TWICE = "written with other Unicode characters (NFC and NFD); write the name in one way"
"""What is wrong with two names of one file that look alike."""

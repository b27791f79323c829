"""The errors of one file, collected: all of them counted, and of each kind as many kept as a person will read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fleetsieve.errors import Fault

PRINTED_ERRORS = 50
"""Errors of one (column, kind) that are reported one by one; the rest are one line with their count."""

PRINTED_SUSPICIONS = 5
"""The same for warnings: one wrong unit makes a whole column suspicious, and a few lines show it."""


@dataclass(slots=True)
class _Group:
    shown: list[Fault] = field(default_factory=list)
    hidden: int = 0


class FaultList:
    """Collects the errors of `file` as they are found.

    A kind is a short phrase ("not a number"); errors of one column and kind beyond the printed number are only counted.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self._groups: dict[tuple[str, str, str], _Group] = {}

    def add(self, line: int, column: str, kind: str, message: str) -> None:
        """One error at `line` (0: the file as a whole)."""
        self._add("error", column, kind, [line], [message])

    def suspect(self, line: int, column: str, kind: str, message: str) -> None:
        """One warning at `line`."""
        self._add("suspicion", column, kind, [line], [message])

    def add_all(self, column: str, kind: str, lines: Sequence[int], messages: Iterable[str]) -> None:
        """An error at each of `lines`; `messages` are taken one by one, and only for those that are printed."""
        self._add("error", column, kind, lines, messages)

    def suspect_all(self, column: str, kind: str, lines: Sequence[int], messages: Iterable[str]) -> None:
        """A warning at each of `lines`, as `add_all`."""
        self._add("suspicion", column, kind, lines, messages)

    def _add(self, severity: str, column: str, kind: str, lines: Sequence[int], messages: Iterable[str]) -> None:
        if not lines:
            return
        group = self._groups.setdefault((severity, column, kind), _Group())
        limit = PRINTED_ERRORS if severity == "error" else PRINTED_SUSPICIONS
        shown_lines = max(0, min(len(lines), limit - len(group.shown)))
        group.shown += [
            Fault(self.file, line, column, message, severity)
            for line, message in zip(lines[:shown_lines], messages, strict=False)
        ]
        group.hidden += len(lines) - shown_lines

    @property
    def errors(self) -> tuple[Fault, ...]:
        """The errors in the order of their lines, then one line for each kind that has more than are printed."""
        return self._ordered("error")

    @property
    def suspicions(self) -> tuple[Fault, ...]:
        """The warnings, in the same order."""
        return self._ordered("suspicion")

    def has_errors_in(self, columns: Iterable[str]) -> bool:
        """Whether an error concerns one of `columns` ("" is a whole line or the whole file)."""
        wanted = set(columns)
        return any(severity == "error" and column in wanted for severity, column, _ in self._groups)

    def _ordered(self, severity: str) -> tuple[Fault, ...]:
        groups = {key: group for key, group in self._groups.items() if key[0] == severity}
        shown = sorted((fault for group in groups.values() for fault in group.shown), key=lambda fault: fault.line)
        more = [
            Fault(self.file, 0, column, f"... and {group.hidden:,} more of this kind ({kind})", severity, group.hidden)
            for (_, column, kind), group in groups.items()
            if group.hidden
        ]
        return (*shown, *more)


def close_match(word: str, known: Iterable[str], least: float = 0.6) -> str:
    """`; did you mean 'x'?` with the known word closest to `word`, or an empty text when none is as similar as `least` (of 1)."""
    names = sorted(known)
    by_case = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(word.strip().casefold(), by_case, n=1, cutoff=least)
    return f"; did you mean {by_case[found[0]]!r}?" if found else ""


def listed_values(names: Iterable[object], limit: int = 12) -> str:
    """`a, b, c`, cut after `limit` names with the number of those left out."""
    words = [str(name) for name in names]
    rest = f" and {len(words) - limit:,} more" if len(words) > limit else ""
    return ", ".join(words[:limit]) + rest

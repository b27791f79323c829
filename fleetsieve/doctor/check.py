"""What an examination gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing examined: whether it is as it must be, what was found, and what to do where it is not.

    What could not be looked at is not `checked`: it is no error, and nothing is known of it.
    """

    name: str
    ok: bool
    detail: str
    hint: str = ""
    checked: bool = True

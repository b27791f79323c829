"""Colours of the figures: on white, on black, and as variables of a page that follows the reader's scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Palette:
    """Text and lines from strong to faint, paper, good, uncertain and bad, cells of a heat map by what they showed, and the
    classes.

    `keeps`, `may_keep`, `misses`, `failed`: grounds of cells that keep, may keep or miss their SLO, or failed; `pale`: of cells
    that are ruled out. `band`: a broad line under others. The classes alone have hues of their own.
    """

    ink: str
    soft: str
    faint: str
    paper: str
    good: str
    warn: str
    bad: str
    pale: str
    keeps: str
    may_keep: str
    misses: str
    failed: str
    band: str
    classes: tuple[str, ...]

    def of_class(self, place: int) -> str:
        """The colour of the class at `place`, from 0; they come round again after the last."""
        return self.classes[place % len(self.classes)]

    def named(self) -> dict[str, str]:
        """Each colour under a name that a style sheet can take."""
        names: dict[str, str] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            names |= {field.name: value} if isinstance(value, str) else _numbered(field.name, value)
        return names


def _numbered(name: str, colours: Sequence[str]) -> dict[str, str]:
    return {f"{name}-{place}": colour for place, colour in enumerate(colours)}


LIGHT = Palette(
    ink="#1c2430", soft="#566273", faint="#dde3ea", paper="#ffffff", good="#1a7f4b", warn="#a86200", bad="#c0342b", pale="#f7e6e3",
    keeps="#84bf9f", may_keep="#ecc070", misses="#e59a94", failed="#aab4c0", band="#b4bdc9",
    classes=("#2563a8", "#b3560b", "#0f7b6c", "#7a4fa3", "#a8326b", "#6b6b12", "#4a5b70", "#7b4a2e"),
)  # fmt: skip
DARK = Palette(
    ink="#e8ecf1", soft="#a3adba", faint="#2c3542", paper="#14191f", good="#4cc38a", warn="#f0a83c", bad="#ff7b72", pale="#3a2322",
    keeps="#2d7a58", may_keep="#8a6221", misses="#8f433f", failed="#566273", band="#566273",
    classes=("#6ea8ee", "#f2a15f", "#4fc9b4", "#b99ae6", "#f08bb8", "#c7c657", "#9fb2c8", "#cf9f80"),
)  # fmt: skip


def _variables(palette: Palette) -> Palette:
    one = {f.name: f"var(--{f.name})" for f in fields(palette) if f.name != "classes"}
    return Palette(**one, classes=tuple(f"var(--classes-{place})" for place in range(len(palette.classes))))


PAGE = _variables(LIGHT)
"""The variables of a page's style sheet: a figure in it takes the colours of the reader's scheme, on screen and on paper."""


def style_sheet() -> str:
    """The rules that give those variables their colours, light or dark by the reader's scheme."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in p.named().items()) for p in (LIGHT, DARK))
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}\n"
    )

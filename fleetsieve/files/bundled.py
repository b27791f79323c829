"""Instances that come with FleetSieve, found by name."""

from __future__ import annotations

import difflib
from pathlib import Path

from fleetsieve.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
ROOTS = (_PACKAGE / "bundled", _PACKAGE.parent / "instances")
"""Where the bundled instances lie: in an installed wheel, and in a checkout."""


def bundled_names() -> tuple[str, ...]:
    """The names of the bundled instances, sorted."""
    return tuple(sorted(_folders()))


def resolve(path_or_name: str | Path) -> Path:
    """The instance folder that is meant: an existing folder, or a bundled instance by its name.

    Raises:
        UsageError: when it is neither; the hint names the bundled instances, the closest first.

    An existing folder goes before a bundled instance of that name.
    """
    path = Path(path_or_name)
    if path.is_dir():
        return path
    folders = _folders()
    name = str(path_or_name)
    if name in folders:
        return folders[name]
    if path.exists():
        raise UsageError(f"{name} is a file, not an instance folder", f"give the folder: {path.parent}")
    hint = f"bundled instances: {', '.join(sorted(folders)) or 'none'}"
    if close := difflib.get_close_matches(name, folders, n=1, cutoff=0.5):
        hint = f"did you mean {close[0]}? {hint}"
    raise UsageError(f"{name!r} is neither a folder nor a bundled instance", hint)


def _folders() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in ROOTS:
        for file in sorted(root.glob("*/instance.toml")):
            found.setdefault(file.parent.name, file.parent)
    return found

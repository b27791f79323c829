"""Policies, assumptions and load generators from outside, by the name of an entry point or as `module:Name`.

An entry point is what an installed package declares under one of the groups below. `module:Name` names anything that Python can
import. Whatever is loaded is checked against its protocol before it is used, and a bundled name cannot be taken by another package.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from pathlib import Path
from typing import Any

from fleetsieve.errors import UsageError


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of extension: what messages call it, its group of entry points, and the type of each attribute of its protocol."""

    what: str
    group: str
    attributes: Mapping[str, Any]


POLICY = Kind("policy", "fleetsieve.policies", {"name": str, "seeded": bool, "choose": Callable})
ASSUMPTION = Kind(
    "assumption",
    "fleetsieve.assumptions",
    {"name": str, "across_arms": bool, "describe": Callable, "audit": Callable, "limits": Callable},
)
LOAD_GENERATOR = Kind(
    "load generator",
    "fleetsieve.load_generators",
    {"name": str, "make": Callable, "program": tuple, "install": str, "holds_concurrency": bool},
)
_CALLED = {str: "a text", bool: "True or False", tuple: "a tuple", Callable: "a method"}


def installed(kind: Kind) -> tuple[str, ...]:
    """The names of the entry points of a kind, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=kind.group)}))


def is_outside(kind: Kind, name: str) -> bool:
    """Whether `name` has the form `module:Name`, or is the entry point of an installed package."""
    return ":" in name or name in installed(kind)


def load(kind: Kind, name: str, **settings: float) -> Any:
    """The extension called `name`: an entry point, or `module:Name`.

    A class is called with `settings` and no other argument; any other object is taken as it is.

    Raises:
        UsageError: when it cannot be imported or made, takes other settings, or lacks an attribute of its protocol.
    """
    found = _found(kind, name)
    if not isinstance(found, type):
        if settings:
            raise UsageError(f"{kind.what} {name!r} is no class, so it takes no settings: {', '.join(settings)}")
        return _checked(kind, name, found, kind.attributes)
    methods = {attribute: type_ for attribute, type_ in kind.attributes.items() if type_ is Callable}
    _checked(kind, name, found, methods)  # no class is called that has nothing to do with FleetSieve
    if unknown := [setting for setting in settings if setting not in _numbers(found)]:
        takes = ", ".join(_numbers(found)) or "none"
        raise UsageError(f"unknown setting {unknown[0]!r} of {kind.what} {name!r}", f"its settings: {takes}")
    try:
        made = found(**settings)
    except Exception as error:
        raise UsageError(
            f"{kind.what} {name!r} cannot be made: {type(error).__name__}: {error}",
            "its class must need no argument; parameters with a number as default are its settings",
        ) from error
    return _checked(kind, name, made, kind.attributes)


def settings_of(kind: Kind, name: str) -> tuple[str, ...]:
    """The settings that the extension called `name` takes: the parameters of its class whose default is a number.

    Raises:
        UsageError: when it cannot be imported.
    """
    found = _found(kind, name)
    return _numbers(found) if isinstance(found, type) else ()


def look_in_current_folder(name: str) -> None:
    """Let `module:Name` be found in the current folder too, after everything that is installed.

    For names that a person typed. Those in an instance folder, which may come from somebody else, do not reach files that merely
    lie where a command was started.
    """
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def origin_of(value: object) -> str:
    """Where the class of an object comes from, as `module:Name`; "" where it is FleetSieve's own."""
    home = type(value)
    return "" if home.__module__.partition(".")[0] == "fleetsieve" else f"{home.__module__}:{home.__qualname__}"


def package_versions(value: object) -> dict[str, str]:
    """The installed packages that an object's class may come from, with their versions; empty for a file of one's own."""
    if not origin_of(value):
        return {}
    packages = packages_distributions().get(type(value).__module__.partition(".")[0], ())
    return {package: version(package) for package in sorted(set(packages))}


def source_digest(value: object) -> str:
    """The SHA-256 of the file that an object's class is in; "" where it is FleetSieve's own, or in no file."""
    path = getattr(sys.modules.get(type(value).__module__), "__file__", None)
    if not path or not origin_of(value):
        return ""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _found(kind: Kind, name: str) -> Any:
    """The object that a name stands for."""
    if ":" not in name:
        return _of_entry_point(kind, name)
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise UsageError(f"{name!r} is no name of a {kind.what}", "write module:Name, for example mine:Ucb")
    return _imported(kind, name, module, attribute)


def _of_entry_point(kind: Kind, name: str) -> Any:
    points = [point for point in entry_points(group=kind.group) if point.name == name]
    if not points:
        raise UsageError(
            f"there is no {kind.what} {name!r} here",
            f"install the package that brings it (entry points {kind.group}), or write module:Name",
        )
    if len({point.value for point in points}) > 1:
        packages = ", ".join(sorted(_package(point) for point in points))
        raise UsageError(f"{kind.what} {name!r} comes from several packages: {packages}", "uninstall all but one")
    module, _, attribute = points[0].value.partition(":")
    return _imported(kind, f"{name} ({points[0].value})", module.strip(), attribute.partition("[")[0].strip())


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _imported(kind: Kind, name: str, module: str, attribute: str) -> Any:
    try:
        home = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _not_imported(kind, name, module, error) from error
        raise UsageError(
            f"{kind.what} {name!r}: there is no module {error.name!r} here",
            "install its package, or put the folder of its file on PYTHONPATH",
        ) from error
    except Exception as error:  # the code of somebody else may fail in any way
        raise _not_imported(kind, name, module, error) from error
    try:
        return getattr(home, attribute)
    except AttributeError as error:
        place = getattr(home, "__file__", None) or module
        raise UsageError(f"{kind.what} {name!r}: module {module!r} ({place}) has no {attribute!r}") from error


def _not_imported(kind: Kind, name: str, module: str, fault: Exception) -> UsageError:
    why = f"{type(fault).__name__}: {fault}"
    return UsageError(f"{kind.what} {name!r}: module {module!r} cannot be imported: {why}")


def _numbers(found: type) -> tuple[str, ...]:
    """The parameters of a class whose default is a number."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # a class of C code may have no signature
        return ()
    return tuple(p.name for p in parameters if isinstance(p.default, int | float) and not isinstance(p.default, bool))


def _checked(kind: Kind, name: str, found: Any, attributes: Mapping[str, Any]) -> Any:
    for attribute, wanted in attributes.items():
        remedy = f"its protocol: {', '.join(kind.attributes)}"
        if not hasattr(found, attribute):
            raise UsageError(f"{kind.what} {name!r} has no {attribute!r}", remedy)
        if not isinstance(value := getattr(found, attribute), wanted):
            raise UsageError(f"{kind.what} {name!r}: its {attribute!r} is {value!r}, not {_CALLED[wanted]}", remedy)
    return found

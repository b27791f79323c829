"""Whether this machine can solve: versions, the solver's self-test, its threads. Nothing is printed or changed."""

from __future__ import annotations

import sys
from importlib import metadata

from fleetsieve.doctor.check import Check
from fleetsieve.errors import SolverMissing

OLDEST_PYTHON = (3, 11)
OLDEST = {"pyomo": (6, 10), "highspy": (1, 15), "numpy": (2, 0), "pandas": (2, 2)}
"""The oldest version of each package that is known to work; highspy 1.14.0 returns wrong optima marked optimal."""


def examine() -> list[Check]:
    """Examine Python, the packages that solving needs, and the solver itself. Never raises for what it finds."""
    return [_python(), *(_package(name) for name in OLDEST), _self_test(), _threads()]


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info[:2] >= OLDEST_PYTHON
    return Check("python", ok, found, "" if ok else f"install Python {_text(OLDEST_PYTHON)} or newer")


def _package(name: str) -> Check:
    oldest = OLDEST[name]
    hint = f"pip install '{name}>={_text(oldest)}'"
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, False, "not installed", hint)
    ok = _numbers(found) >= oldest
    return Check(name, ok, found if ok else f"{found} is too old", "" if ok else hint)


def _self_test() -> Check:
    try:
        from fleetsieve.engines.solving import ready

        ready()
    except SolverMissing as error:
        return Check("self-test", False, error.message, error.hint or "")
    return Check("self-test", True, "a small MILP with a known answer is solved correctly")


def _threads() -> Check:
    try:
        from fleetsieve.engines.solving import threads_in_use

        count = threads_in_use()
    except SolverMissing as error:
        return Check("threads", False, error.message, error.hint or "")
    ok = count == 1
    hint = "" if ok else "do not use HiGHS with more threads elsewhere in this process"
    return Check("threads", ok, f"HiGHS solves on {count} thread{'s' if count != 1 else ''}", hint)


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "1.16.0rc1" gives (1, 16)."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)

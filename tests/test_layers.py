"""The tree tells the story: imports run downwards only, those inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

STORY = """
    fleetsieve_models       the mathematics: numbers in, Pyomo models out
    errors                  what can go wrong, said to a person
    interval                what is known about a number
    rule_sets brief         what a row means, version by version; what results print of themselves
    records                 what each request of a look showed
    instance                what an operator states, what a measurement says
    prior                   what a tool predicts of cells
    statistics              rows of one cell -> intervals
    assumptions             what is taken for granted of cells that were not measured
    envelope                bounds of every cell
    standing ladder_tops    whether a cell may be asked for, and why (not); ladders that end too early
    allocation              a plan and its exact value
    frontier                the fleet decision without a solver
    certificate             the gap and the verdict
    solving                 the fleet decision under HiGHS
    engines                 the engine that fits a fleet
    explanation sizing      why a floor cannot be met, and what would do
    cost belief             what a look costs, what it may show
    decision_rules          rules without a certificate, to compare with
    policies                which cell next
    stopping                when going on does not pay
    sieve                   ask and tell
    files                   folders <-> instances
    processes               a child with all that it starts
    load                    requests sent to a replica
    serving                 a server and its GPUs
    what_if                 the same fleet under other numbers
    sensitivity             at which numbers the decision changes
    probes                  what measures a cell
    journal                 a run on disk
    running                 a run from its first question to its certificate
    account history         what a cell can still change; what a run did
    rechecking              whether a stored certificate still follows from its folder
    interactive tables      what a notebook asks, in one call each; the answers as tables
    studies                 what is worth what, where the truth is known
    simulator               grids without a GPU
    doctor                  whether this machine can solve
    figures                 pictures of a decision
    report                  a run as one page
    presentation            words and tables for a person
    cli                     parse, call, print
"""
"""From the bottom up. A module imports what stands above it in this text; modules on one line do not import each other."""

FORBIDDEN = {
    "certificate": {"solving": "a certificate can be checked without a solver"},
    "policies": dict.fromkeys(("solving", "engines"), "a policy scores with the frontier"),
    "sieve": {
        **dict.fromkeys(("solving", "engines"), "the loop is given its engine"),
        "files": "deciding and storing stay apart",
    },
    "files": dict.fromkeys(
        ("envelope", "certificate", "solving", "engines", "sieve"), "reading a folder decides nothing"
    ),
    "simulator": dict.fromkeys(("envelope", "certificate", "sieve"), "a simulation knows nothing of decisions"),
}
"""Downward imports that are wrong all the same, and why."""

ONLY_HERE = {
    "highspy": {"solving", "doctor"},
    "pyomo": {"fleetsieve_models", "solving", "doctor"},
    "rich": {"presentation", "cli"},
    "click": {"cli"},
    "jinja2": {"report"},
    "altair": {"figures", "presentation"},
    "vl_convert": {"figures", "presentation"},
}
"""Libraries, and the modules that may import them."""

LAYERS = [line.split("  ")[0].split() for line in map(str.strip, STORY.strip().splitlines())]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
FILES = sorted([*ROOT.glob("fleetsieve/**/*.py"), *ROOT.glob("models/fleetsieve_models/**/*.py")])
PUBLIC_NAMES = ROOT / "fleetsieve" / "__init__.py"


def module_of(path: Path) -> str:
    """The layer that a file belongs to: the package or module right under fleetsieve."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "fleetsieve_models" if parts[0] == "models" else "cli" if parts[1] == "__main__" else parts[1]


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Every absolute name that a source imports, wherever it stands, with its line; names under TYPE_CHECKING count too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides where it leads"
            if node.module == "fleetsieve":
                yield from ((node.lineno, f"fleetsieve.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, str(node.module)


def layer(name: str) -> str | None:
    """The layer that an imported name belongs to; None when it is not ours."""
    parts = name.split(".")
    if parts[0] == "fleetsieve_models":
        return parts[0]
    return parts[1] if parts[0] == "fleetsieve" and len(parts) > 1 else None


def breaches(module: str, source: str) -> list[str]:
    """Every import of a source that the story does not allow."""
    found = []
    for line, name in imported(source):
        target = layer(name)
        if target is None:
            homes = ONLY_HERE.get(name.split(".")[0])
            if homes is not None and module not in homes:
                found.append(f"line {line}: {module} imports {name}, which only {sorted(homes)} may")
        elif target == "__version__" or target == module:
            continue
        elif target not in HEIGHT:
            found.append(f"line {line}: {name} has no place in the story")
        elif HEIGHT[target] >= HEIGHT[module]:
            found.append(f"line {line}: {module} imports {target}, which does not stand below it")
        elif target in FORBIDDEN.get(module, {}):
            found.append(f"line {line}: {module} imports {target}, but {FORBIDDEN[module][target]}")
    return found


@pytest.mark.parametrize("path", [p for p in FILES if p != PUBLIC_NAMES], ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_downwards(path: Path) -> None:
    assert module_of(path) in HEIGHT, f"{path} has no place in the story"
    assert not breaches(module_of(path), path.read_text(encoding="utf-8"))


def test_the_story_names_nothing_that_is_not_there() -> None:
    assert set(HEIGHT) == {module_of(path) for path in FILES if path != PUBLIC_NAMES}


@pytest.mark.parametrize(
    ("module", "source", "told"),
    [
        ("interval", "from fleetsieve.instance import Cell", "does not stand below it"),
        ("interval", "def f():\n    from fleetsieve import instance", "line 2: interval imports instance"),
        ("cost", "import fleetsieve.belief", "does not stand below it"),
        ("sieve", "import fleetsieve.solving.milp", "the loop is given its engine"),
        ("fleetsieve_models", "import fleetsieve.errors", "does not stand below it"),
        ("frontier", "import highspy", "which only"),
        ("cli", "import fleetsieve.nowhere", "no place in the story"),
    ],
)
def test_a_breach_is_seen(module: str, source: str, told: str) -> None:
    (found,) = breaches(module, source)
    assert told in found


def test_what_is_allowed_is_no_breach() -> None:
    allowed = "from fleetsieve.interval import Interval\nimport numpy\nfrom fleetsieve.instance import Cell\n"
    assert not breaches("instance", allowed)

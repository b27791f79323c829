"""The tree tells the story: imports run downwards only, those inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def story(readme: str) -> dict[str, int]:
    """The height of each module in the tree of a README: a line's modules stand on one height, above those of the lines before."""
    tree = readme.split("## How it is built")[1].split("```")[1].splitlines()[1:]
    heights: dict[str, int] = {}
    package = ""
    for height, line in enumerate(tree):
        indent, names = len(line) - len(line.lstrip()), line.split()
        names = [name for name in names if name.endswith(("/", ".py"))]
        if indent == 0:
            heights |= {"fleetsieve_models": height} if "models/fleetsieve_models/" in names else {}
        else:
            found = [name.removesuffix("/").removesuffix(".py").replace("/", ".") for name in names]
            if indent == 2:
                package = found[0]
            heights |= {f"{package}.{name}" if indent == 4 else name: height for name in found}
    return heights


SOLVERS = ("engines.solving", "engines.choosing")
DECISIONS = ("bounds.envelope", "certificate", "loop.sieve")
FORBIDDEN = {
    "certificate": dict.fromkeys(SOLVERS, "a certificate can be checked without a solver"),
    "loop.policies": dict.fromkeys(SOLVERS, "a policy scores with the frontier"),
    "loop.sieve": dict.fromkeys(SOLVERS, "the loop is given its engine") | {"files": "deciding and storing stay apart"},
    "files": dict.fromkeys((*DECISIONS, *SOLVERS), "reading a folder decides nothing"),
    "simulator": dict.fromkeys(DECISIONS, "a simulation knows nothing of decisions"),
}
"""Downward imports that are wrong all the same, and why."""

ONLY_HERE = {
    "highspy": {"engines.solving", "doctor"},
    "pyomo": {"fleetsieve_models", "engines.solving", "doctor"},
    "rich": {"presentation", "cli"},
    "click": {"cli"},
    "jinja2": {"report"},
    "altair": {"figures", "presentation"},
    "vl_convert": {"figures", "presentation"},
}
"""Libraries, and the modules that may import them."""

HEIGHT = story((ROOT / "README.md").read_text(encoding="utf-8"))
NESTED = {name.split(".")[0] for name in HEIGHT if "." in name}
"""Packages whose modules have a height of their own."""
FILES = sorted([*ROOT.glob("fleetsieve/**/*.py"), *ROOT.glob("models/fleetsieve_models/**/*.py")])
PUBLIC_NAMES = ROOT / "fleetsieve" / "__init__.py"


def module_of(path: Path) -> str:
    """The part of the story that a file belongs to: a module or package right under fleetsieve, or in a nested one."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "models":
        return "fleetsieve_models"
    return "cli" if parts[1] == "__main__" else part(parts[1:])


def part(parts: Sequence[str]) -> str:
    """The part of the story that a dotted name under fleetsieve belongs to."""
    inner = len(parts) > 1 and parts[0] in NESTED and parts[1] != "__init__"
    return ".".join(parts[:2]) if inner else parts[0]


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Every absolute name that a source imports, wherever it stands, with its line; names under TYPE_CHECKING count too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides where it leads"
            if node.module == "fleetsieve":
                yield from ((node.lineno, f"fleetsieve.{alias.name}") for alias in node.names)
            elif node.module in {f"fleetsieve.{package}" for package in NESTED}:
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, str(node.module)


def layer(name: str) -> str | None:
    """The layer that an imported name belongs to; None when it is not ours."""
    parts = name.split(".")
    if parts[0] == "fleetsieve_models":
        return parts[0]
    return part(parts[1:]) if parts[0] == "fleetsieve" and len(parts) > 1 else None


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
        ("loop.cost", "import fleetsieve.loop.belief", "does not stand below it"),
        ("loop.belief", "from fleetsieve.loop import sieve", "does not stand below it"),
        ("certificate", "from fleetsieve.runs.journal import Journal", "does not stand below it"),
        ("loop.sieve", "import fleetsieve.engines.solving.milp", "the loop is given its engine"),
        ("fleetsieve_models", "import fleetsieve.errors", "does not stand below it"),
        ("engines.frontier", "import highspy", "which only"),
        ("cli", "import fleetsieve.nowhere", "no place in the story"),
    ],
)
def test_a_breach_is_seen(module: str, source: str, told: str) -> None:
    (found,) = breaches(module, source)
    assert told in found


def test_what_is_allowed_is_no_breach() -> None:
    allowed = "from fleetsieve.interval import Interval\nimport numpy\nfrom fleetsieve.instance import Cell\n"
    assert not breaches("instance", allowed)

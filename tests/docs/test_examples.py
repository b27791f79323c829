"""Every example in a docstring runs, and the public names are there, each at its one home, loaded no earlier than used."""

from __future__ import annotations

import ast
import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import fleetsieve

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pandas", "pyomo", "highspy", "numpy", "altair", "click", "rich")


def modules_with_examples() -> list[str]:
    paths = ((root, path) for root in (ROOT, ROOT / "models") for path in sorted(root.glob("fleetsieve*/**/*.py")))
    return [
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for root, path in paths
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module(name):
    result = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert result.attempted > 0, "the examples are where doctest does not look"
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples failed: their output is above"


@pytest.mark.parametrize("name", [name for name in fleetsieve.__all__ if name != "__version__"])
def test_a_public_name_is_documented(name):
    value = getattr(fleetsieve, name)
    constant = name.isupper()
    assert constant or value.__doc__
    assert name in dir(fleetsieve)


def test_a_type_checker_sees_the_same_public_names():
    tree = ast.parse((ROOT / "fleetsieve" / "__init__.py").read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    names = {alias.name: node.module for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(names) == set(fleetsieve.__all__) - {"__version__"}
    assert {name: f"fleetsieve.{home}" for name, home in fleetsieve._HOME_OF.items()} == {
        name: module for name, module in names.items() if module != "fleetsieve"
    }
    assert (ROOT / "fleetsieve" / "py.typed").is_file()


def test_another_name_is_an_error():
    with pytest.raises(AttributeError, match="'fleetsieve' has no attribute 'sovle'"):
        fleetsieve.sovle  # noqa: B018


def test_importing_the_package_loads_nothing_else():
    code = (
        "import sys, fleetsieve; fleetsieve.__all__; "
        f"print([m for m in {HEAVY!r} if m in sys.modules], [m for m in sys.modules if m.startswith('fleetsieve.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"

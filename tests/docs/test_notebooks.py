"""The notebooks run from top to bottom, show what they should, carry no outputs, and take the same steps in the same order."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import vl_convert

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
STEPS = ["Problem", "Data", "Mathematics", "Model", "Solve", "Reading the answer"]


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def shown(source: str, place: str, names: dict[str, Any]) -> Any:
    """What a cell displays: the value of its last line, when that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, place, "exec"), names)
    return eval(compile(ast.Expression(last.value), place, "eval"), names) if last is not None else None


def test_there_are_four():
    assert [path.name[0] for path in NOTEBOOKS] == ["1", "2", "3", "4"]


@pytest.mark.slow
@pytest.mark.every_case
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_carries_no_outputs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    displayed = []
    for cell in cells(path, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        displayed.append(shown("".join(cell["source"]), path.name, names))
    charts = [value for value in displayed if type(value).__module__.startswith("altair")]
    assert charts
    for chart in charts:
        drawn = vl_convert.vegalite_to_svg(chart.to_dict())
        assert len(re.findall(r"<path|<text|<line", drawn)) > 10
        assert "NaN" not in drawn
    assert list(tmp_path.iterdir()) == []


@pytest.mark.every_case
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_steps_are_the_same_in_every_notebook(path):
    text = "\n\n".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    assert re.findall(r"^(?:## (.+)|\*\*(Problem)\.\*\*)", text, flags=re.MULTILINE) == [
        ("", step) if step == "Problem" else (step, "") for step in STEPS
    ]

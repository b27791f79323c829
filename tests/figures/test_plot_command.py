"""`fleetsieve plot`: every kind as every format, and nothing from a file can run."""

from __future__ import annotations

import doctest
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from cli.small_folder import make_folder
from figures.reading_pages import Page

import fleetsieve.figures
import fleetsieve.figures.html
from fleetsieve.cli.plot import KINDS
from fleetsieve.figures.html import json_text

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gap"])
def test_every_kind_is_drawn(cli, folder, tmp_path, kind):
    said = cli("plot", kind, folder.path, "-o", "figure.svg")
    assert said.code == 0, said.err
    assert said.out == "figure: figure.svg\n"
    drawn = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert ET.fromstring(drawn).tag.endswith("svg")
    assert "NaN" not in drawn
    assert len(re.findall(r"<path|<text|<line", drawn)) > 10


def test_the_gap_needs_a_run(cli, folder, tmp_path):
    said = cli("plot", "gap", folder.path, "-o", "gap.png")
    assert said.code == 2
    assert "has no steps of a run" in said.err
    assert cli("run", folder.path, "--replay", "--out", "made").code == 0
    assert cli("plot", "gap", "made", "-o", "gap.png", "--json").document == {"figure": "gap.png", "kind": "gap"}
    head = (tmp_path / "gap.png").read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert struct.unpack(">II", head[16:]) > (800, 300)


@pytest.mark.slow
def test_nothing_measured_can_be_drawn(cli, folder):
    (folder.path / "measurements.csv").unlink()
    for kind in ("capacity", "tails", "grid", "allocation", "served", "demand"):
        assert cli("plot", kind, folder.path, "-o", "figure.svg").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tails", "grid", "allocation", "served", "capacity"])
def test_a_hostile_name_is_text(cli, tmp_path, kind):
    folder = make_folder(tmp_path / "hostile", HOSTILE)
    assert cli("plot", kind, folder.path, "-o", "figure.svg").code == 0
    tags = {element.tag.rpartition("}")[2] for element in ET.parse(tmp_path / "figure.svg").iter()}
    assert tags <= {"svg", "g", "path", "text", "tspan", "rect", "line", "title", "defs", "clipPath"}
    assert cli("plot", kind, folder.path, "-o", "figure.html").code == 0
    text = (tmp_path / "figure.html").read_text(encoding="utf-8")
    assert HOSTILE not in text
    page = Page(text)
    assert (page.scripts, page.blocks, page.dangers) == ([{}, {}], 1, [])


def test_a_comparison_page_with_a_hostile_name_is_text(cli, tmp_path):
    folder = make_folder(tmp_path / "hostile", HOSTILE)
    folder.change("instance.toml", 'name = "small"', f"name = '{HOSTILE}'")
    said = cli("compare", folder.path, "--policies", "grid", "--no-clairvoyant", "--plot", "figure.html")
    assert said.code == 0, said.err
    assert HOSTILE not in (tmp_path / "figure.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["capacity", "-o", "figure.pdf"], "the suffix must be one of .html, .png, .svg"),
        (["tails", "-o", "figure.svg", "--class", "cht"], "--class 'cht' is not a class; did you mean 'chat'?"),
        (["served", "-o", "figure.svg", "--class", "chat"], "--class works with tails and grid"),
        (["capacity", "-o", "nowhere/figure.svg"], "cannot write nowhere/figure.svg"),
        (["pie", "-o", "figure.svg"], "'pie'"),
    ],
)
def test_what_cannot_be_drawn_is_told(cli, folder, arguments, told):
    kind, *options = arguments
    said = cli("plot", kind, folder.path, *options)
    assert said.code in (1, 2)
    assert told in said.err


def test_a_block_cannot_be_ended_from_inside():
    text = json_text({"name": "</script><!--<script>&"})
    assert not set("<>&") & set(text)


@pytest.mark.slow
def test_the_library_is_loaded_when_a_figure_is_drawn():
    code = "import sys, fleetsieve.figures; raise SystemExit('altair' in sys.modules or 'vl_convert' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("module", [fleetsieve.figures, fleetsieve.figures.html])
def test_the_examples_of_the_documentation_hold(module):
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0

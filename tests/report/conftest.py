"""Pages of runs that ended in every way, and a browser to open them in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli.command_line import cli
from cli.small_folder import CELLS, CLASSES, TOML

from fleetsieve.cli.main import call
from fleetsieve.engines.frontier import Frontier
from fleetsieve.files import read_instance
from fleetsieve.loop.policies import Grid
from fleetsieve.loop.sieve import Sieve
from fleetsieve.probes import Replay
from fleetsieve.report import report_html
from fleetsieve.runs.journal import Journal
from fleetsieve.runs.layout import HIDDEN, MEASURED
from fleetsieve.runs.making import create
from fleetsieve.runs.stepping import run

pytest.importorskip("altair", reason="a report needs the extra report")
pytest.importorskip("jinja2", reason="a report needs the extra report")

__all__ = ["cli"]

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
ROWS = "class,tp,load,seed,status,throughput_rps,ttft_p99_s,e2e_p99_s,source\n"
KINDS = ("finished", "undecided", "infeasible", "failed", "hostile")


def _table(path: Path, *, floor: str = "", rows: str, name: str = "small", first: str = "chat") -> Path:
    """A folder with two classes, chat (or `first`) and code, on 8 GPUs, and a table of rows to replay."""
    quoted = '"' + first.replace('"', '""') + '"'
    path.mkdir(parents=True)
    (path / "instance.toml").write_text(TOML.format(name=name, gpus=8), encoding="utf-8")
    (path / "classes.csv").write_text(f"{CLASSES}{quoted},,,8,1,{floor},2,,,\ncode,,,4,1,,5,20,,\n", encoding="utf-8")
    cells = "".join(f"{quoted},{tp},c{n},concurrency,{n},{tp}\n" for tp in (2, 4) for n in (4, 8))
    cells += "".join(f"code,{tp},c{n},concurrency,{n},{tp}\n" for tp in (2, 4) for n in (4, 8))
    (path / "cells.csv").write_text(CELLS + cells, encoding="utf-8")
    (path / "measurements.csv").write_text(ROWS + rows.replace("chat", quoted), encoding="utf-8")
    return path


GOOD = (
    "chat,2,c4,0,ok,1.5,0.6,3,\nchat,2,c8,0,ok,2,1,4,\nchat,4,c4,0,ok,2,0.4,2,\nchat,4,c8,0,ok,3,3,4,\n"
    "code,2,c4,0,ok,1,1,10,\ncode,2,c8,0,ok,1.8,2,12,\ncode,4,c4,0,ok,2,1,8,\ncode,4,c8,0,ok,3.5,2,11,\n"
)
FAILED = (
    "chat,2,c4,0,ok,1.5,0.6,3,\nchat,2,c8,0,oom,,,,CUDA out of memory\nchat,2,c8,1,oom,,,,CUDA out of memory\n"
    "chat,4,c4,0,crashed,,,,worker 3 died\nchat,4,c4,1,ok,2,0.4,2,\nchat,4,c8,0,failed_start,,,,exit code 1\n"
    "code,2,c4,0,ok,1,1,10,\ncode,2,c8,0,timeout,,,,no token\ncode,2,c8,1,timeout,,,,no token\n"
    "code,4,c4,0,ok,2,1,8,\ncode,4,c8,0,rejected,,,,429\ncode,4,c8,1,rejected,,,,429\n"
)


def _made(kind: str, folder: Path) -> Path:
    """The run folder of one kind."""
    out = folder / kind
    if kind == "undecided":
        source, rows = _table(folder / "table", rows=GOOD), []
        rows = (source / "measurements.csv").read_text().splitlines(keepends=True)
        (source / "measurements.csv").write_text("".join(row for row in rows if ",c8," not in row))
    elif kind == "infeasible":
        source = _table(folder / "table", floor="8", rows=GOOD.replace("ok,2,1,4", "ok,1,1,8"))
    elif kind == "failed":
        source = _table(folder / "table", rows=FAILED)
    elif kind == "hostile":
        rows = FAILED.replace("CUDA out of memory", HOSTILE).replace("exit code 1", "<b>bold</b>{{ 7 * 7 }}")
        source = _table(folder / "table", rows=rows, first=HOSTILE)
        text = (source / "instance.toml").read_text()
        (source / "instance.toml").write_text(text.replace('name = "small"', f'name = "{HOSTILE}"'))
    else:
        source = _table(folder / "table", rows=GOOD)
    assert call(["run", str(source), "--replay", "--out", str(out), "--json"]) in (0, 4)
    return out


class Made(dict[str, Path]):
    """Run folders by kind, each with its report.html, made when first asked for."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self._factory = factory

    def __missing__(self, kind: str) -> Path:
        self[kind] = _made(kind, self._factory.mktemp(kind))
        assert call(["report", str(self[kind])]) == 0
        return self[kind]


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    return Made(tmp_path_factory)


@pytest.fixture(scope="session")
def four_classes(tmp_path_factory) -> Path:
    """The page of a run that looked at every cell of the four-class grid that could still change something."""
    out = tmp_path_factory.mktemp("four") / "run"
    read = read_instance("sim-four-class-64gpu")
    create(read.path, out, {"step": 0, "policy": "grid", "seed": 0, "probe": "replay"}, hidden=read.path / MEASURED)
    assert (out / HIDDEN).is_file()
    probe = Replay(read.measurements)
    sieve = Sieve.start(read.instance, policy=Grid(), engine=Frontier(), looks=probe.looks)
    with Journal(out) as journal:
        steps = sum(1 for _ in run(sieve, probe, journal))
    assert steps > 60
    page = out / "report.html"
    page.write_text(report_html(read_instance(out), "run", sensitivity=False), encoding="utf-8")
    return page


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright to drive a browser with")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield opened
        opened.close()

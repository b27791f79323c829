"""A load generator is its file and one line of the registry: whatever speaks of load generators takes it from there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleetsieve.cli.main import call
from fleetsieve.doctor.live import examine_live
from fleetsieve.errors import InputError
from fleetsieve.files import read_instance
from fleetsieve.instance import LoadKind
from fleetsieve.live.load.aiperf import AIPerf
from fleetsieve.live.load.generators import GENERATORS
from fleetsieve.live.load.protocol import GeneratorKind, LoadGenerator
from fleetsieve.live.load.vllm_bench import VllmBench
from fleetsieve.live.sending import measurable, sending_of
from fleetsieve.live.serving.config import read_serve_config

SERVE = '[serve]\nmodel = "m"\ncommand = ["true"]\n[load]\ngenerator = "{}"\nrequest_timeout_s = 7\n'
INSTANCE = "paper-h100-31b"


class Third:
    """A load generator of somebody else."""

    name = "third"

    def __init__(self, command: tuple[str, ...], request_timeout_s: float) -> None:
        self.command, self.request_timeout_s = command, request_timeout_s

    def send(self, *_: object) -> None: ...


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    kind = GeneratorKind("third", Third, ("no-third-here",), "apt install third", holds_concurrency=False)  # type: ignore[arg-type]
    monkeypatch.setitem(GENERATORS, "third", kind)
    path = tmp_path / "serve.toml"
    classes = read_instance(INSTANCE).instance.classes
    shapes = "".join(f"[load.class.{c.name}]\ninput_tokens = 9\noutput_tokens = 9\n" for c in classes)
    path.write_text(SERVE.format("third") + shapes)
    return path


def test_a_third_one_is_configured_made_and_sent_with(third: Path) -> None:
    config, instance = read_serve_config(third), read_instance(INSTANCE).instance
    made: LoadGenerator = sending_of(instance, config, 0).generator
    assert isinstance(made, Third)
    assert (made.command, made.request_timeout_s) == (("no-third-here",), 7.0)
    loops = tuple(replace(cell, load_kind=LoadKind.CONCURRENCY, offered=8.0) for cell in instance.cells)
    cells, (why,) = measurable(replace(instance, cells=loops), config)
    assert (cells, why.split(":")[0]) == ((), "third cannot hold a concurrency for a given time (aiperf can)")


def test_a_third_one_is_told_how_to_install(third: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (check,) = (c for c in examine_live(read_serve_config(third), start=False) if c.name == "load generator")
    assert (check.ok, check.detail, check.hint) == (
        False,
        "there is no command 'no-third-here'",
        "apt install third",
    )
    code = call(["run", INSTANCE, "--probe", "vllm", "--config", str(third), "--out", str(tmp_path / "run")])
    told = capsys.readouterr().err
    assert (code, "hint: apt install third" in told, "aiperf" in told) == (3, True, False), told


def test_each_is_told_by_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path, hints = tmp_path / "serve.toml", {}
    for name, kind in (("aiperf", AIPerf), ("vllm-bench", VllmBench)):
        path.write_text(SERVE.format(name))
        config = read_serve_config(path)
        assert isinstance(config.load.kind.make(config.load.program, 7.0), kind)
        (check,) = (c for c in examine_live(config, start=False) if c.name == "load generator")
        hints[name] = check.hint
    assert "pip install aiperf" in hints["aiperf"]
    assert "pip install vllm" in hints["vllm-bench"]
    assert "aiperf" not in hints["vllm-bench"]


def test_one_that_is_not_there_is_refused_with_those_that_are(third: Path) -> None:
    third.write_text(SERVE.format("wrk"))
    with pytest.raises(InputError, match='one of "aiperf", "vllm-bench", "third"'):
        read_serve_config(third)


def test_one_from_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    source = (
        "from fleetsieve.live.load.protocol import GeneratorKind\n"
        "KIND = GeneratorKind('mine', lambda command, timeout: None, ('no-mine-here',), 'apt install mine')\n"
        "HALF = object()\n"
    )
    (tmp_path / "my_load.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "serve.toml"
    path.write_text(SERVE.format("my_load:KIND"))
    config = read_serve_config(path)
    assert (config.load.kind.name, config.load.program) == ("mine", ("no-mine-here",))
    for name, told in (("HALF", "has no 'name'"), ("NONE", "has no 'NONE'")):
        path.write_text(SERVE.format(f"my_load:{name}"))
        with pytest.raises(InputError, match=told):
            read_serve_config(path)
    monkeypatch.delitem(__import__("sys").modules, "my_load")

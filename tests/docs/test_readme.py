"""Each command of the README runs as written, and no command is left undocumented."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fleetsieve.cli.main import COMMANDS, call

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FRESH_MACHINE = "python3 -m venv"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line]


@pytest.mark.slow
def test_the_commands_run_as_written(tmp_path, monkeypatch, capsys):
    """The first of each kind in a shell, as a person types it; its further ones in this process, without the start of another."""
    here = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    monkeypatch.chdir(tmp_path)
    ordinary = [line for line in commands() if not line.startswith(FRESH_MACHINE)]
    assert len(ordinary) >= 10
    typed = set()
    for line in ordinary:
        program, kind, *arguments = words = shlex.split(line)
        assert program == "fleetsieve"
        if kind not in typed or shlex.join(words) != line:  # in a shell also what the shell reads otherwise
            typed.add(kind)
            done = subprocess.run(line, shell=True, env=here, capture_output=True, text=True, check=False)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            capsys.readouterr()
            code = call([kind, *arguments])
            out, err = capsys.readouterr()
        assert code == 0, f"{line}\n{err}"
        assert out.strip(), line
    assert len(typed) >= 10


def test_the_two_commands_of_a_fresh_machine_are_run_by_ci():
    first, second = (line for line in commands() if line.startswith(FRESH_MACHINE))
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command, pattern in ((first, "^python3 -m venv .* run "), (second, "^python3 -m venv .* pytest")):
        assert re.search(pattern, command)
        assert f"readme_command '{pattern}'" in script


@pytest.mark.slow
def test_the_python_example_reaches_a_verdict(tmp_path):
    (example,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    verdict, spent = done.stdout.split()
    assert verdict == "certified-feasible"
    assert 0 < float(spent) < 29_400


@pytest.mark.slow
def test_the_serve_toml_runs_as_written(tmp_path, monkeypatch, capsys):
    """Dry, on a bundled instance and without any of the programs; the lines that are told as optional are TOML too."""
    (stated,) = blocks("toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    Path("serve.toml").write_text(stated, encoding="utf-8")
    live = ["run", "sim-chat-code-16gpu", "--probe", "vllm", "--config", "serve.toml", "--dry-run"]
    assert call(live) == 0
    said = capsys.readouterr()
    assert "TP 4: " in said.out
    for program in (".aiperf/bin/aiperf", "vllm"):
        assert f"warning: there is no command '{program}'" in said.err
    Path("serve.toml").write_text(stated.replace("\n# ", "\n"), encoding="utf-8")
    assert call(live) == 2
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.slow
def test_the_figures_shown_are_those_of_the_run(tmp_path, capsys):
    assert call(["run", "sim-chat-code-16gpu", "--replay", "--out", str(tmp_path / "run")]) == 0
    said = "".join(capsys.readouterr())
    (shown,) = (block for block in blocks("text") if "certified-feasible" in block)
    for line in shown.splitlines():
        assert line.strip() in said


def test_every_command_is_documented():
    assert [name for name in COMMANDS if f"fleetsieve {name}" not in README] == []

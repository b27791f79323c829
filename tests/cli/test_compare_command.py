"""`fleetsieve compare`: its document, files and plot; interrupted, killed and resumed; what it refuses."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.command_line import ROOT
from cli.small_folder import make_folder

CONTRACT = {
    "policy", "mean_gpu_s", "ci95_gpu_s", "saving_vs_random", "ci95_saving", "beats_random_share", "ratio_to_clairvoyant",
    "max_regret", "wrong_certificates",
}  # fmt: skip
QUICK = ["--policies", "decision-gap,random", "--orders", "4"]


def test_the_document_and_the_table(cli, folder):
    said = cli("compare", folder.path, *QUICK, "--json", "--csv", "runs.csv")
    assert said.code == 0
    (told,) = said.document["instances"]
    assert [own["policy"] for own in told["policies"]] == ["decision-gap", "random"]
    assert all(set(own) >= CONTRACT for own in told["policies"])
    assert [(own["orders"], own["undecided"], own["wrong_certificates"]) for own in told["policies"]] == [
        (1, 0, 0),
        (4, 0, 0),
    ]
    assert told["clairvoyant"]["exact"]
    assert {rule["rule"] for rule in told["rules"]} == {"capacity-only", "sparse"}
    rows = list(csv.DictReader(Path("runs.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["policy"], row["seed"]) for row in rows] == [
        ("decision-gap", "0"),
        *(("random", str(k)) for k in range(4)),
    ]
    assert all(float(row["gpu_s:chat"]) + float(row["gpu_s:code"]) == float(row["spent_gpu_s"]) for row in rows)
    for own in told["policies"]:
        spent = [float(row["spent_gpu_s"]) for row in rows if row["policy"] == own["policy"]]
        assert own["mean_gpu_s"] == pytest.approx(sum(spent) / len(spent))
        assert sum(own["class_gpu_s"].values()) == pytest.approx(own["mean_gpu_s"])


def test_folders_of_one_name_are_told_apart_by_as_much_of_the_path_as_is_needed(cli, tmp_path):
    places = ["x/grid", "y/grid", "y/other"]
    for place in places:
        make_folder(tmp_path / place)  # the instance in each calls itself "small"
    (tmp_path / "y/other/instance.toml").write_text('schema_version = 1\nname = "single"\n[fleet]\ngpus = 8\n')
    wanted = ["--policies", "grid", "--no-clairvoyant"]
    found = cli("compare", *places, *wanted, "--json", "--csv", "runs.csv")
    labels = ["x/grid", "y/grid", "single"]
    assert [told["instance"] for told in found.document["instances"]] == labels
    assert [row["instance"] for row in csv.DictReader(Path("runs.csv").read_text().splitlines())] == labels
    shown = cli("compare", *places, *wanted).out
    assert all(f"{label}, thousand GPU-seconds" in shown for label in labels)
    other = cli("compare", "x/grid", "y/other", *wanted, "--json").document
    assert [told["instance"] for told in other["instances"]] == ["small", "single"]


@pytest.mark.slow
def test_the_plot_tells_folders_of_one_name_apart(cli, tmp_path):
    pytest.importorskip("altair", reason="altair is not installed (the extra `plots`)")
    pytest.importorskip("vl_convert", reason="vl-convert is not installed (the extra `plots`)")
    for place in ("x/grid", "y/grid"):
        make_folder(tmp_path / place)
    assert cli("compare", "x/grid", "y/grid", "--policies", "grid", "--no-clairvoyant", "--plot", "p.svg").code == 0
    drawn = Path("p.svg").read_text(encoding="utf-8")
    assert ">x/grid<" in drawn
    assert ">y/grid<" in drawn


def test_a_folder_that_is_given_twice_is_refused(cli, folder):
    said = cli("compare", folder.path, f"{folder.path}/../small", *QUICK)
    assert (said.code, said.out) == (2, "")
    assert "small is given 2 times" in said.err


def test_names_are_text(cli, tmp_path):
    name = "[red]chat[/red]"
    said = cli("compare", make_folder(tmp_path / "marked", name).path, *QUICK)
    assert said.code == 0
    assert "[red]" in said.out
    assert "clairvoyant floor" in said.out


def test_all_policies_are_compared(cli, folder):
    from fleetsieve.loop.policies import POLICIES

    said = cli("compare", folder.path, "--orders", "2", "--no-clairvoyant", "--json")
    (told,) = said.document["instances"]
    assert [own["policy"] for own in told["policies"]] == list(POLICIES)
    assert (told["clairvoyant"], {own["ratio_to_clairvoyant"] for own in told["policies"]}) == (None, {None})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plot.svg", "plot.html", "plot.png"])
def test_the_plot(cli, folder, name):
    pytest.importorskip("altair", reason="altair is not installed (the extra `plots`)")
    pytest.importorskip("vl_convert", reason="vl-convert is not installed (the extra `plots`)")
    assert cli("compare", folder.path, *QUICK, "--plot", name).code == 0
    made = Path(name).read_bytes()
    if name.endswith("svg"):
        assert b"decision-gap" in made
        assert b"thousand GPU-seconds" in made
    elif name.endswith("png"):
        assert made.startswith(b"\x89PNG")
    else:
        assert b'src="http' not in made  # it needs no network
        assert b"decision-gap" in made


def test_finished_work_is_kept_refused_and_resumed(cli, folder):
    first = cli("compare", folder.path, *QUICK, "--json", "--out", "kept")
    again = cli("compare", folder.path, *QUICK, "--json", "--out", "kept")
    assert (again.code, again.document["error"]["kind"]) == (2, "UsageError")
    assert "--resume" in again.err
    before = Path("kept/results.jsonl").read_bytes()
    resumed = cli("compare", folder.path, *QUICK, "--json", "--out", "kept", "--resume")
    assert (resumed.code, resumed.out) == (0, first.out)
    assert Path("kept/results.jsonl").read_bytes() == before
    more = cli("compare", folder.path, *QUICK[:2], "--orders", "12", "--json", "--out", "kept", "--resume")
    assert more.document["instances"][0]["policies"][1]["orders"] == 12


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--policies", "best"], "unknown policy 'best'"),
        (["--policies", "grid,,random"], "--policies 'grid,,random' has an empty name"),
        (["--policies", "random,grid,random"], "--policies names random more than once"),
        (["--plot", "plot.gif"], "the suffix must be one of .html, .png, .svg"),
        (["--resume"], "--resume needs --out"),
        (["--orders", "0"], "--orders"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_what_is_refused(cli, folder, more, message):
    said = cli("compare", folder.path, *more)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_a_folder_without_a_table_is_refused(cli, folder):
    (folder.path / "measurements.csv").unlink()
    said = cli("compare", folder.path, *QUICK)
    assert said.code == 2
    assert "has no measurements to reveal" in said.err


def test_files_that_cannot_be_written_are_told(cli, folder):
    Path("file").write_text("")
    for more in (["--csv", "file/runs.csv"], ["--out", "file"], ["--plot", "file/plot.svg"]):
        said = cli("compare", folder.path, *QUICK, *more)
        assert said.code != 0
        assert said.err.splitlines()[-1].startswith("error: ")


@dataclass(frozen=True)
class Running:
    """A long comparison in two processes that has begun."""

    command: subprocess.Popen[str]
    workers: tuple[int, ...]

    def end(self) -> tuple[int, str]:
        """Wait for the end of the command and of its processes: its exit code and messages."""
        _, err = self.command.communicate(timeout=20)
        deadline = time.monotonic() + 10.0
        while any(map(alive, self.workers)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(alive, self.workers))
        assert "Traceback" not in err
        return self.command.returncode, err


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def running(tmp_path):
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        pytest.skip("no /proc that names the children of a process here")
    wanted = ["sim-chat-code-16gpu", "--policies", "random", "--orders", "5000", "--jobs", "2", "--no-clairvoyant"]
    started = subprocess.Popen(
        [sys.executable, "-m", "fleetsieve", "compare", *wanted, "--out", "kept"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, start_new_session=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'models'}"},
    )  # fmt: skip
    try:
        while not (tmp_path / "kept" / "results.jsonl").exists():
            assert started.poll() is None, started.communicate()
            time.sleep(0.02)
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        workers = [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]
        assert len(workers) == 2
        yield Running(started, tuple(workers))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


@pytest.mark.slow
def test_an_interrupt_ends_all_processes_and_says_how_to_go_on(running):
    os.killpg(running.command.pid, signal.SIGINT)  # as a terminal does
    code, err = running.end()
    assert code == 130
    assert "--resume" in err


@pytest.mark.slow
def test_an_interrupt_to_the_command_alone_does_not_wait_for_its_processes(running):
    began = time.monotonic()
    os.kill(running.command.pid, signal.SIGINT)
    assert running.end()[0] == 130
    assert time.monotonic() - began < 5.0


@pytest.mark.slow
def test_processes_do_not_outlive_a_killed_command(running):
    running.command.kill()
    running.end()


@pytest.mark.slow
def test_a_process_that_dies_is_told(running):
    os.kill(running.workers[0], signal.SIGKILL)
    code, err = running.end()
    assert code == 1
    assert "error: a process of the study ended before its work was done" in err

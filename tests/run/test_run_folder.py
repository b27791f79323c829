"""What a run leaves, that the same input gives the same bytes, and what is refused."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
from cli.small_folder import make_folder

from fleetsieve.files import read_instance

CONTENT = {
    "instance.toml",
    "classes.csv",
    "cells.csv",
    "measurements.csv",
    "steps.jsonl",
    "replay.csv",
    "certificate.json",
}
STEP = {"step", "asked", "reason", "expected_cost_gpu_s", "scores", "status", "seed", "changed", "spent_gpu_s", "verdict",
        "blocking", "gap", "conservative", "optimistic"}  # fmt: skip


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def made(cli, folder, tmp_path):
    """A finished run of the small folder."""
    assert cli("run", folder.path, "--replay", "--out", "made").code == 0
    return tmp_path / "made"


def test_what_is_in_a_run_folder(cli, folder, made):
    assert content(made).keys() == CONTENT
    for name in ("instance.toml", "classes.csv", "cells.csv"):
        assert (made / name).read_bytes() == (folder.path / name).read_bytes()
    assert (made / "replay.csv").read_bytes() == (folder.path / "measurements.csv").read_bytes()
    start, *steps = [json.loads(line) for line in (made / "steps.jsonl").read_text().splitlines()]
    assert (start["step"], start["policy"], start["seed"], start["probe"]) == (0, "decision-gap", 0, "replay")
    rows = read_instance(made).measurements
    assert [step["step"] for step in steps] == list(range(1, len(rows) + 1))
    assert all(step.keys() >= STEP for step in steps)
    asked = [
        (step["asked"]["class"], step["asked"]["tp"], step["asked"]["load"], step["asked"]["pool"]) for step in steps
    ]
    assert asked == [(row.key.class_name, row.key.tp, row.key.load, row.key.pool) for row in rows]
    certificate = json.loads((made / "certificate.json").read_text())
    assert certificate["verdict"] == steps[-1]["verdict"]
    assert certificate["conservative"] == steps[-1]["conservative"]
    assert certificate["files"].keys() == CONTENT - {"steps.jsonl", "replay.csv", "certificate.json"}


@pytest.mark.parametrize(
    ("called", "at", "given"),
    [
        ("grid", "grid", "."),
        ("grid", "grid/below", ".."),
        ("grid", ".", "grid/"),
        ("grid", "grid/below", "../../grid/below/.."),
        ("-grid", ".", "./-grid"),
        ("-grid", "-grid", "."),
        (".grid", ".", ".grid"),
        (".grid", ".grid", "."),
        ("my grid", "my grid", "."),
    ],
)
def test_a_run_is_called_after_the_folder_however_that_is_written(cli, tmp_path, monkeypatch, called, at, given):
    make_folder(tmp_path / called)
    (tmp_path / called / "below").mkdir()
    monkeypatch.chdir(tmp_path / at)
    said = cli("run", given, "--replay", "--json")
    assert (said.code, said.document["run"]) == (0, f"runs/{called}-decision-gap-0")
    assert cli("certify", said.document["run"]).code == 0


def test_a_run_folder_is_an_instance_folder(cli, made):
    assert cli("validate", made).code == 0
    solved, stored = cli("solve", made, "--json").document, json.loads((made / "certificate.json").read_text())
    assert solved == stored
    assert cli("certify", made).code == 0


def test_what_json_says_is_what_is_stored(cli, folder, tmp_path):
    document = cli("run", folder.path, "--replay", "--out", "made", "--json").document
    steps = [json.loads(line) for line in (tmp_path / "made" / "steps.jsonl").read_text().splitlines()]
    assert (document["steps"], document["cost_gpu_s"]) == (len(steps) - 1, steps[-1]["spent_gpu_s"])
    assert (document["plan"], document["gap"]) == (steps[-1]["conservative"], steps[-1]["gap"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["decision-gap", "random"])
def test_the_same_seed_gives_the_same_bytes(cli, tmp_path, policy):
    options = ["sim-chat-code-16gpu", "--replay", "--policy", policy, "--seed", 7]
    assert cli("run", *options, "--out", "one").code == cli("run", *options, "--out", "two").code == 0
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.slow
def test_another_seed_of_random_asks_in_another_order(cli, tmp_path):
    for seed in (1, 2):
        cli("run", "sim-chat-code-16gpu", "--replay", "--policy", "random", "--seed", seed, "--out", seed)
    assert content(tmp_path / "1")["measurements.csv"] != content(tmp_path / "2")["measurements.csv"]


def test_a_run_folder_can_be_replayed(cli, made, tmp_path):
    assert cli("run", "made", "--replay", "--out", "again").code == 0
    assert content(tmp_path / "again") == content(made)


def test_the_default_place(cli, folder, tmp_path):
    assert cli("run", folder.path, "--replay", "--policy", "random", "--seed", 3).code == 0
    assert content(tmp_path / "runs" / "small-random-3").keys() == CONTENT


def test_resuming_a_finished_run_changes_nothing(cli, made):
    before = content(made)
    for options in (["made"], ["made", "--replay"], ["anything-else", "--out", "made"]):
        if options[0] == "anything-else":
            options[0] = "small"
        said = cli("run", *options, "--resume", "--json")
        assert (said.code, said.document["steps"]) == (0, len(read_instance(made).measurements))
        assert content(made) == before


def test_an_empty_folder_is_taken_and_a_full_one_is_not(cli, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    assert cli("run", folder.path, "--replay", "--out", "empty").code == 0
    said = cli("run", folder.path, "--replay", "--out", "empty")
    assert said.code == 2
    assert "--resume" in said.err
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    said = cli("run", folder.path, "--replay", "--out", "other")
    assert said.code == 2
    assert "--resume" not in said.err
    assert content(other) == {"notes.txt": b"mine"}


@pytest.mark.parametrize("options", [["--policy", "random"], ["--seed", "1"]])
def test_another_policy_or_seed_is_refused_on_resume(cli, made, options):
    before = content(made)
    said = cli("run", "made", "--resume", *options)
    assert said.code == 2
    assert "--policy decision-gap --seed 0" in said.err
    assert content(made) == before


def test_two_processes_never_share_a_run(cli, made):
    before = content(made)
    with (made / "steps.jsonl").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = cli("run", "made", "--resume", "--json")
        assert said.code == 2
        assert "another process" in said.err
        # What the holder has written of a row is never cut off by those who look in.
        with (made / "measurements.csv").open("a") as file:
            file.write("chat,2,")
        assert cli("run", "made", "--resume").code == 2
        assert (made / "measurements.csv").read_bytes() == before["measurements.csv"] + b"chat,2,"
    assert cli("run", "made", "--resume").code == 0
    assert content(made) == before


def test_a_second_process_is_refused_while_the_first_lives(process, cli, folder):
    """The first holds the run inside its second measurement, in a process of its own."""
    script = (
        "from fleetsieve.probes import Replay\n"
        "import subprocess, sys\n"
        "measure = Replay.measure\n"
        "def slow(self, key, look):\n"
        "    done = subprocess.run([sys.executable, '-m', 'fleetsieve', 'run', 'made', '--resume'], capture_output=True)\n"
        "    print(done.returncode, done.stderr.decode(), file=sys.stderr)\n"
        "    return measure(self, key, look)\n"
        "Replay.measure = slow\n"
        "from fleetsieve.cli import main\n"
        f"main(['run', {str(folder.path)!r}, '--replay', '--out', 'made', '--json'])\n"
    )
    said = process("-c", script, python=True)
    assert (said.code, said.document["verdict"]) == (0, "certified-feasible")
    assert said.err.count("another process is working on made") == said.document["steps"]


@pytest.mark.parametrize(
    ("name", "old", "new", "word"),
    [
        ("steps.jsonl", '{"step": 0', '["step", 0', "damaged"),
        ("steps.jsonl", '"seed": 0, "rule_set"', '"seed": "none", "rule_set"', "damaged"),
        ("steps.jsonl", '"rule_set": 2', '"rule_set": "two"', "damaged"),
        ("steps.jsonl", '"rule_set": 2', '"rule_set": 99', "rule set 99 is not known"),
        ("steps.jsonl", '"policy": "decision-gap"', '"policy": "clever"', "clever"),
        ("steps.jsonl", '"policy": "decision-gap", ', "", "damaged"),
        ("measurements.csv", "chat,2,c8", "chat,2,c9", "c9"),
        ("replay.csv", '"chat",2,c8', '"chat",two,c8', "two"),
        ("instance.toml", "gpus = 8", "gpus = eight", "instance.toml"),
    ],
)
def test_a_damaged_run_is_told(cli, made, name, old, new, word):
    text = (made / name).read_text()
    assert old in text
    (made / name).write_text(text.replace(old, new, 1))
    said = cli("run", "made", "--resume", "--json")
    assert (said.code, said.document["exit_code"]) == (2, 2)
    assert word in said.err


def test_rows_and_steps_that_do_not_belong_together_are_told(cli, made):
    header, *rows = (made / "measurements.csv").read_text().splitlines(keepends=True)
    assert len(rows) >= 2
    (made / "measurements.csv").write_text("".join([header, *reversed(rows)]))
    assert "step 1 of the log" in cli("run", "made", "--resume").err
    (made / "measurements.csv").write_text(header)
    said = cli("run", "made", "--resume")
    assert said.code == 2
    assert f"the log has {len(rows)} steps, but only 0 rows" in said.err


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("instance.toml", "gpus = 8", "gpus = 6"),
        ("classes.csv", '"chat",,,8', '"chat",,,9'),
        ("cells.csv", '"code",4,c8,concurrency,8', '"code",4,c8,concurrency,9'),
        ("replay.csv", '"chat",2,c8,0,ok,2', '"chat",2,c8,0,ok,3'),
    ],
)
def test_a_run_whose_files_were_edited_is_not_resumed(cli, made, name, old, new):
    text = (made / name).read_text()
    assert text.count(old) == 1
    (made / name).write_text(text.replace(old, new))
    before = content(made)
    said = cli("run", "made", "--resume")
    assert said.code == 2
    assert f"made/{name} was edited after the run was started" in said.err
    assert "fleetsieve run made --replay --out NEW" in said.err
    assert content(made) == before
    assert cli("run", "made", "--replay", "--out", "new").code == 0


def test_a_measured_row_that_was_edited_is_named(cli, made):
    lines = (made / "measurements.csv").read_text().splitlines(keepends=True)
    (number,) = [k for k, line in enumerate(lines) if line.startswith("chat,2,c8,,0,ok,2,")]
    lines[number] = lines[number].replace("chat,2,c8,,0,ok,2,", "chat,2,c8,,0,ok,3,")
    (made / "measurements.csv").write_text("".join(lines))
    before = content(made)
    said = cli("run", "made", "--resume")
    assert said.code == 2
    assert f"made/measurements.csv:{number + 1}: the row of step {number} (chat TP2 c8, seed 0) was edited" in said.err
    assert content(made) == before


def test_another_way_to_write_the_same_row_is_no_edit(cli, made):
    text = (made / "measurements.csv").read_text()
    assert "chat,2,c8,,0,ok,2," in text
    (made / "measurements.csv").write_text(text.replace("chat,2,c8,,0,ok,2,", "chat,2,c8,,0,ok,2.0,"))
    assert cli("run", "made", "--resume").code == 0


def test_a_log_without_digests_is_resumed(cli, made):
    first, *lines = map(json.loads, (made / "steps.jsonl").read_text().splitlines())
    del first["files"]
    for line in lines:
        del line["row_sha256"]
    (made / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [first, *lines]))
    assert cli("run", "made", "--resume").code == 0


def test_resume_without_a_run(cli, folder, tmp_path):
    said = cli("run", folder.path, "--resume", "--out", "new")
    assert said.code == 2
    assert "there is no run to resume at new" in said.err
    assert f"fleetsieve run {folder.path} --replay --out new" in said.err
    assert not (tmp_path / "new").exists()
    said = cli("run", folder.path, "--replay", "--resume", "--out", "new", "--json")
    assert "no run at new: starting one" in said.err
    assert said.document["verdict"] == "certified-feasible"
    assert "starting one" not in cli("run", folder.path, "--replay", "--resume", "--out", "new").err


def test_how_much_was_measured_before(cli, folder):
    assert cli("run", folder.path, "--replay", "--out", "made").code == 0
    assert "resumed: 2 cells were measured before\n" in cli("run", "made", "--resume").err
    assert cli("run", folder.path, "--replay", "--out", "one").code == 0
    for name in ("measurements.csv", "steps.jsonl"):
        path = Path("one") / name
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    assert "resumed: 1 cell was measured before\n" in cli("run", "one", "--resume").err


def test_looks_are_counted_apart_from_cells(cli, folder):
    folder.change("measurements.csv", '"chat",2,c8,0,ok,2,1\n', '"chat",2,c8,0,crashed,,\n"chat",2,c8,1,ok,2,1\n')
    assert cli("run", folder.path, "--replay", "--out", "made").code == 4
    rows = len(read_instance("made").measurements)
    assert (
        f"resumed: {rows - 1} cells were measured before, in {rows} measurements\n"
        in cli("run", "made", "--resume").err
    )


@pytest.mark.parametrize("name", ["measurements.csv", "replay.csv", "steps.jsonl"])
def test_pipes_in_a_run_are_not_waited_for(cli, made, name):
    (made / name).unlink()
    os.mkfifo(made / name)
    assert cli("run", "made", "--resume").code == 2
    if name != "steps.jsonl":
        assert cli("run", "made", "--replay", "--out", "new").code == 2


def test_a_system_without_file_locks(process, made, folder, tmp_path):
    """Everything but runs works there."""
    script = "import sys\nsys.modules['fcntl'] = None\nfrom fleetsieve.cli import main\nmain({!r})\n"
    assert process("-c", script.format(["certify", "made"]), python=True).code == 0
    before = sorted(path.name for path in tmp_path.iterdir())
    for arguments in (["run", "made", "--resume"], ["run", str(folder.path), "--replay", "--out", "new"]):
        said = process("-c", script.format(arguments), python=True)
        assert said.code == 1
        assert "a run needs the file locks of Linux or macOS" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_is_no_run(cli, folder, tmp_path):
    said = cli("run", folder.path, "--resume")
    assert said.code == 2
    assert "--replay" in said.err
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "steps.jsonl").write_text("")
    assert "empty" in cli("run", "small", "--out", "empty", "--resume").err


def test_nothing_to_replay(cli, folder):
    (folder.path / "measurements.csv").unlink()
    said = cli("run", folder.path, "--replay", "--out", "made")
    assert said.code == 2
    assert "measurements.csv" in said.err


def test_a_broken_hidden_table_is_told_before_a_folder_is_made(cli, made, tmp_path):
    (made / "replay.csv").write_text("class,tp\n")
    said = cli("run", "made", "--replay", "--out", "again")
    assert said.code == 2
    assert "replay.csv" in said.err
    assert not (tmp_path / "again").exists()


def test_cells_without_a_row_are_left_out_with_a_warning(cli, folder):
    folder.change("measurements.csv", '"code",2,c8,0,ok,4,2\n', "")
    said = cli("run", folder.path, "--replay", "--out", "made", "--json")
    assert "code TP2 c8" in said.err
    assert "warning" in said.err
    assert (said.code, said.document["verdict"]) == (0, "undecided")


def half_made(folder, beside):
    """What a kill leaves in the middle of the making of a run."""
    (beside / "run").mkdir(parents=True)
    (beside / "lock").touch()
    shutil.copy(folder.path / "instance.toml", beside / "run")
    return beside


def test_what_a_kill_left_of_a_creation_is_removed_by_the_next(cli, folder, tmp_path):
    left = half_made(folder, tmp_path / ".made.new")
    other = half_made(folder, tmp_path / ".other.new")
    assert cli("run", folder.path, "--replay", "--out", "made").code == 0
    assert not left.exists()
    assert other.exists()


def test_what_a_kill_left_after_the_rename_is_removed_on_resume(cli, made, tmp_path):
    (tmp_path / ".made.new").mkdir()
    (tmp_path / ".made.new" / "lock").touch()
    assert cli("run", "made", "--resume").code == 0
    assert not (tmp_path / ".made.new").exists()


def test_files_of_others_are_never_removed(cli, folder, tmp_path):
    left = half_made(folder, tmp_path / ".made.new")
    (left / "run" / "notes.txt").write_text("mine")
    said = cli("run", folder.path, "--replay", "--out", "made")
    assert (said.code, (left / "run" / "notes.txt").read_text()) == (1, "mine")
    assert "cannot write the run folder made" in said.err


def test_a_creation_that_another_process_is_at_is_left_alone(cli, folder, tmp_path):
    left = half_made(folder, tmp_path / ".made.new")
    with (left / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = cli("run", folder.path, "--replay", "--out", "made")
    assert said.code == 2
    assert "another process is working on made" in said.err
    assert (left / "run" / "instance.toml").exists()


def test_a_creation_that_is_killed_leaves_what_the_next_removes(process, folder, tmp_path):
    script = (
        "import os, shutil, signal\n"
        "shutil.copyfile = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from fleetsieve.cli import main\n"
        f"main(['run', {str(folder.path)!r}, '--replay', '--out', 'made'])\n"
    )
    assert process("-c", script, python=True).code == -9
    assert [path.name for path in tmp_path.iterdir() if path != folder.path] == [".made.new"]
    assert process("run", folder.path, "--replay", "--out", "made").code == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path != folder.path) == ["made"]


def test_names_that_need_quotes_survive_a_run(cli, tmp_path):
    made = make_folder(tmp_path / "small", 'a "b", c', "=1+1")
    assert cli("run", made.path, "--replay", "--out", "made").code == 0
    before = content(tmp_path / "made")
    assert cli("run", "made", "--resume").code == 0
    assert content(tmp_path / "made") == before


def test_a_table_without_rows_is_no_replay(cli, folder):
    """As compare and calibrate refuse it: a run that can measure nothing is none."""
    header = (folder.path / "measurements.csv").read_text().splitlines()[0]
    (folder.path / "measurements.csv").write_text(header + "\n")
    said = cli("run", folder.path, "--replay", "--out", "made")
    assert (said.code, "has no rows to replay" in said.err) == (2, True)
    assert not Path("made").exists()


def test_a_prior_that_is_not_there_is_said_to_be_none(cli, folder):
    said = cli("run", folder.path, "--replay", "--out", "made", "--prior", "nosuch.csv")
    assert (said.code, said.err.splitlines()[0]) == (2, "error: there is no file nosuch.csv")
    assert not Path("made").exists()

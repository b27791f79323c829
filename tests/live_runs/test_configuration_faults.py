"""A fault of serve.toml is no evidence about GPUs: it ends a run at once, nothing of it is stored, and a mended file goes on."""

from __future__ import annotations

import json
import os

import pytest
from live_runs.instances import FAST_ENGINE, HOSTILE, PYTHON, events, rows, steps

NO_MODEL = (
    "OSError: m is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'"
)
REFUSED = "  Value error, User-specified max_model_len (9) is greater than the derived max_model_len (8)"
STRANGE = "KeyError: 'layers.{}.weight'"


def exits(code, text=""):
    return ["--exit-code", str(code), "--log-text", text]


def mend(config, old, new) -> None:
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))


def refused(said, run, words, code=2) -> None:
    """A run that ended with the server's own words and certified nothing."""
    assert said.code == code, said.err
    message, hint = said.document["error"]["message"], said.document["error"]["hint"]
    assert words in message
    assert "its log is" in message
    assert "fix serve.toml, then continue with: fleetsieve run" in hint
    assert rows(run) == steps(run) == []
    assert not (run / "certificate.json").exists()
    assert all(event["event"] != "ready" for event in events(run))
    assert events(run)[-1]["event"] == "stopped"


@pytest.mark.parametrize(
    ("faults", "words", "code"),
    [
        (
            ["--no-such-flag"],
            "an argument was rejected: hostile_server: error: unrecognized arguments: --no-such-flag",
            2,
        ),
        (exits(2), "an argument was rejected (exit code 2)", 2),
        (exits(1, NO_MODEL), "the model cannot be loaded: OSError: m is not a local folder", 2),
        (exits(1, REFUSED), "the configuration was rejected: Value error, User-specified max_model_len", 2),
        (["--wrong-model", "other"], "the server names other, not ", 2),
        (["--listen-on", "0.0.0.0"], "open to others", 2),
        (exits(127), "the command cannot be run (exit code 127)", 3),
    ],
    ids=["argument", "exit-2", "model", "configuration", "wrong-model", "open-to-others", "command"],
)
def test_it_ends_the_run_with_the_words_of_the_server(cli, live, tmp_path, faults, words, code) -> None:
    made, run = live(faults=faults), tmp_path / "run"
    refused(cli(*made.arguments(run, "--json")), run, words, code)
    assert len([event for event in events(run) if event["event"] == "started"]) == 1, "no other TP is tried"


def test_a_mended_file_measures_all_cells(cli, live, tmp_path) -> None:
    """With --config, without it, and with the serve.toml in the run folder."""
    for number, how in enumerate(("config", "log", "folder")):
        made, run = live(faults=["--no-such-flag"]), tmp_path / f"run{number}"
        refused(cli(*made.arguments(run, "--json")), run, "--no-such-flag")
        mend(run / "serve.toml" if how == "folder" else made.config, '"--no-such-flag"', "")
        said = cli("run", run, "--resume", "--json", *(["--config", made.config] if how == "config" else []))
        assert said.code == 0, said.err
        assert [row["status"] for row in rows(run)] == ["ok"]
        assert said.document["verdict"] == "certified-feasible"
        assert "no-such-flag" not in (run / "serve.toml").read_text()
        assert cli("certify", run).code == 0
        before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
        assert cli("run", run, "--resume").code == 0
        assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


def test_what_the_failed_start_cost_is_in_the_next_row(cli, live, tmp_path) -> None:
    made, run = live(faults=["--bind-after-s", "1.5", "--wrong-model", "other"]), tmp_path / "run"
    said = cli(*made.arguments(run, "--json"))
    refused(said, run, "names other")
    held = events(run)[-1]["held_s"] * events(run)[0]["tp"]
    assert "GPU-seconds more, until the last server was gone, stand in no row" in said.err
    mend(made.config, ', "--wrong-model", "other"', "")
    said = cli("run", run, "--resume")
    assert said.code == 0, said.err
    assert "that servers held before the run went on" in said.err
    assert float(rows(run)[0]["cost_gpu_s"]) > held + 1.5


def test_it_ends_a_run_that_has_measured_other_cells_too(cli, live, tmp_path) -> None:
    cells, run = ("chat,1,r10,rate,10,1", "chat,2,r40,rate,40,2"), tmp_path / "run"
    made = live(per_tp={2: ["--no-such-flag"]}, cells=cells)
    said = cli(*made.arguments(run, "--json", "--policy", "grid"))
    assert (said.code, "--no-such-flag" in said.document["error"]["message"]) == (2, True), said.err
    assert "where TP 2 alone cannot start" in said.document["error"]["hint"]
    assert [(row["tp"], row["status"]) for row in rows(run)] == [("1", "ok")]
    assert not (run / "certificate.json").exists()
    mend(made.config, '"--no-such-flag"', "")
    assert cli("run", run, "--resume").code == 0
    assert {row["tp"] for row in rows(run)} == {"1", "2"}


def strange(run):
    """A command that ends with words that nobody knows, other ones at every start."""
    script = run.with_suffix(".sh")
    script.write_text('#!/bin/sh\necho "KeyError: /tmp/tmp$$/layers" >&2\nexit 1\n')
    os.chmod(script, 0o755)
    return json.dumps([str(script)])


@pytest.mark.parametrize(("most", "looks"), [(1, 1), (2, 3)])
def test_words_that_nobody_knows_end_it_the_second_time_and_leave_no_row(cli, live, tmp_path, most, looks) -> None:
    made, run, command = live(measure=f"max_looks = {looks}"), tmp_path / "run", json.dumps([*PYTHON, str(HOSTILE)])
    mend(made.config, command, strange(run))
    for _ in range(2):  # the second time as a mended file that is none
        more = ["--resume"] if run.exists() else []
        said = cli(*made.arguments(run, "--json", "--max-servers", most, *more))
        refused(said, run, "no server has started, and two starts failed:")
        message = said.document["error"]["message"]
        assert message.count("    KeyError: /tmp/tmp") == message.count("it ended with exit code 1") == 2
        assert "one more start is tried" in said.err
    tried = len([event for event in events(run) if event["event"] == "started"])
    assert 4 <= tried <= 4 * most, "side by side the next start may have begun"
    mend(made.config, strange(run), command)
    said = cli("run", run, "--resume", "--json")
    assert said.document["verdict"] == "certified-feasible", said.err
    assert {row["status"] for row in rows(run)} == {"ok"}


def test_a_flake_of_the_first_start_is_no_row(cli, live, tmp_path) -> None:
    made, run, command = live(), tmp_path / "run", json.dumps([*PYTHON, str(HOSTILE)])
    script, mark = tmp_path / "flaky.sh", tmp_path / "mark"
    words = f'[ -e {mark} ] || {{ touch {mark}; echo strange >&2; exit 1; }}\nexec {" ".join(PYTHON)} {HOSTILE} "$@"'
    script.write_text(f"#!/bin/sh\n{words}\n")
    os.chmod(script, 0o755)
    mend(made.config, command, json.dumps([str(script)]))
    said = cli(*made.arguments(run))
    assert (said.code, "one more start is tried" in said.err) == (0, True), said.err
    assert [row["status"] for row in rows(run)] == ["ok"]
    first, second = [event["held_s"] * event_of["tp"] for event_of in events(run) if event_of["event"] == "started"
                     for event in events(run) if event["event"] == "stopped" and event["pid"] == event_of["pid"]]  # fmt: skip
    assert first < float(rows(run)[0]["cost_gpu_s"]) <= first + second, "what the flake cost is in the row"


def test_once_a_server_was_ready_unknown_words_are_rows(cli, live, tmp_path) -> None:
    cells, run = ("chat,1,r10,rate,10,1", "chat,2,r40,rate,40,2"), tmp_path / "run"
    made = live(per_tp={2: exits(1, STRANGE.format(2))}, cells=cells)
    said = cli(*made.arguments(run, "--policy", "grid"))
    assert said.code == 4, said.err
    assert [(row["tp"], row["status"]) for row in rows(run)] == [("1", "ok"), ("2", "crashed"), ("2", "crashed")]


def test_side_by_side(cli, live, tmp_path) -> None:
    made, run = live(faults=["--no-such-flag"]), tmp_path / "run"
    said = cli(*made.arguments(run, "--json", "--max-servers", "2"))
    assert (said.code, "--no-such-flag" in said.document["error"]["message"]) == (2, True), said.err
    assert rows(run) == []
    mend(made.config, '"--no-such-flag"', "")
    assert cli("run", run, "--resume", "--config", made.config).code == 0


def test_measuring_by_hand_is_refused_alike(cli, live) -> None:
    made = live(per_tp={2: ["--no-such-flag"]})
    said = cli("measure", made.path, "--config", made.config, "--grid", "--json")
    assert (said.code, "--no-such-flag" in said.document["error"]["message"]) == (2, True), said.err
    assert [(row["tp"], row["status"]) for row in rows(made.path)] == [("1", "ok")]
    assert "1 of 2 measurements are in" in said.err
    mend(made.config, '"--no-such-flag"', "")
    said = cli("measure", made.path, "--config", made.config, "--grid", "--json")
    assert (said.code, [row["tp"] for row in said.document["measured"]]) == (0, [2]), said.err


@pytest.mark.parametrize("section", ["serve", "load"])
def test_a_command_that_is_a_folder_or_not_executable_is_called_that(cli, live, tmp_path, section) -> None:
    made, run = live(), tmp_path / "run"
    (made.path / "plain.sh").write_text("#!/bin/sh\n")
    purpose = "starts a server" if section == "serve" else "sends the load"
    program = HOSTILE if section == "serve" else FAST_ENGINE
    mend(made.config, json.dumps([*PYTHON, str(program)]), '["./plain.sh"]')
    for name, why in (("plain.sh", "is not executable"), ("folder", "is a folder, and not executable")):
        (made.path / "folder").mkdir(exist_ok=True)
        made.config.write_text(made.config.read_text().replace("./plain.sh", f"./{name}"))
        said = cli(*made.arguments(run, "--json"))
        told = f"the command '{made.path}/{name}', which {purpose}, {why}"
        assert (said.code, said.document["error"]["message"]) == (3, told), said.err
    assert not run.exists()


def test_commands_and_a_trace_are_seen_from_the_file_wherever_the_run_goes_on(cli, live, tmp_path, monkeypatch) -> None:
    made, run = live(cells=("chat,1,r40,rate,40,1",), load='[load.class.chat]\ntrace = "chat.csv"'), tmp_path / "run"
    (made.path / "chat.csv").write_text(
        "arrival_s,input_tokens,output_tokens\n" + "".join(f"{n / 10:.1f},20,4\n" for n in range(300))
    )
    for name, program in (("serve.sh", HOSTILE), ("load.sh", FAST_ENGINE)):
        script = made.path / name
        script.write_text(f'#!/bin/sh\nexec {" ".join(PYTHON)} {program} "$@"\n')
        os.chmod(script, 0o755)
        mend(made.config, json.dumps([*PYTHON, str(program)]), json.dumps([f"./{name}"]))
    mend(made.config, "arguments = []", 'arguments = ["--no-such-flag"]')
    refused(cli(*made.arguments(run, "--json")), run, "--no-such-flag")
    mend(run / "serve.toml", '"--no-such-flag"', "")  # the run's own copy: its paths are seen from where it came from
    gone, elsewhere = made.path.with_name("gone"), tmp_path / "elsewhere"
    made.path.rename(gone)
    said = cli("run", run, "--resume", "--json")
    assert (said.code, "there is no file" in said.err) == (2, True), said.err
    assert "--config FILE" in said.document["error"]["hint"]
    assert f"{made.path}, which is gone" in said.document["error"]["hint"]
    gone.rename(made.path)
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert cli("run", run, "--resume").code == 0
    assert [row["status"] for row in rows(run)] == ["ok"]


def test_a_command_that_cannot_be_run_is_missing(cli, live, tmp_path) -> None:
    made, run = live(), tmp_path / "run"
    script = made.path / "serve.sh"
    script.write_text(f"#!/no/such/shell\nexec {' '.join(PYTHON)} {HOSTILE}\n")
    os.chmod(script, 0o755)
    mend(made.config, json.dumps([*PYTHON, str(HOSTILE)]), json.dumps([str(script)]))
    refused(cli(*made.arguments(run, "--json")), run, "the command cannot be run", 3)

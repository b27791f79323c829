"""`fleetsieve sensitivity`: its document, table and plots, the answers, a given plan, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

SIM, PAPER = "sim-chat-code-16gpu", "paper-h100-31b"
E2E = ["--slo", "chat.e2e_p99_s=10:60"]
PLAN_KEYS = {"min_fulfilment", "goodput_rps", "shortfall", "gpus_used", "unservable", "classes"}
TODAY = {"chat": {"tp": 4, "load": "r8", "replicas": 2}, "code": {"tp": 4, "load": "r8", "replicas": 2}}


def given(**changes: object) -> str:
    Path("given.json").write_text(json.dumps({**TODAY, **changes}), encoding="utf-8")
    return "given.json"


def test_the_document_of_one_axis(cli):
    told = cli("sensitivity", SIM, *E2E, "--json", "--csv", "out.csv").document
    assert told["axis"] == {"name": "chat.e2e_p99_s", "unit": "s", "from": 10.0, "to": 60.0}
    assert told["exact"]
    intervals = told["intervals"]
    assert intervals[0]["from"] == 10.0
    assert intervals[-1]["to"] == 60.0
    assert [one["to"] for one in intervals[:-1]] == [other["from"] for other in intervals[1:]] == told["break_points"]
    for one in intervals:
        assert one["verdict"] in {"certified-feasible", "undecided", "certified-infeasible"}
        assert set(one["plan"]) >= PLAN_KEYS
        assert one["min_fulfilment"] == one["plan"]["min_fulfilment"]
    today = next(one for one in intervals if one["from"] <= 30.0 < one["to"])
    solved = cli("solve", SIM, "--json").document
    assert today["plan"]["classes"] == [
        {**c, "tails": {**c["tails"], "e2e_p99_s": {**c["tails"]["e2e_p99_s"], "slo": today["at"]}}}
        if c["class"] == "chat"
        else c
        for c in solved["conservative"]["classes"]
    ]
    rows = list(csv.DictReader(Path("out.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row["from"]) for row in rows] == [one["from"] for one in intervals]
    assert [row["replicas:chat"] for row in rows] == [
        str(next(c for c in one["plan"]["classes"] if c["class"] == "chat")["replicas"]) for one in intervals
    ]


def test_a_limit_in_milliseconds_is_the_same_axis(cli):
    in_s = cli("sensitivity", SIM, "--slo", "chat.ttft_p99_s=0.3:2.2", "--json")
    assert in_s.err == ""
    for text in ("chat.ttft_p99_ms=300:2200", "chat.ttft_p99_s=300ms:2.2s"):
        other = cli("sensitivity", SIM, "--slo", text, "--json")
        assert (other.err, other.document) == ("", in_s.document)
    assert "has no range LO:HI" in cli("sensitivity", SIM, "--slo", "chat.ttft_p99_s=300min:2").err


@pytest.mark.parametrize(
    ("slo", "said"),
    [
        (
            "chat.ttft_p99_s=300:2200",
            "a limit of 300 s is above 100 s, and limits nothing; was 300 ms meant? Then write 300ms",
        ),
        ("chat.tpot_p99_s=0.00002:0.0001", "which no server meets; was 0.1 s meant? Then write 0.1s"),
    ],
)
def test_a_range_where_no_limit_lies_is_told(cli, slo, said):
    answer = cli("sensitivity", SIM, "--slo", slo)
    assert answer.code == 0
    assert said in answer.err


def test_the_tightest_limit_and_how_far_the_plan_carries(cli):
    answers = cli("sensitivity", SIM, *E2E, "--json").document["answers"]
    # A range that ends elsewhere asks another question of the intervals, and the same of the plan.
    assert cli("sensitivity", SIM, "--slo", "chat.e2e_p99_s=28:31", "--json").document["answers"] == answers
    assert answers["today"] == 30.0
    holds = answers["plan_holds"]
    classes = Path("files") / "classes.csv"
    for limit, same in ((holds["from"], True), (holds["from"] * 0.999, False), (holds["to"], False)):
        assert (counts_at(cli, classes, limit) == counts_at(cli, classes, 30.0)) == same
    tightest = answers["tightest_feasible"]
    assert "chat" not in unserved_at(cli, classes, tightest)
    assert "chat" in unserved_at(cli, classes, tightest * 0.999)


def varied(cli, classes: Path, limit: float):
    """What solve says of a copy of the files with another limit for chat."""
    import fleetsieve.files as files

    folder = files.resolve(SIM)
    classes.parent.mkdir(exist_ok=True)
    for name in ("instance.toml", "classes.csv", "cells.csv", "measurements.csv"):
        (classes.parent / name).write_bytes((folder / name).read_bytes())
    text = classes.read_text(encoding="utf-8")
    assert text.count(",2,30,,0.99") == 1
    classes.write_text(text.replace(",2,30,,0.99", f",2,{limit!r},,0.99"), encoding="utf-8")
    return cli("solve", classes.parent, "--json").document["conservative"]["classes"]


def counts_at(cli, classes: Path, limit: float):
    return [(c["class"], c["tp"], c["load"], c["replicas"]) for c in varied(cli, classes, limit)]


def unserved_at(cli, classes: Path, limit: float):
    return [c["class"] for c in varied(cli, classes, limit) if c["replicas"] == 0]


def test_what_one_more_gpu_is_worth(cli):
    told = cli("sensitivity", SIM, "--gpus", "14:20", "--json").document
    plans = {n: cli("solve", SIM, "--gpus", n, "--json").document["conservative"] for n in (16, 17, 20)}
    more, change = told["answers"]["one_more"], told["answers"]["next_change"]
    assert more["goodput_rps"] == pytest.approx(plans[17]["goodput_rps"] - plans[16]["goodput_rps"])
    assert change["gpus"] == 20
    assert change["min_fulfilment"] == pytest.approx(plans[20]["min_fulfilment"] - plans[16]["min_fulfilment"])
    assert [(one["from"], one["to"]) for one in told["intervals"]] == [(14, 15), (16, 19), (20, 20)]


@pytest.mark.parametrize(
    ("span", "at"), [("8:24", 20), ("17:24", 20), ("20:24", None), ("30:32", None), ("17:19", None)]
)
def test_the_next_change_is_told_only_where_none_before_it_was_skipped(cli, span, at):
    change = cli("sensitivity", SIM, "--gpus", span, "--json").document["answers"]["next_change"]
    assert (change and change["gpus"]) == at
    assert ("the next change is at 20 GPUs" in (out := cli("sensitivity", SIM, "--gpus", span).out)) == (at == 20)
    assert ("the next change is unknown" in out) == span.startswith(("20", "30"))


def test_a_minimum_over_no_class_is_no_fulfilment(cli):
    said = cli("sensitivity", SIM, "--gpus", "1:2", "--json", "--csv", "out.csv")
    one, two = said.document["intervals"]
    assert (one["min_fulfilment"], one["ends"]["from"]["min_fulfilment"], one["unservable"]) == (
        None,
        None,
        ["chat", "code"],
    )
    assert one["next_adds"] == {"goodput_rps": two["goodput_rps"], "min_fulfilment": None}
    assert (two["min_fulfilment"], two["unservable"]) == (0.0, [])
    rows = list(csv.DictReader(Path("out.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["min_fulfilment"], row["unservable"]) for row in rows] == [("", "chat; code"), ("0.0", "")]
    (line,) = (line for line in cli("sensitivity", SIM, "--gpus", "1:2").out.splitlines() if "unservable" in line)
    assert "1.0000" not in line


def test_a_minimum_that_leaves_classes_out_says_so(cli):
    out = cli("sensitivity", SIM, "--slo", "chat.tpot_p99_s=0.01:0.02").out
    first, second = out.split("chat unservable")[1].split("chat TP8 r6 x1")
    assert "1.0000 of the" in first
    assert "of the" not in second


def test_a_given_plan_breaks_where_its_cell_does(cli):
    told = cli("sensitivity", SIM, *E2E, "--given", given(), "--json").document
    broken = [one for one in told["intervals"] if one["verdict"] == "broken"]
    assert [one["faults"] for one in broken] == [["chat TP4 r8 misses its e2e p99 limit"]]
    assert broken[0]["plan"] is None
    assert broken[0]["to"] == told["answers"]["plan_holds"]["from"]
    rows = Path(__file__).resolve().parents[2] / "instances" / SIM / "measurements.csv"
    (cell,) = (
        row
        for row in csv.DictReader(rows.read_text(encoding="utf-8").splitlines())
        if (row["class"], row["tp"], row["load"]) == ("chat", "4", "r8")
    )
    assert broken[0]["to"] == float(cell["e2e_p99_s"])


def test_a_given_plan_needs_its_gpus_and_meets_demand_up_to_its_capacity(cli):
    told = cli("sensitivity", SIM, "--gpus", "12:17", "--given", given(), "--json").document
    assert [(one["from"], one["to"], one["verdict"]) for one in told["intervals"]] == [
        (12, 15, "broken"),
        (16, 17, "certified-feasible"),
    ]
    told = cli("sensitivity", SIM, "--demand", "chat=0.5:2", "--given", given(), "--json").document
    (at,) = told["break_points"]
    assert at == pytest.approx(16.0 / 17.0)  # two replicas of 8 requests/s against a demand of 17
    assert told["intervals"][1]["faults"] == ["chat is not served in full"]


AXES = [E2E, ["--slo", "code.ttft_p99_s=1:9"], ["--demand-scale", "0.8:1.2"], ["--epsilon", "0.01:0.2"], ["--gpus", "15:17"],
        ["--gpus", "15:16", "--epsilon", "0.1:0.2"]]  # fmt: skip
BREAKS = [
    ({"chat": {"tp": 4, "load": "r11", "replicas": 2}}, "chat TP4 r11 misses its e2e p99 limit of 30 s: it is 50.69 s"),
    ({"chat": {"tp": 4, "load": "r8", "replicas": 9}}, "it needs 44 GPUs, and the fleet has 16"),
    ({"code": {"tp": 4, "load": "r8", "replicas": 1}}, "code is served 8 requests/s of its floor of 12"),
    ({"code": {"replicas": 0}}, "code is served 0 requests/s of its floor of 12"),
]


@pytest.fixture
def floored(tmp_path):
    """The simulated instance with a floor of 12 requests/s for code."""
    import fleetsieve.files as files

    folder = shutil.copytree(files.resolve(SIM), tmp_path / "floored")
    text = (folder / "classes.csv").read_text(encoding="utf-8")
    assert text.count("code,2259.8,37.5,16,1,,") == 1
    (folder / "classes.csv").write_text(text.replace("37.5,16,1,,", "37.5,16,1,12,"), encoding="utf-8")
    return folder


@pytest.mark.parametrize("axis", AXES, ids=" ".join)
@pytest.mark.parametrize(("changes", "broken"), BREAKS)
def test_a_plan_that_is_broken_today_is_never_said_to_hold(cli, floored, axis, changes, broken):
    file = given(**changes)
    said = cli("sensitivity", floored, *axis, "--given", file)
    assert said.code == 0
    assert f"the given plan does not hold today: {broken}" in said.out
    assert "the given plan holds" not in said.out
    assert "verdict stays" not in said.out
    document = cli("sensitivity", floored, *axis, "--given", file, "--json").document
    assert document["given"] == {"holds_today": False, "breaks": [broken]}
    told = document.get("answers", {})
    assert (told.get("plan_holds"), told.get("verdict_holds")) == (None, None)


def test_all_that_breaks_a_plan_is_told_at_once_and_where_it_would_hold(cli, floored):
    file = given(chat={"tp": 4, "load": "r11", "replicas": 9}, code={"tp": 4, "load": "r8", "replicas": 1})
    assert len(cli("sensitivity", floored, *E2E, "--given", file, "--json").document["given"]["breaks"]) == 3
    file = given(code={"tp": 4, "load": "r8", "replicas": 4})
    out = cli("sensitivity", floored, "--gpus", "14:30", "--given", file).out
    assert "the given plan would hold for gpus from 24 to 30" in out


@pytest.mark.parametrize("axis", AXES, ids=" ".join)
def test_a_plan_that_holds_today_says_so(cli, floored, axis):
    assert "the given plan holds today" in cli("sensitivity", floored, *axis, "--given", given()).out
    document = cli("sensitivity", floored, *axis, "--given", given(), "--json").document
    assert document["given"] == {"holds_today": True, "breaks": []}
    assert cli("sensitivity", floored, *axis, "--json").document["given"] is None


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize(("plan", "named"), [({"chat": TODAY["chat"]}, "'code'"), ({"classes": []}, "'chat', 'code'")])
def test_a_class_that_the_file_omits_is_named(cli, plan, named, as_json):
    Path("part.json").write_text(json.dumps(plan), encoding="utf-8")
    said = cli("sensitivity", SIM, *E2E, "--given", "part.json", *as_json)
    assert said.code == 2
    assert f"part.json has no entry for class {named}" in said.err
    assert '{"code": {"replicas": 0}' in said.err.replace('{"chat": {"replicas": 0}, ', "{")
    if as_json:
        assert named in said.document["error"]["message"]


@pytest.mark.parametrize("source", ["solve", "certificate"])
def test_a_given_plan_comes_from_what_other_commands_write(cli, source):
    if source == "solve":
        Path("plan.json").write_text(cli("solve", SIM, "--json").out, encoding="utf-8")
    else:
        assert cli("solve", SIM, "--certificate", "plan.json").code == 0
    same = cli("sensitivity", SIM, *E2E, "--given", given(), "--json").document
    assert cli("sensitivity", SIM, *E2E, "--given", "plan.json", "--json").document == same


def test_two_axes(cli):
    told = cli("sensitivity", PAPER, "--slo", "Chat.e2e_p99_s=10:60", "--gpus", "8:24", "--json", "--csv", "map.csv")
    document = told.document
    assert [axis["name"] for axis in document["axes"]] == ["Chat.e2e_p99_s", "gpus"]
    regions = document["regions"]
    for limit, gpus in ((20.0, 9), (26.0, 13), (31.0, 16), (50.0, 24), (46.38, 8)):
        (one,) = (
            r
            for r in regions
            if r["y"]["from"] <= gpus <= r["y"]["to"]
            and (r["x"]["from"] <= limit < r["x"]["to"] or limit == r["x"]["to"] == 60.0)
        )
        alone = cli(
            "sensitivity", PAPER, "--gpus", f"{gpus}:{gpus}", "--slo", f"Chat.e2e_p99_s={limit}:{limit}", "--json"
        )
        (same,) = alone.document["regions"]
        assert same["verdict"] == one["verdict"]
        assert [c["replicas"] for c in same["plan"]["classes"]] == [c["replicas"] for c in one["plan"]["classes"]]
    assert len(list(csv.DictReader(Path("map.csv").read_text(encoding="utf-8").splitlines()))) == len(regions)


@pytest.mark.slow
def test_two_demands_are_sampled_and_say_so(cli):
    said = cli("sensitivity", PAPER, "--demand", "Chat=0.9:1.1", "--demand", "Code=0.9:1.1")
    assert "(sampled)" in said.out
    assert not cli("sensitivity", PAPER, "--demand", "Chat=0.9:1", "--epsilon", "0.01:0.1", "--json").document["exact"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "begins"), [("p.svg", b"<svg"), ("p.png", b"\x89png"), ("p.html", b"<!doctype html>")]
)
def test_plots(cli, name, begins):
    assert cli("sensitivity", SIM, *E2E, "--plot", name).code == 0
    assert Path(name).read_bytes().lstrip().lower().startswith(begins)


def test_a_map_is_labelled_by_allocation(cli):
    assert cli("sensitivity", PAPER, "--slo", "Chat.e2e_p99_s=10:60", "--gpus", "8:24", "--plot", "map.svg").code == 0
    text = Path("map.svg").read_text(encoding="utf-8")
    assert "A: Chat none, Code TP4 peak x2" in text
    assert ">H<" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no axis is given"),
        (["--slo", "chat=1:2"], "is not CLASS.METRIC=LO:HI"),
        (["--slo", "chat.latency=1:2"], "there are ttft_p99_s, e2e_p99_s, tpot_p99_s, min_success"),
        (["--slo", "nobody.e2e_p99_s=1:2"], "'nobody', which is not a class"),
        (["--slo", "chat.e2e_p99_s=2:1"], "is not a range"),
        (["--slo", "chat.min_success=0.5:1.5"], "not a fraction in [0, 1]"),
        (["--gpus", "1.5:3"], "not whole numbers"),
        (["--gpus", "1:100001"], "above 100000"),
        (["--gpus", "99999999999999999999:99999999999999999999"], "above 100000"),
        (["--gpus", "3"], "--gpus '3' has no range LO:HI"),
        (["--slo", "chat.e2e_p99_s=30"], "--slo 'chat.e2e_p99_s=30' has no range LO:HI"),
        (["--epsilon", "0:1"], "must be above 0"),
        (["--demand", "chat=0:2"], "must be above 0"),
        (["--demand-scale", "1:1e12"], "above 1e+09"),
        (["--demand-scale", "1:2", "--gpus", "1:2", "--epsilon", "0.1:0.2"], "3 axes are given"),
        (["--slo", "chat.e2e_p99_s=1:2", "--slo", "chat.e2e_p99_s=3:4"], "both axes are chat.e2e_p99_s"),
        (["--gpus", "8:9", "--gpus", "8:24"], "both axes are gpus"),
        (["--epsilon", "0.1:0.2", "--epsilon", "0.1:0.2"], "both axes are epsilon"),
        (["--demand-scale", "1:2", "--demand-scale", "1:2"], "both axes are demand of all classes"),
        (["--slo", "chta.e2e_p99_s=1:2"], "which is not a class; did you mean 'chat'?"),
        (["--slo", "chat.e2e_p99=1:2"], "an SLO has no 'e2e_p99'; did you mean 'e2e_p99_s'?"),
        (["--demand", "cdoe=1:2"], "which is not a class; did you mean 'code'?"),
        (["--gpus", "8:9", "--plot", "x.pdf"], "the suffix must be one of"),
        (["--gpus", "8:9", "--given", "missing.json"], "cannot read missing.json"),
    ],
)
def test_what_is_refused(cli, arguments, message):
    said = cli("sensitivity", SIM, *arguments)
    assert said.code == 2
    assert message in said.err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chat": 3}, "is not an allocation"),
        ({"nobody": {"tp": 1, "load": "r8", "replicas": 1}}, "which sim-chat-code-16gpu does not have"),
        ({"chat": {"tp": 3, "load": "r8", "replicas": 1}}, "is not a cell of"),
        ({"chat": {"tp": 4, "load": "r8", "replicas": -1}}, "not a whole number >= 0"),
        ({"chat": {"tp": "4", "load": "r8", "replicas": 1}}, "needs a whole-number tp"),
        ({"chta": {"tp": 4, "load": "r8", "replicas": 1}}, "does not have; did you mean 'chat'?"),
    ],
)
def test_a_given_plan_that_is_none(cli, changes, message):
    said = cli("sensitivity", SIM, "--gpus", "8:9", "--given", given(**changes))
    assert said.code == 2
    assert message in said.err


def test_a_class_that_stands_twice_in_a_given_plan(cli):
    Path("twice.json").write_text('{"chat": {"replicas": 0}, "code": {"replicas": 0}, "chat": {"replicas": 0}}')
    said = cli("sensitivity", SIM, *E2E, "--given", "twice.json")
    assert said.code == 2
    assert "twice.json: 'chat' stands 2 times in one object" in said.err


@pytest.mark.slow
def test_two_demands_that_are_one_are_refused(cli):
    assert cli("sensitivity", SIM, "--demand-scale", "1:2", "--demand", "chat=1:2", "--json").code == 0
    import fleetsieve.files as files

    folder = Path("alone")
    folder.mkdir()
    for name in ("instance.toml", "classes.csv", "cells.csv", "measurements.csv"):
        text = (files.resolve(SIM) / name).read_text(encoding="utf-8")
        (folder / name).write_text(
            "".join(line for line in text.splitlines(True) if not line.startswith("code,")), encoding="utf-8"
        )
    said = cli("sensitivity", folder, "--demand-scale", "1:2", "--demand", "chat=1:2")
    assert (said.code, said.out) == (2, "")
    assert "both axes vary the demand of chat alone" in said.err


def test_one_region_and_one_gpu_are_told_as_one(cli):
    assert "1 region, 1 allocation" in cli("sensitivity", SIM, "--gpus", "16:16", "--epsilon", "0.1:0.1").out
    out = cli("sensitivity", SIM, "--gpus", "17:17").out
    assert "1 GPU left" in " ".join(out.split())

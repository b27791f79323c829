"""A certificate that was changed, or whose files were, does not hold; the reasons are told and nothing crashes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fleetsieve.certificate import plan_document


@pytest.fixture
def stored(cli, folder):
    path = folder.path / "certificate.json"
    assert cli("solve", folder.path, "--certificate", path).code == 0
    return path


def refused(cli, folder, word=""):
    said = cli("certify", folder.path, "--json")
    assert said.code in (1, 2)
    told = json.dumps(said.document, ensure_ascii=False)
    if said.code == 1:
        assert said.document["holds"] is False
        assert said.document["faults"]
    assert word in told
    assert cli("certify", folder.path).code == said.code
    return said.document.get("faults")


def put(document, path, value):
    *parents, last = path
    for key in parents:
        document = document[key]
    if value is KeyError:
        del document[last]
    else:
        document[last] = value


FIRST = ("conservative", "classes", 0)
CHANGES = [
    (("verdict",), "undecided"),
    (("verdict",), "certified-infeasible"),
    (("verdict",), None),
    (("gap", "goodput"), 0.04),
    (("gap", "min_fulfilment"), None),
    (("gap",), None),
    (("epsilon",), 2.0),
    (("epsilon",), 0.0),
    (("epsilon",), "much"),
    (("eta",), -1.0),
    (("lower", "goodput_rps"), 11.0),
    (("lower", "best_min_fulfilment"), 0.9),
    (("upper", "goodput_rps"), 11.0),
    (("upper",), KeyError),
    (("conservative",), None),
    (("conservative", "goodput_rps"), 12.0),
    (("conservative", "min_fulfilment"), 1.0),
    (("conservative", "gpus_used"), 7),
    (("conservative", "unservable"), ["code"]),
    (("conservative", "classes"), []),
    ((*FIRST, "replicas"), 2),
    ((*FIRST, "replicas"), 3.5),
    ((*FIRST, "replicas"), -3),
    ((*FIRST, "replicas"), 10**30),
    ((*FIRST, "replicas"), 10**400),
    ((*FIRST, "replicas"), "three"),
    ((*FIRST, "replicas"), 0),
    ((*FIRST, "served_rps"), 8.0),
    ((*FIRST, "fulfilment"), 1.0),
    ((*FIRST, "utilisation"), 0.5),
    ((*FIRST, "gpus"), 4),
    ((*FIRST, "demand_rps"), 6.0),
    ((*FIRST, "tp"), 4),
    ((*FIRST, "load"), "c16"),
    ((*FIRST, "pool"), ["default"]),
    ((*FIRST, "class"), "code"),
    ((*FIRST, "tails", "ttft_p99_s", "hi"), 0.5),
    (("conservative", "classes", 1, "tp"), 4),
    (("optimistic", "goodput_rps"), 12.0),
    (("unservable",), ["chat"]),
    (("open_classes",), ["chat"]),
    (("assumptions",), [{"name": "roofline", "statement": "no replica beats its datasheet"}]),
    (("dropped",), [{"assumption": "roofline", "arm": "chat TP2", "quantity": "capacity"}]),
    (("rows", 0, "seed"), 7),
    (("rows",), []),
    (("files", "measurements.csv"), "0" * 64),
    (("files", "measurements.csv"), KeyError),
    (("files",), {}),
    (("files",), []),
    (("files",), KeyError),
    (("confidence",), 0.999),
    (("explanation",), "certified-feasible: it serves all demand."),
    (("explanation",), KeyError),
    (("instance",), "other"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "value"), CHANGES, ids=lambda part: str(part)[:40])
def test_a_changed_certificate(cli, folder, stored, path, value):
    document = json.loads(stored.read_text())
    put(document, path, value)
    stored.write_text(json.dumps(document))
    refused(cli, folder)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "null", "3", '"certified-feasible"', "[" * 100_000, '{"epsilon": NaN}', "\ufeff{}",
     '{"files": {}, "eta": 1e999}', '{"verdict": "certified-feasible"}'],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_what_is_no_certificate(cli, folder, stored, text):
    stored.write_text(text, encoding="utf-8")
    refused(cli, folder)


def test_not_a_number_certifies_nothing(cli, folder, stored):
    stored.write_text(stored.read_text().replace('"epsilon": 0.05', '"epsilon": NaN'))
    refused(cli, folder, "NaN")


def test_bytes_that_are_no_text(cli, folder, stored):
    stored.write_bytes(b"\xff\xfe\x00")
    refused(cli, folder)


def test_a_row_edited_afterwards(cli, folder, stored):
    folder.change("measurements.csv", '"chat",2,c8,0,ok,2,1', '"chat",2,c8,0,ok,1.5,1')
    faults = refused(cli, folder)
    assert faults[0] == "measurements.csv has changed since the certificate was written"
    assert any("goodput_rps" in fault for fault in faults)


def test_a_row_that_no_longer_meets_its_slo(cli, folder, stored):
    folder.change("measurements.csv", '"chat",2,c8,0,ok,2,1', '"chat",2,c8,0,ok,2,3')
    assert any("commits chat TP2 c8" in fault for fault in refused(cli, folder))


@pytest.mark.parametrize("name", ["instance.toml", "classes.csv", "cells.csv", "measurements.csv"])
def test_a_file_that_says_the_same_in_other_bytes(cli, folder, stored, name):
    path = folder.path / name
    path.write_text(path.read_text() + "\n")
    assert refused(cli, folder) == [f"{name} has changed since the certificate was written"]


def test_measurements_that_are_gone(cli, folder, stored):
    (folder.path / "measurements.csv").unlink()
    assert "measurements.csv, which the certificate speaks of, is not there" in refused(cli, folder)


@pytest.mark.parametrize("name", ["paper-h100-31b", "sim-chat-code-16gpu", "sim-four-class-64gpu"])
def test_what_the_milp_wrote_the_frontier_confirms(cli, name):
    assert cli("solve", name, "--certificate", "c.json").code == 0
    said = cli("certify", name, "--certificate", "c.json", "--json").document
    assert (said["faults"], said["engine"], said["checked_with"]) == ([], "highs-milp", "frontier")


@pytest.mark.parametrize("change", ["nothing", "unmeasured", "infeasible", "unservable"])
def test_every_verdict_holds_when_it_is_fresh(cli, folder, change):
    if change == "unmeasured":
        (folder.path / "measurements.csv").unlink()
    elif change == "infeasible":
        folder.change("classes.csv", '"chat",,,8,1,', '"chat",,,8,1,8')
    elif change == "unservable":
        folder.change("measurements.csv", '"chat",2,c8,0,ok,2,1', '"chat",2,c8,0,ok,2,9')
    cli("solve", folder.path, "--certificate", folder.path / "certificate.json")
    assert cli("certify", folder.path, "--json").document["faults"] == []


def test_a_floor_above_the_demand_is_said(cli, folder):
    folder.change("classes.csv", '"code",,,4,1,,5', '"code",,,4,1,9,5')
    assert cli("solve", folder.path, "--eta", 0, "--epsilon", 0.1, "--certificate", "c.json").code == 0
    stored, said = Path("c.json"), " (a floor above its class's demand counts as the demand: code 9 as 4 requests/s)"
    text = stored.read_text(encoding="utf-8")
    assert f"every floor is met{said} and no plan" in text
    for words, holds in ((said, True), ("", False), (said.replace("code 9", "code 8"), False)):
        stored.write_text(text.replace(said, words), encoding="utf-8")
        found = cli("certify", folder.path, "--certificate", "c.json", "--json")
        assert (found.code == 0, found.document["holds"]) == (holds, holds)


@pytest.mark.parametrize("change", ["nothing", "unmeasured", "infeasible"])
def test_no_word_can_be_added_to_an_explanation(cli, folder, change):
    if change == "unmeasured":
        (folder.path / "measurements.csv").unlink()
    elif change == "infeasible":
        folder.change("classes.csv", '"chat",,,8,1,', '"chat",,,8,1,8')
    path = folder.path / "certificate.json"
    cli("solve", folder.path, "--certificate", path)
    document = json.loads(path.read_text())
    for text in (f"{document['explanation']} It also holds for twice the demand.", document["explanation"][:-2]):
        path.write_text(json.dumps({**document, "explanation": text}))
        assert "explanation is" in refused(cli, folder)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["closed", "blocking", "settling", "stopped", "optimistic", "rests_on", "assumptions", "dropped"]
)
def test_no_part_of_a_certificate_can_be_left_out_or_emptied(cli, folder, stored, key):
    document = json.loads(stored.read_text())
    without = {name: value for name, value in document.items() if name != key}
    for changed in (without, {**document, key: "other"}, {**document, key: {"other": 1}}):
        stored.write_text(json.dumps(changed))
        refused(cli, folder)


def test_an_optimistic_plan_cannot_be_left_out(cli, folder, stored):
    document = json.loads(stored.read_text())
    stored.write_text(json.dumps({**document, "optimistic": None}))
    assert refused(cli, folder)[0] == "its optimistic plan is missing"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (
            {"schema_version": 99},
            "its schema_version is 99, and this version of FleetSieve knows 2: a newer one wrote it",
        ),
        ({"schema_version": 0}, "which is no version"),
        ({"schema_version": "2"}, "which is no version"),
        ({"schema_version": True}, "which is no version"),
        ({"schema_version": 1}, "writes no certificate with schema_version 1"),
        ({"rule_set": 99}, "its rule_set is 99"),
        ({"rule_set": None}, "which is no version"),
    ],
)
def test_the_version_of_a_certificate_comes_first(cli, folder, stored, change, word):
    stored.write_text(json.dumps({**json.loads(stored.read_text()), **change}))
    assert word in refused(cli, folder)[0]


def test_a_key_that_this_version_does_not_know_is_told_and_contradicts_nothing(cli, folder, stored):
    document = json.loads(stored.read_text())
    stored.write_text(json.dumps({**document, "owner": "platform"}))
    found = cli("certify", folder.path, "--json")
    assert (found.code, found.document["faults"]) == (0, [])
    assert found.document["notes"] == ["not compared, for this version does not know them: owner"]


def test_a_key_that_came_later_is_no_contradiction_in_an_older_certificate(cli, folder, stored, monkeypatch):
    """Every certificate of version 0.1.0 failed with "KeyError at 'owner'" where one key was added to a plan."""
    document = json.loads(stored.read_text())
    document["versions"]["fleetsieve"] = "0.2.9"
    stored.write_text(json.dumps(document))
    original = plan_document
    for name in ("check", "document"):
        module = sys.modules[f"fleetsieve.certificate.{name}"]
        monkeypatch.setattr(module, "plan_document", lambda *given: {**original(*given), "owner": "platform"})
    found = cli("certify", folder.path, "--json")
    assert (found.code, found.document["faults"]) == (0, [])
    assert found.document["notes"][0].startswith("version 0.2.9 wrote it")
    document["versions"]["fleetsieve"] = json.loads(cli("solve", folder.path, "--json").out)["versions"]["fleetsieve"]
    stored.write_text(json.dumps(document))
    assert "lacks 'owner'" in refused(cli, folder)[0]


def test_another_plan_that_is_evaluated_rightly_is_not_the_certified_one(cli, folder, stored):
    """An empty plan whose figures are right, and one of fewer replicas, in place of the plan that was certified."""
    document = json.loads(stored.read_text())
    for entry in document["conservative"]["classes"]:
        entry |= {"tp": None, "load": None, "pool": None, "tails": {}} | dict.fromkeys(
            ("replicas", "gpus", "served_rps", "fulfilment", "utilisation"), 0
        )
    document["conservative"] |= {"min_fulfilment": 0.0, "goodput_rps": 0.0, "gpus_used": 0}
    stored.write_text(json.dumps(document))
    assert any(fault.startswith("the goodput_rps guaranteed by its plan") for fault in refused(cli, folder))
    document = json.loads(cli("solve", folder.path, "--certificate", stored, "--json").out)
    document["optimistic"] = json.loads(json.dumps(document["conservative"]))
    for entry in document["optimistic"]["classes"]:
        entry |= {"tp": None, "load": None, "pool": None, "tails": {}, "replicas": 0, "gpus": 0, "served_rps": 0.0}
        entry |= {"fulfilment": 0.0, "utilisation": 0.0}
    document["optimistic"] |= {"min_fulfilment": 0.0, "goodput_rps": 0.0, "gpus_used": 0}
    stored.write_text(json.dumps(document))
    assert any("possible by its optimistic plan" in fault for fault in refused(cli, folder))


@pytest.mark.parametrize("version", ["0.1.0", "0.1.99", "", None, 2, "new", KeyError])
def test_no_version_turns_the_check_of_words_off(cli, folder, stored, version):
    document = json.loads(stored.read_text())
    put(document, ("versions", "fleetsieve"), version)
    stored.write_text(json.dumps({**document, "explanation": f"{document['verdict']}: buy 100 GPUs"}))
    assert "version" in refused(cli, folder)[0]


def test_words_of_another_version_are_not_printed_as_if_they_followed(cli, folder, stored):
    document = json.loads(stored.read_text())
    put(document, ("versions", "fleetsieve"), "0.9.0")
    stored.write_text(json.dumps({**document, "explanation": f"{document['verdict']}: buy 100 GPUs"}))
    said = cli("certify", folder.path)
    assert (said.code, "buy 100 GPUs" in said.out) == (0, False)
    assert "its words were not" in said.out


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.05 in the least", "0.0512 in the least"), ("TP2", "TP2.1"), ("0.05 of the demand", "0.０５ of the demand")],
)
def test_a_number_in_the_words_is_that_of_the_figures(cli, folder, stored, old, new):
    document = json.loads(stored.read_text())
    assert old in json.dumps(document, ensure_ascii=False)
    stored.write_text(json.dumps(document, ensure_ascii=False).replace(old, new), encoding="utf-8")
    refused(cli, folder)


def test_keys_inside_a_certificate_that_nobody_knows_are_named(cli, folder, stored):
    document = json.loads(stored.read_text())
    document["gap"]["approved"] = document["conservative"]["classes"][0]["owner"] = True
    stored.write_text(json.dumps(document))
    notes = cli("certify", folder.path, "--json").document["notes"]
    assert notes == ["not compared, for this version does not know them: conservative.classes.owner and gap.approved"]


def test_a_key_that_stands_twice_is_refused(cli, folder, stored):
    stored.write_text('{"verdict": "undecided",' + stored.read_text().lstrip("{ \n"))
    assert "appears twice" in cli("certify", folder.path).err


def test_a_certificate_with_a_byte_order_mark_is_read(cli, folder, stored):
    stored.write_text("\ufeff" + stored.read_text(), encoding="utf-8")
    assert cli("certify", folder.path).code == 0


def test_a_run_that_its_stop_rule_ended_must_say_so(cli, tmp_path):
    assert cli("run", "sim-chat-code-16gpu", "--replay", "--stop-when-unprofitable", 0.05, "--out", "thrifty").code == 0
    path = tmp_path / "thrifty" / "certificate.json"
    document = json.loads(path.read_text())
    assert cli("certify", "thrifty").code == 0
    without = document["explanation"].partition(" stopped:")[0]
    path.write_text(json.dumps({**document, "stopped": None, "explanation": without}))
    assert cli("certify", "thrifty").code == 1
    path.write_text(json.dumps({**document, "stopped": {**document["stopped"], "horizon_h": 5.0}}))
    assert cli("certify", "thrifty").code == 1

"""What a page says is what the certificate says, and nothing that comes from a file is markup."""

from __future__ import annotations

import json

import pytest
from figures.reading_pages import Page
from report.conftest import HOSTILE, KINDS

from fleetsieve.files import read_instance


def page_of(folder) -> tuple[str, Page]:
    text = (folder / "report.html").read_text(encoding="utf-8")
    return text, Page(text)


@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_and_its_sentence_lead(made, kind):
    _, page = page_of(made[kind])
    stored = json.loads((made[kind] / "certificate.json").read_text())
    verdict, _, sentence = stored["explanation"].partition(": ")
    expected = {"finished": "certified-feasible", "infeasible": "certified-infeasible"}
    assert verdict == expected.get(kind, "undecided")
    top = page.text.split("GPUs in use")[0]
    assert top.index(verdict) < top.index(sentence.split(";")[0].split(" (priority")[0])
    for statement in stored["rests_on"]:
        name, _, rest = statement.partition(": ")
        assert rest or name in page.text


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_runs_but_the_two_scripts(made, kind):
    text, page = page_of(made[kind])
    assert page.scripts == [{}, {}]
    assert page.blocks > (2 if kind == "infeasible" else 8)
    assert page.dangers == []
    assert HOSTILE not in text
    (policy,) = [a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.split("style-src")[0]
    assert "unsafe-eval" not in policy


def test_hostile_text_is_shown_as_it_is(made):
    _, page = page_of(made["hostile"])
    assert page.text.count(HOSTILE) > 5
    assert "<b>bold</b>{{ 7 * 7 }}" in page.text
    assert not [tag for tag, _ in page.elements if tag in ("b", "img")]


def test_failures_have_their_causes_and_what_follows(made):
    _, page = page_of(made["failed"])
    told = page.text.split("Failures")[1].split("Reproduce")[0]
    for cause in ("CUDA out of memory", "worker 3 died", "exit code 1", "no token", "429"):
        assert cause in told
    assert "closed, its server failed to start: no plan uses it" in told
    assert "a later look succeeded, and counts" in told
    assert "it may be a flake" in told
    assert "No look failed." in page_of(made["finished"])[1].text


def test_every_step_stands_in_the_page(made):
    _, page = page_of(made["finished"])
    lines = [json.loads(line) for line in (made["finished"] / "steps.jsonl").read_text().splitlines()[1:]]
    assert f"The {len(lines)} steps" in page.text
    for line in lines:
        assert line["reason"] in page.text


def test_an_undecided_page_says_what_would_settle_it(made):
    text = page_of(made["undecided"])[1].text
    assert "What would settle it" in text
    assert "Nothing more is asked: no cell is left that a measurement could resolve" in text
    assert "Not a plan: the best that the bounds still allow" in text
    assert "What would settle it" not in page_of(made["finished"])[1].text


def test_the_stored_certificate_is_checked(made, tmp_path):
    assert "it holds" in page_of(made["finished"])[1].text


def test_the_commands_of_a_page_run(made, cli, tmp_path):
    _, page = page_of(made["finished"])
    commands = [line.strip() for line in page.text.splitlines() if line.strip().startswith("fleetsieve ")]
    assert [line.split()[1] for line in commands] == ["certify", "run", "solve", "explain", "report"]
    for line in commands:
        said = cli(*line.split()[1:])
        assert said.code == 0, said.err
    again = (tmp_path / "again" / "steps.jsonl").read_bytes()
    assert again == (made["finished"] / "steps.jsonl").read_bytes()


def test_the_same_folder_gives_the_same_bytes(made, cli, tmp_path):
    assert cli("report", made["failed"], "-o", "again.html").code == 0
    assert (tmp_path / "again.html").read_bytes() == (made["failed"] / "report.html").read_bytes()


def test_an_instance_has_a_page_too(cli, tmp_path):
    said = cli("report", "paper-h100-31b", "--json")
    assert said.document == {"report": "report.html", "bytes": (tmp_path / "report.html").stat().st_size}
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "fleetsieve solve paper-h100-31b" in text
    assert "How the gap closed" not in text
    assert "How far this plan carries" in text
    assert read_instance("paper-h100-31b").instance.source in text


def test_a_place_that_cannot_be_written_is_told(cli, made):
    said = cli("report", made["finished"], "--no-sensitivity", "-o", "nowhere/report.html")
    assert (said.code, "cannot write nowhere/report.html" in said.err) == (1, True)

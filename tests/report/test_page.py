"""What a page says is what the certificate says, and nothing that comes from a file is markup."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from figures.reading_pages import Page
from report.conftest import HOSTILE, KINDS

from fleetsieve.answers.what_if import with_demands, with_floors
from fleetsieve.files import read_instance
from fleetsieve.report import report_html
from fleetsieve.report.rounding import gap_part, share


def page_of(folder) -> tuple[str, Page]:
    text = (folder / "report.html").read_text(encoding="utf-8")
    return text, Page(text)


@pytest.mark.slow
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
    assert page.blocks > 8
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
    told = page.text.split("One row per cause")[1].split("Reproduce")[0]
    for cause in ("CUDA out of memory", "worker 3 died", "exit code 1", "no token", "429"):
        assert cause in told
    assert "closed, its server failed to start: no plan uses it" in told
    assert "a later measurement succeeded, and counts" in told
    assert "the failure may be transient" in told
    assert "No measurement failed." in page_of(made["finished"])[1].text


def test_every_step_stands_in_the_page(made):
    _, page = page_of(made["finished"])
    lines = [json.loads(line) for line in (made["finished"] / "steps.jsonl").read_text().splitlines()[1:]]
    assert f"The {len(lines)} steps" in page.text
    for line in lines:
        assert line["reason"].replace("%", "\u00a0%") in page.text


def test_an_undecided_page_says_what_would_settle_it(made):
    text = page_of(made["undecided"])[1].text
    assert "What would settle the verdict" in text
    assert "No further measurement is planned: no cell is left that a measurement could resolve" in text
    assert "Not a plan: the best that the bounds still allow" in text
    assert "What would settle the verdict" not in page_of(made["finished"])[1].text


def test_the_stored_certificate_is_checked(made, tmp_path):
    assert "it holds" in page_of(made["finished"])[1].text


@pytest.mark.slow
def test_the_commands_of_a_page_run(made, cli, tmp_path):
    _, page = page_of(made["finished"])
    commands = [line.strip() for line in page.text.splitlines() if line.strip().startswith("fleetsieve ")]
    assert [line.split()[1] for line in commands] == ["certify", "run", "solve", "explain", "report"]
    for line in commands:
        said = cli(*line.split()[1:])
        assert said.code == 0, said.err
    again = (tmp_path / "again" / "steps.jsonl").read_bytes()
    assert again == (made["finished"] / "steps.jsonl").read_bytes()


@pytest.mark.slow
def test_the_same_folder_gives_the_same_bytes(made, cli, tmp_path):
    assert cli("report", made["failed"], "-o", "again.html").code == 0
    assert (tmp_path / "again.html").read_bytes() == (made["failed"] / "report.html").read_bytes()


@pytest.mark.slow
def test_an_instance_has_a_page_too(cli, tmp_path):
    said = cli("report", "paper-h100-31b", "--json")
    assert said.document == {"report": "report.html", "bytes": (tmp_path / "report.html").stat().st_size}
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "fleetsieve solve paper-h100-31b" in text
    assert "How the gap closed" not in text
    assert "Sensitivity of the plan" in text
    assert read_instance("paper-h100-31b").instance.source in text


def test_a_place_that_cannot_be_written_is_told(cli, made):
    said = cli("report", made["finished"], "--no-sensitivity", "-o", "nowhere/report.html")
    assert (said.code, "cannot write nowhere/report.html" in said.err) == (1, True)


def test_a_figure_reads_the_same_wherever_it_stands(made):
    """The least fulfilment and the last gap: in the tiles, the sentence, the plan's table and the steps."""
    _, page = page_of(made["undecided"])
    stored = json.loads((made["undecided"] / "certificate.json").read_text())
    plan = stored["conservative"]
    worst = share(plan["min_fulfilment"])
    top, _, below = page.text.partition("GPUs in use")
    assert worst in top
    assert worst in below.split("The plan")[0]
    assert worst in below.split("The plan")[1].split("Requirements and measurement setup")[0]
    last = json.loads((made["undecided"] / "steps.jsonl").read_text().splitlines()[-1])["gap"]
    gaps = [gap_part(last[stage]) for stage in ("shortfall", "min_fulfilment", "goodput")]
    assert " / ".join(gaps) in page.text
    assert f"least fulfilment {gaps[1]}, goodput {gaps[2]} of the demand" in below


def test_what_failed_and_what_stands_behind_the_figures_is_at_the_top(made):
    top = page_of(made["failed"])[1].text.split("GPUs in use")[0]
    assert "4 of 8 cells failed" in top
    assert "taken at face value, so no confidence level applies" in top
    assert "Fix the cause and measure" in top


def test_without_a_measurement_or_a_plan_nothing_empty_is_shown():
    read = read_instance("sim-chat-code-16gpu")
    instance = with_floors(with_demands(read.instance, {"chat": 60.0, "code": 60.0}), {"chat": 40.0, "code": 40.0})
    text = Page(report_html(replace(read, instance=instance, measurements=()), "much", sensitivity=False)).text
    assert "Nothing was measured: the verdict follows from" in text
    assert "The floors need at least 16 GPUs more" in text
    shown = text.split("class, TP, load, cell")[0]
    for absent in (
        "No measurement failed",
        "Measured cells",
        "adds nothing",
        "Sensitivity of the plan",
        "Each block is one replica",
    ):
        assert absent not in shown

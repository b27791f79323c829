"""The page in a real Chromium: everything is drawn, nothing is fetched or complained of, on a phone and a desk, light and dark."""

from __future__ import annotations

import pytest
from report.conftest import KINDS

DRAWN = "html[data-drawn]"
LARGEST = 6_000_000
SLOWEST_S = 2.0
PATIENCE_MS = 120_000


class Opened:
    """A page in a browser, and what it said and asked for."""

    def __init__(self, browser, path, width=1400, scheme="light"):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda fault: self.said.append(str(fault)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        session = self.context.new_cdp_session(self.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(path.resolve().as_uri())
        self.page.wait_for_selector(DRAWN, state="attached")
        told = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
        self.taken_s = told["TaskDuration"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_drawn_and_nothing_complains(browser, made, kind):
    with Opened(browser, made[kind] / "report.html") as opened:
        page = opened.page
        blocks = page.locator("script[data-figure]").count()
        assert page.locator("html").get_attribute("data-drawn") == str(blocks)
        marks = page.evaluate(
            "[...document.querySelectorAll('.figure')]"
            ".map(figure => figure.querySelectorAll('svg .role-mark path, svg .role-mark text').length)"
        )
        assert len(marks) == blocks
        assert min(marks) > 0
        for width in (390, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(150)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            ends = "[...document.querySelectorAll('.figure svg')].map(svg => svg.getBoundingClientRect().right)"
            wide = max(page.evaluate(ends))
            assert wide <= width
        assert opened.said == []
        assert [url for url in opened.asked if not url.startswith(("file:", "data:"))] == []
        assert page.evaluate("window.hacked") is None


def test_the_colours_follow_the_reader(browser, made):
    with Opened(browser, made["finished"] / "report.html", scheme="dark") as opened:
        page = opened.page
        shades = {}
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            shades[scheme] = page.evaluate(
                "[getComputedStyle(document.body).backgroundColor, "
                "getComputedStyle(document.querySelector('.figure svg .role-axis-label text')).fill]"
            )
        assert shades["light"][0] == "rgb(255, 255, 255)"
        assert shades["dark"][0] == "rgb(20, 25, 31)"
        assert shades["light"][1] != shades["dark"][1]
        page.emulate_media(color_scheme="dark", media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.pdf(format="A4").startswith(b"%PDF")
        assert opened.said == []


WIDTHS = "[...document.querySelectorAll('.figure svg')].map(svg => svg.getBoundingClientRect().width)"


def test_figures_are_drawn_anew_for_paper(browser, made):
    with Opened(browser, made["undecided"] / "report.html") as opened:
        page = opened.page
        main, (plan, *_) = page.evaluate("document.querySelector('main').clientWidth"), page.evaluate(WIDTHS)
        assert plan > 0.9 * main
        on_screen = page.evaluate(WIDTHS)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.wait_for_timeout(100)
        asked = page.evaluate(
            "[...document.querySelectorAll('.figure')]"
            ".map(place => Number(getComputedStyle(place).getPropertyValue('--printed')))"
        )
        assert set(asked) == {680, 640, 330, 218}
        assert page.evaluate(WIDTHS) == pytest.approx(asked, abs=4.0)
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.wait_for_timeout(300)
        assert page.evaluate(WIDTHS) == pytest.approx(on_screen, abs=4.0)
        assert opened.said == []


def test_paper_has_colours_and_no_hints_for_a_mouse(browser, made):
    with Opened(browser, made["finished"] / "report.html") as opened:
        page = opened.page
        assert page.locator("#gap .screen").is_visible()
        page.emulate_media(media="print")
        assert not page.locator("#gap .screen").is_visible()
        adjust = "[...document.querySelectorAll('.swatch, .figure')].map(e => getComputedStyle(e).printColorAdjust)"
        assert set(page.evaluate(adjust)) == {"exact"}


def test_commands_and_cards_fit_a_phone(browser, made):
    with Opened(browser, made["undecided"] / "report.html", width=390) as opened:
        page = opened.page
        cut = "[...document.querySelectorAll('pre')].filter(e => e.scrollWidth > e.clientWidth).length"
        assert page.evaluate(cut) == 0
        sides = "[...document.querySelectorAll('.stacked td')].map(e => getComputedStyle(e).textAlign)"
        assert set(page.evaluate(sides)) == {"left"}
        assert opened.said == []


def test_a_hover_tells_why_a_cell_was_measured(browser, made):
    with Opened(browser, made["finished"] / "report.html") as opened:
        page = opened.page
        page.locator("#gap .figure svg .mark-symbol.role-mark path").last.hover(force=True)
        tip = page.locator("#vg-tooltip-element.visible")
        tip.wait_for()
        told = tip.inner_text()
        assert "why this cell" in told
        assert "expected to close" in told
        page.set_viewport_size({"width": 390, "height": 844})
        page.locator("#gap .figure svg .mark-symbol.role-mark path").nth(3).hover(force=True)
        page.wait_for_timeout(100)
        box = tip.bounding_box()
        assert box["x"] >= 0.0
        assert box["x"] + box["width"] <= 390.0
        page.locator("#plan .figure svg .mark-rect.role-mark path").first.hover(force=True)
        page.wait_for_timeout(100)
        assert "replica" in tip.inner_text()


def test_a_hostile_name_in_a_tooltip_is_text(browser, made):
    with Opened(browser, made["hostile"] / "report.html") as opened:
        page = opened.page
        page.locator("#gap .figure svg .mark-symbol.role-mark path").last.hover(force=True)
        tip = page.locator("#vg-tooltip-element.visible")
        tip.wait_for()
        assert "<script>" in page.locator("#plan").inner_text()
        assert tip.locator("img, script, b").count() == 0
        assert page.evaluate("window.hacked") is None


def test_a_large_page_is_small_and_opens_at_once(browser, four_classes):
    """The page's own time, until its last figure is drawn: what other programs take meanwhile does not count."""
    assert four_classes.stat().st_size < LARGEST
    with Opened(browser, four_classes, width=390) as opened:
        assert opened.said == []
        assert 0.0 < opened.taken_s < SLOWEST_S


LONGEST_ON_A_PHONE = 6_000


def test_a_phone_folds_the_details_and_a_link_opens_them(browser, four_classes, made):
    for path in (four_classes, made["undecided"] / "report.html"):
        with Opened(browser, path, width=390) as opened:
            page = opened.page
            assert page.evaluate("document.documentElement.scrollHeight") <= LONGEST_ON_A_PHONE
            assert page.locator("details.fold[open]").count() == 0
            page.locator("nav a", has_text="Tail latency").click()
            page.locator("#tails > details[open]").wait_for()
            page.wait_for_timeout(200)
            widths = page.evaluate(
                "[...document.querySelectorAll('#tails svg')].map(e => e.getBoundingClientRect().width)"
            )
            assert min(widths) > 300
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert opened.said == []
    with Opened(browser, four_classes) as opened:
        assert opened.page.locator("details.fold:not([open])").count() == 0


def test_the_contents_list_names_each_section_that_there_is(browser, made):
    for kind in ("finished", "undecided"):
        with Opened(browser, made[kind] / "report.html") as opened:
            listed = "[...document.querySelectorAll('nav a')].map(e => e.getAttribute('href').slice(1))"
            there = "[...document.querySelectorAll('section')].map(e => e.id)"
            assert opened.page.evaluate(listed) == opened.page.evaluate(there)

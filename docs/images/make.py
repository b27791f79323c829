"""Draws report.png, the README's picture: the top of the report of the README's first run.

Run from the root of a checkout with the extra `report`, playwright and Chromium: python docs/images/make.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from fleetsieve.cli.main import call

PICTURE = Path(__file__).with_name("report.png")
WIDTH, HEIGHT = 1160, 1000
"""Pixels of the part of the page that is shown."""


def main() -> int:
    """Make the run and its report in a temporary folder, and photograph the report's top; gives the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        run, page = Path(folder) / "first", Path(folder) / "report.html"
        code = call(["run", "sim-chat-code-16gpu", "--replay", "--out", str(run)]) or call(
            ["report", str(run), "-o", str(page)]
        )
        if code:
            return code
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            opened = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            opened.goto(page.as_uri())
            opened.wait_for_selector("html[data-drawn]", state="attached")
            opened.screenshot(path=PICTURE)
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

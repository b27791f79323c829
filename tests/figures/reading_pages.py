"""A page as a browser reads it: its elements, and what could run."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data

    @property
    def scripts(self) -> list[dict[str, str | None]]:
        """The attributes of every script that runs: data blocks do not."""
        return [a for tag, a in self.elements if tag == "script" and a.get("type") != "application/json"]

    @property
    def blocks(self) -> int:
        """Figures in the page."""
        return sum(tag == "script" and a.get("type") == "application/json" for tag, a in self.elements)

    @property
    def dangers(self) -> list[str]:
        """What has no place in these pages: foreign elements, handlers, whatever leads outside; links within the page may."""
        foreign = [
            tag
            for tag, _ in self.elements
            if tag in ("img", "iframe", "object", "embed", "link", "base", "form", "svg")
        ]
        named = [
            name
            for _, a in self.elements
            for name, value in a.items()
            if name.startswith("on") or name == "src" or (name == "href" and not (value or "").startswith("#"))
        ]
        return foreign + named

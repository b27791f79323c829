"""Pages may show modules of the reader's own, which must be gone from this process after their test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python's path, and the modules that were imported, are after a test what they were before it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("mine", "my_")):
            del sys.modules[name]

"""Names as words of a command that a person can paste into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

UNDECODED = range(0xDC80, 0xDD00)
"""Code points under which Python keeps the bytes 0x80 to 0xff of a file name that is not UTF-8."""


def shell_word(text: str) -> str:
    r"""`text` quoted for a shell where that is needed; bytes of a name that are not UTF-8 are spelled out, as bash reads them.

    >>> shell_word("my run"), shell_word("caf\udce9")
    ("'my run'", "$'caf\\xe9'")
    """
    if not any(ord(c) in UNDECODED for c in text):
        return shlex.quote(text)
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(f"\\x{ord(c) - 0xDC00:02x}" if ord(c) in UNDECODED else c for c in plain) + "'"


def shell_words(words: Iterable[str]) -> str:
    """A whole command."""
    return " ".join(map(shell_word, words))

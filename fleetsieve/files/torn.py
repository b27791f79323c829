"""The last line of a file that grows line by line, where a kill came while it was written."""

from __future__ import annotations

from pathlib import Path


def whole_until(content: bytes, *, quoted: bool) -> int:
    r"""How many bytes of `content` are whole lines; `quoted`: of a CSV file, in which a quoted field may hold line breaks.

    >>> whole_until(b'a,b\n1,"x\ny', quoted=True), whole_until(b'a,b\n1,2\n', quoted=True)
    (4, 8)
    """
    end = content.rfind(b"\n") + 1
    while quoted and content.count(b'"', 0, end) % 2:
        end = content.rfind(b"\n", 0, end - 1) + 1
    return end


def whole_rows(content: bytes) -> tuple[tuple[int, bytes], ...]:
    r"""The rows of a CSV file below its header as they stand there, each with the line on which it starts; blank ones are left out.

    >>> whole_rows(b'a,b\n1,"x\ny"\n2,3\n')
    ((2, b'1,"x\ny"'), (4, b'2,3'))
    """
    rows, start, first, open_quote = [], 1, b"", False
    for number, line in enumerate(content[: whole_until(content, quoted=True)].split(b"\n")[:-1], start=1):
        first = first + b"\n" + line if open_quote else line
        start = start if open_quote else number
        open_quote = bool(first.count(b'"') % 2)
        if not open_quote and first.strip():
            rows.append((start, first.removesuffix(b"\r")))
    return tuple(rows[1:])


def is_torn(path: Path) -> bool:
    """Whether the CSV file at `path` ends in a row that is not whole."""
    content = path.read_bytes() if path.is_file() else b""  # a pipe would be waited for
    return whole_until(content, quoted=True) < len(content)

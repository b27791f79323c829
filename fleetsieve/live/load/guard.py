"""Runs a program and ends it, with its whole process group, when whoever started this is gone: also by kill -9.

    python guard.py PROGRAM ARGUMENT ...

A pipe from the starter is standard input here; its end states that the starter is gone. An interrupt is passed on. It is run as
a file of its own and uses the standard library alone, so that it starts at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Run the program of the command line; gives its exit code, 128 and the signal for one that a signal ended."""
    try:
        program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"{sys.argv[1]} cannot be started: {error.strerror}", file=sys.stderr, flush=True)
        return 127
    signal.signal(signal.SIGINT, lambda *_: program.send_signal(signal.SIGINT))
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    code = program.wait()
    return code if code >= 0 else 128 - code


def _end_with_the_starter() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    os._exit(main())  # the thread may still wait for the pipe

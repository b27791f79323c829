"""Kill a run with SIGKILL at random instants, resume it until it ends, and compare its bytes with those of one left alone.

    python benchmarks/kill_resume.py [INSTANTS] [INSTANCE]

Each resumed process may be killed again. The instants are drawn, from a fixed seed, between 0 and the time that the
undisturbed run takes from the start of its process; the interpreter's own start is in it, so some kills come before the run
folder is there.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPARED = ("certificate.json", "measurements.csv", "steps.jsonl")
LATER_KILLS = 2
"""How often at most the resumed processes are killed again."""


@dataclass(frozen=True)
class Trial:
    """When the first kill came and the kills after it (seconds after each start), steps logged at the first, and the outcome."""

    instants_s: tuple[float, ...]
    steps_at_kill: int | None
    identical: bool
    leftovers: int


def start(instance: str, out: Path) -> subprocess.Popen[bytes]:
    """A process that begins the run, or goes on with it."""
    command = [sys.executable, "-m", "fleetsieve", "run", instance, "--replay", "--resume", "--out", str(out)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "models")])
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet, env={**os.environ, "PYTHONPATH": path})


def content(folder: Path) -> dict[str, bytes]:
    """The files whose bytes must not depend on kills."""
    return {name: (folder / name).read_bytes() for name in COMPARED}


def steps_logged(folder: Path) -> int | None:
    """Whole steps in the log of a run, None when there is no run yet."""
    log = folder / "steps.jsonl"
    return log.read_bytes().count(b"\n") - 1 if log.is_file() else None


def undisturbed(instance: str, folder: Path) -> tuple[dict[str, bytes], float]:
    """The bytes of a run left alone, and the seconds that its process takes."""
    began = time.monotonic()
    if start(instance, folder).wait() != 0:
        raise SystemExit(f"the undisturbed run of {instance} failed")
    return content(folder), time.monotonic() - began


def trial(instance: str, folder: Path, expected: dict[str, bytes], first_s: float, later_s: tuple[float, ...]) -> Trial:
    """Kill after `first_s`, resume and kill after each of `later_s`, then let it end."""
    at_kill: int | None = None
    for number, instant in enumerate((first_s, *later_s)):
        process = start(instance, folder)
        try:
            process.wait(instant)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if number == 0:
            at_kill = steps_logged(folder)
    ended = start(instance, folder).wait() == 0
    leftovers = sum(path.name.startswith(".") for path in folder.iterdir())
    return Trial((first_s, *later_s), at_kill, ended and content(folder) == expected, leftovers)


def instants(count: int, duration_s: float, seed: int = 20_260) -> list[tuple[float, tuple[float, ...]]]:
    """`count` first instants and up to `LATER_KILLS` further ones, seeded."""
    drawn = random.Random(seed)
    return [
        (
            drawn.uniform(0.0, duration_s),
            tuple(drawn.uniform(0.0, duration_s) for _ in range(drawn.randint(0, LATER_KILLS))),
        )
        for _ in range(count)
    ]


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    instance = sys.argv[2] if len(sys.argv) > 2 else "sim-chat-code-16gpu"
    with tempfile.TemporaryDirectory() as scratch:
        expected, duration_s = undisturbed(instance, Path(scratch) / "undisturbed")
        print(f"{instance}: {len(expected['steps.jsonl'].splitlines()) - 1} steps in {duration_s:.1f} s, undisturbed")
        print("| trial | killed after (s) | steps at first kill | identical |")
        print("|---:|:---|---:|:---|")
        done = []
        for number, (first_s, later_s) in enumerate(instants(count, duration_s), start=1):
            done.append(trial(instance, Path(scratch) / f"run{number}", expected, first_s, later_s))
            got = done[-1]
            when = ", ".join(f"{instant:.2f}" for instant in got.instants_s)
            steps = "no run yet" if got.steps_at_kill is None else got.steps_at_kill
            print(f"| {number} | {when} | {steps} | {'yes' if got.identical else 'NO'} |", flush=True)
        kills = sum(len(got.instants_s) for got in done)
        print(f"{sum(got.identical for got in done)} of {count} identical after {kills} kills")
    return 0 if all(got.identical for got in done) else 1


if __name__ == "__main__":
    sys.exit(main())

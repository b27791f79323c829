"""The exact command and environment of a server, and which tensor-parallel degrees can start at all."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fleetsieve.errors import UsageError
from fleetsieve.live.serving.config import ServeConfig, TpOverrides

ENVIRONMENT: Mapping[str, str] = {
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "120",
    "VLLM_SERVER_DEV_MODE": "1",
}
"""vLLM's default of 5 s closes a connection just as it is used again; the development mode has the cache's reset."""


def command_of(config: ServeConfig, tp: int, port: int) -> tuple[str, ...]:
    """The command line that starts a server with `tp` on `port`; the arguments of the TP come last, so that they count."""
    fixed = ("--host", config.host, "--port", str(port), "--tensor-parallel-size", str(tp))
    named = ("--served-model-name", config.served_name)
    more = config.per_tp.get(tp, TpOverrides()).arguments
    return (*config.command, config.model, *fixed, *named, *config.arguments, *more)


def environment_of(config: ServeConfig, tp: int, gpus: Sequence[str]) -> dict[str, str]:
    """The variables that a server gets on top of what the run itself has.

    Indices of GPUs are those of NVML, which counts by PCI bus; CUDA would put the fastest first.
    """
    set_here = dict(ENVIRONMENT)
    if gpus:
        set_here |= {"CUDA_VISIBLE_DEVICES": ",".join(gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return set_here | dict(config.environment) | dict(config.per_tp.get(tp, TpOverrides()).environment)


def program_path(config: ServeConfig) -> str | None:
    """Where the program is that starts a server; None where there is none."""
    return shutil.which(config.command[0], path=environment_of(config, 1, ()).get("PATH"))


def why_not_run(program: str, purpose: str = "") -> str:
    """Why `program`, which is for `purpose`, is not found: it is not there, is a folder, or may not be executed."""
    path, named = Path(program), f"command {program!r}" + (f", which {purpose}" if purpose else "")
    if "/" not in program or not path.exists():
        return f"there is no {named}"
    why = "is a folder, and not executable" if path.is_dir() else "is not executable"
    return f"the {named}{',' if purpose else ''} {why}"


def valid_tps(config: ServeConfig, gpus: int | None = None) -> tuple[int, ...] | None:
    """The TPs that divide the attention heads, up to the GPUs of `config` or `gpus`; None where the heads are unknown."""
    if config.attention_heads is None:
        return None
    widest = gpus or len(config.gpus) or config.attention_heads
    return tuple(tp for tp in range(1, widest + 1) if config.attention_heads % tp == 0)


def refuse_impossible(config: ServeConfig, tp: int) -> None:
    """Refuse a TP that cannot start, before anything is started.

    Raises:
        UsageError: when it does not divide the attention heads, or is wider than the GPUs of `config`.
    """
    valid = valid_tps(config)
    listed = f"TP can be {', '.join(map(str, valid))}" if valid else None
    if config.gpus and tp > len(config.gpus):
        count = len(config.gpus)
        raise UsageError(f"TP {tp} needs {tp} GPUs, and serve.toml gives {count} ({', '.join(config.gpus)})", listed)
    if valid is not None and tp not in valid:
        raise UsageError(
            f"TP {tp} does not divide the {config.attention_heads} attention heads of {config.model}", listed
        )

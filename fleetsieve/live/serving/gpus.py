"""Which GPUs a server gets, and what memory is free on them; NVML (nvidia-ml-py) shows, where it is installed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from fleetsieve.errors import UsageError

FREE_SHARE = 0.9
"""vLLM takes 90 % of a GPU's memory unless it is reported otherwise: with less free, a start is likely to fail."""

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """A GPU as NVML shows it: its UUID, which names it in every numbering, and its memory in bytes."""

    uuid: str
    free_bytes: int
    total_bytes: int


def read_memory(gpus: Sequence[str], nvml: ModuleType | Any | None = None) -> dict[str, GpuMemory] | None:
    """The memory of `gpus` (indices or UUIDs), by id; None where NVML or its driver is not there.

    `nvml` is the module pynvml (default: the installed one).

    Raises:
        UsageError: when NVML is there and does not know one of them; it states which it has.
    """
    if nvml is None:
        try:
            import pynvml
        except ImportError:
            return None
        nvml = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        found = {}
        for gpu in gpus:
            try:
                by_index = gpu.isdigit()
                handle = nvml.nvmlDeviceGetHandleByIndex(int(gpu)) if by_index else nvml.nvmlDeviceGetHandleByUUID(gpu)
                memory = nvml.nvmlDeviceGetMemoryInfo(handle)
                uuid = nvml.nvmlDeviceGetUUID(handle)
            except nvml.NVMLError as error:
                count = nvml.nvmlDeviceGetCount()
                raise UsageError(
                    f"there is no GPU {gpu}: {error}", f"this machine has {count}, counted from 0"
                ) from error
            found[gpu] = GpuMemory(
                uuid.decode() if isinstance(uuid, bytes) else uuid, int(memory.free), int(memory.total)
            )
        return found
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def refuse_same(memory: Mapping[str, GpuMemory]) -> None:
    """Refuse a list in which two ids are one GPU (an index and a UUID).

    Raises:
        UsageError: naming both.
    """
    by_uuid: dict[str, str] = {}
    for gpu, gpu_memory in memory.items():
        if gpu_memory.uuid in by_uuid:
            raise UsageError(
                f"GPU {by_uuid[gpu_memory.uuid]} and GPU {gpu} are the same one ({gpu_memory.uuid})", "write it once"
            )
        by_uuid[gpu_memory.uuid] = gpu


def pick(gpus: Sequence[str], width: int, in_use: Collection[str]) -> tuple[str, ...] | None:
    """`width` of `gpus` of which none is in use, in their order; None when too few are idle.

    Neighbours first: a run of `width` that starts at a multiple of it, as links between GPUs favour them.
    """
    idle = [gpu for gpu in gpus if gpu not in in_use]
    for start in range(0, len(gpus) - width + 1, max(1, width)):
        block = gpus[start : start + width]
        if all(gpu in idle for gpu in block):
            return tuple(block)
    return tuple(idle[:width]) if len(idle) >= width else None


def occupied(memory: Mapping[str, GpuMemory], share: float) -> list[str]:
    """A sentence for each GPU of which less than `share` of the memory is free: a server would not start there."""
    return [
        f"GPU {gpu} has {of_gpu.free_bytes / 2**30:.1f} of {of_gpu.total_bytes / 2**30:.1f} GiB free, but {share:.0%} is needed"
        for gpu, of_gpu in memory.items()
        if of_gpu.free_bytes < share * of_gpu.total_bytes
    ]


def wait_freed(
    before: Mapping[str, GpuMemory], within_s: float, *, slack_bytes: int = 512 << 20, nvml: Any | None = None
) -> list[str]:
    """Wait until the memory that was free `before` a start is free again, up to `slack_bytes`; sentences on what is not.

    The driver gives memory back a while after the last process is gone. [] too where NVML is not there any more.
    """
    deadline = time.monotonic() + within_s
    while True:
        now = read_memory(tuple(before), nvml) or {}
        short = {
            gpu: gpu_memory
            for gpu, gpu_memory in now.items()
            if gpu_memory.free_bytes < before[gpu].free_bytes - slack_bytes
        }
        if not short or time.monotonic() >= deadline:
            return [
                f"GPU {gpu} has {gpu_memory.free_bytes / 2**30:.1f} GiB free {within_s:g} s after its server's end, "
                f"{before[gpu].free_bytes / 2**30:.1f} GiB before its start"
                for gpu, gpu_memory in short.items()
            ]
        time.sleep(_POLL_S)

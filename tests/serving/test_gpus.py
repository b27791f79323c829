"""GPUs through NVML. No GPU is at hand here: NVML is a fake, and what a real one says is not tested."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fleetsieve.errors import UsageError
from fleetsieve.live.serving.gpus import GpuMemory, occupied, pick, read_memory, refuse_same, wait_freed

GIB = 2**30


class FakeNvml:
    """Two GPUs of 80 GiB; `free` are the free bytes of each, one after the other at each reading."""

    NVMLError = type("NVMLError", (Exception,), {})

    def __init__(self, *free: list[float], driver: bool = True) -> None:
        self._free = {index: list(values) for index, values in enumerate(free)}
        self._driver = driver
        self.shut = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self._driver:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._free)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index not in self._free:
            raise self.NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        return self.nvmlDeviceGetHandleByIndex(int(uuid.removeprefix("GPU-")))

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        values = self._free[handle]
        free = values.pop(0) if len(values) > 1 else values[0]
        return SimpleNamespace(free=free * GIB, total=80 * GIB)


def test_memory_is_read_by_index_and_by_uuid() -> None:
    nvml = FakeNvml([70], [10])
    assert read_memory(["0", "GPU-1"], nvml) == {
        "0": GpuMemory("GPU-0", 70 * GIB, 80 * GIB),
        "GPU-1": GpuMemory("GPU-1", 10 * GIB, 80 * GIB),
    }
    assert nvml.shut == 1


def test_without_nvml_or_its_driver_nothing_is_known() -> None:
    assert read_memory(["0"], FakeNvml(driver=False)) is None


def test_the_real_library_without_a_driver_is_as_good_as_none() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        assert read_memory(["0"]) is None
    else:
        pytest.skip("this machine has a GPU driver")


def test_a_gpu_that_is_not_there_is_refused() -> None:
    nvml = FakeNvml([70], [10])
    with pytest.raises(UsageError, match="there is no GPU 2") as caught:
        read_memory(["0", "2"], nvml)
    assert caught.value.hint == "this machine has 2, counted from 0"
    assert nvml.shut == 1


def test_one_gpu_under_two_names_is_refused() -> None:
    memory = read_memory(["0", "GPU-0"], FakeNvml([70]))
    assert memory is not None
    with pytest.raises(UsageError, match=r"GPU 0 and GPU GPU-0 are the same one \(GPU-0\)"):
        refuse_same(memory)


@pytest.mark.parametrize(
    ("width", "in_use", "picked"),
    [
        (1, (), ("0",)),
        (2, (), ("0", "1")),
        (2, ("0",), ("2", "3")),
        (2, ("0", "2"), ("1", "3")),
        (4, (), ("0", "1", "2", "3")),
        (4, ("3",), None),
        (8, (), None),
    ],
)
def test_servers_get_disjoint_gpus_neighbours_first(
    width: int, in_use: tuple[str, ...], picked: tuple[str, ...]
) -> None:
    assert pick(("0", "1", "2", "3"), width, in_use) == picked


def test_an_occupied_gpu_is_told() -> None:
    memory = read_memory(["0", "1"], FakeNvml([75], [20]))
    assert memory is not None
    assert occupied(memory, 0.9) == ["GPU 1 has 20.0 of 80.0 GiB free, but 90% is needed"]


def test_memory_that_comes_back_late_is_waited_for_and_what_does_not_is_told() -> None:
    nvml = FakeNvml([79, 10, 10, 79], [79, 79])
    before = read_memory(["0", "1"], nvml)
    assert before is not None
    assert wait_freed(before, 5.0, nvml=nvml) == []
    kept = FakeNvml([79, 40], [79])
    before = read_memory(["0", "1"], kept)
    assert before is not None
    assert wait_freed(before, 0.3, nvml=kept) == [
        "GPU 0 has 40.0 GiB free 0.3 s after its server's end, 79.0 GiB before its start"
    ]

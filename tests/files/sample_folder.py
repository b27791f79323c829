"""A small right instance folder, for tests that break it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetsieve.errors import Fault, InputError
from fleetsieve.files import Folder, read_instance

TOML = """\
schema_version = 1
name = "two-classes"
source = "made for a test"

[fleet]
gpus = 16
gpus_per_node = 8
"""
CLASSES = """\
class,input_tokens,output_tokens,demand_rps,priority,floor_rps,max_ttft_p99_s,max_e2e_p99_s,max_tpot_p99_s,min_success
chat,512,256,12,1,6,2,30,,0.99
code,2048,128,16,2,,5,,,
"""
CELLS = """\
class,tp,load,load_kind,offered,gpus,cost_gpu_s
chat,2,c8,concurrency,8,2,600
chat,2,c16,concurrency,16,2,600
chat,4,peak,concurrency,,4,
code,4,r2,rate,2,4,
code,4,r4,rate,4,4,
"""
MEASUREMENTS = """\
class,tp,load,seed,status,throughput_rps,success_rate,requests,ttft_p50_s,ttft_p99_s,e2e_p50_s,e2e_p99_s,tpot_p99_s
chat,2,c8,0,ok,1.5,0.995,400,0.2,0.9,6,9,0.02
chat,2,c8,1,ok,1.6,0.996,410,0.2,0.8,6,9,0.02
code,4,r2,0,ok,1.9,,,,0.8,,,
code,4,r4,0,oom,,,,,,,,
"""


class Sample:
    """A small right instance folder; a test breaks one of its files and reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts = {
            "instance.toml": TOML,
            "classes.csv": CLASSES,
            "cells.csv": CELLS,
            "measurements.csv": MEASUREMENTS,
        }
        for name, text in self.texts.items():
            self.write(name, text)

    def write(self, name: str, text: str | bytes) -> None:
        if isinstance(text, str):
            self.texts[name] = text
        (self.path / name).write_bytes(text.encode() if isinstance(text, str) else text)

    def replace(self, name: str, old: str, new: str) -> None:
        assert self.texts[name].count(old) == 1, f"{old!r} stands {self.texts[name].count(old)} times in {name}"
        self.write(name, self.texts[name].replace(old, new))

    def read(self) -> Folder:
        return read_instance(self.path)

    def faults(self) -> list[Fault]:
        with pytest.raises(InputError) as caught:
            self.read()
        return list(caught.value.faults)

    def fault(self) -> tuple[str, int, str, str]:
        """File, line, column and message of the one fault that there is."""
        (fault,) = self.faults()
        return place(fault)

    def suspicion(self) -> tuple[str, int, str, str]:
        (fault,) = self.read().suspicions
        assert fault.severity == "suspicion"
        return place(fault)


def place(fault: Fault) -> tuple[str, int, str, str]:
    return Path(fault.file).name, fault.line, fault.column, fault.message

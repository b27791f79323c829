"""A small instance folder whose answers are easy to follow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TOML = 'schema_version = 1\nname = "{name}"\nsource = "made for a test"\n\n[fleet]\ngpus = {gpus}\n'
CLASSES = "class,input_tokens,output_tokens,demand_rps,priority,floor_rps,max_ttft_p99_s,max_e2e_p99_s,max_tpot_p99_s,min_success\n"
CELLS = "class,tp,load,load_kind,offered,gpus\n"
ROWS = "class,tp,load,seed,status,throughput_rps,ttft_p99_s\n"


@dataclass(frozen=True)
class Folder:
    """A small instance folder: chat and code, both measured; a test changes one of its files."""

    path: Path

    def change(self, name: str, old: str, new: str) -> Folder:
        text = (self.path / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        (self.path / name).write_text(text.replace(old, new), encoding="utf-8")
        return self


def make_folder(path: Path, first: str = "chat", second: str = "code", *, gpus: int = 8) -> Folder:
    """Serves 6 of 8 requests/s of the first class on TP2 and all 4 of the second; TP4 of the second misses its SLO."""

    def field(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    one, two = field(first), field(second)
    path.mkdir(parents=True)
    (path / "instance.toml").write_text(TOML.format(name="small", gpus=gpus), encoding="utf-8")
    (path / "classes.csv").write_text(f"{CLASSES}{one},,,8,1,,2,,,\n{two},,,4,1,,5,,,\n", encoding="utf-8")
    cells = "{one},2,c8,concurrency,8,2\n{two},2,c8,concurrency,8,2\n{two},4,c8,concurrency,8,4\n"
    (path / "cells.csv").write_text(CELLS + cells.format(one=one, two=two), encoding="utf-8")
    rows = "{one},2,c8,0,ok,2,1\n{two},2,c8,0,ok,4,2\n{two},4,c8,0,ok,7,6\n"
    (path / "measurements.csv").write_text(ROWS + rows.format(one=one, two=two), encoding="utf-8")
    return Folder(path)

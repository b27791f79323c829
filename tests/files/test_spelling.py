"""Names with an accent, composed in one file and decomposed in another, are one name."""

from __future__ import annotations

from pathlib import Path
from unicodedata import normalize

import pytest
from sample_folder import Sample

from fleetsieve.answers import what_if
from fleetsieve.files import read_instance, read_predictions
from fleetsieve.instance import CellKey

NFC, NFD = "caf\u00e9", "cafe\u0301"
FORMS = [(NFC, NFD), (NFD, NFC), (NFC, NFC), (NFD, NFD)]
TOML = 'schema_version = 1\nname = "p"\n[[fleet.pools]]\nname = "{}"\ngpus = 8\n'


@pytest.mark.parametrize(("stated", "elsewhere"), FORMS)
def test_a_class_a_pool_and_a_load_in_two_forms(sample: Sample, stated: str, elsewhere: str) -> None:
    sample.write("instance.toml", TOML.format(stated))
    sample.write("classes.csv", f"class,demand_rps\n{stated},1\n")
    sample.write(
        "cells.csv", f"class,tp,load,pool,load_kind,offered,gpus\n{elsewhere},1,{stated},{elsewhere},rate,1,1\n"
    )
    sample.write(
        "measurements.csv", f"class,tp,load,pool,status,throughput_rps\n{elsewhere},1,{elsewhere},{elsewhere},ok,1\n"
    )
    read = sample.read()
    assert read.measurements[0].key == read.instance.cells[0].key == CellKey(stated, 1, stated, stated)
    prior = sample.path / "prior.csv"
    prior.write_text(f"class,tp,load,pool,throughput_rps\n{elsewhere},1,{elsewhere},{elsewhere},1\n", encoding="utf-8")
    assert list(read_predictions(prior, read.instance).predictions) == [read.instance.cells[0].key]
    assert what_if.with_demands(read.instance, {elsewhere: 5.0}).classes[0].demand_rps == 5.0


def test_two_names_of_one_file_that_look_alike(sample: Sample) -> None:
    sample.write("instance.toml", TOML.format(NFC) + f'[[fleet.pools]]\nname = "{NFD}"\ngpus = 8\n')
    sample.write("classes.csv", f"class,demand_rps\n{NFC},1\n{NFD},1\n")
    cells = [f"{NFC},1,{load},{NFC},rate,{offered},1" for offered, load in ((1, NFC), (2, NFD))]
    sample.write("cells.csv", "\n".join(["class,tp,load,pool,load_kind,offered,gpus", *cells]))
    (sample.path / "measurements.csv").unlink()
    faults = sample.faults()
    assert [(Path(f.file).name, f.line, f.column) for f in faults] == [
        ("instance.toml", 7, "fleet.pools.name"),
        ("classes.csv", 3, "class"),
        ("cells.csv", 3, "load"),
    ]
    assert all("written with other Unicode characters (NFC and NFD)" in fault.message for fault in faults)


def test_names_are_kept_as_they_are_stated(tmp_path: Path) -> None:
    """What is stored names classes as classes.csv does; letters that only look alike stay different."""
    sample = Sample(tmp_path)
    for name in ("classes.csv", "cells.csv", "measurements.csv"):
        sample.write(name, sample.texts[name].replace("chat", NFD).replace("code", "c\u043ede"))
    names = [c.name for c in read_instance(tmp_path).instance.classes]
    assert names == [NFD, "c\u043ede"]
    assert names[0] != normalize("NFC", names[0])

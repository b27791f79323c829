"""What is written reads back equal, byte for byte the same each time."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_folder import Sample

from fleetsieve.bounds.assumptions import SETTINGS
from fleetsieve.errors import UsageError
from fleetsieve.files import (
    measurement_header,
    measurement_row,
    read_instance,
    read_measurements,
    replace_file,
    write_instance,
)
from fleetsieve.files.toml_schema import NOISE
from fleetsieve.instance import (
    DEFAULT_VARIANT,
    MAX_DEMAND_RPS,
    Cell,
    CellKey,
    CertificateSettings,
    Facts,
    Fleet,
    Instance,
    LoadKind,
    Measurement,
    MeasureSettings,
    Pool,
    Reading,
    ServerKey,
    Slo,
    Status,
    WorkloadClass,
)

FREE_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NAMES = st.one_of(
    st.sampled_from(["chat", "a,b", ' "x"', "<script>", "no\r\nbreak", "#", "=1"]), FREE_TEXT.filter(str.strip)
)
NUMBERS = st.floats(0.0, 1e300, allow_subnormal=False)
POSITIVE = st.floats(1e-300, 1e300)
FRACTIONS = st.floats(0.0, 1.0)
RATES = st.floats(0.0, MAX_DEMAND_RPS, allow_subnormal=False)


def maybe(strategy: st.SearchStrategy[float]) -> st.SearchStrategy[float | None]:
    return st.none() | strategy


@st.composite
def readings(draw: st.DrawFn, values: st.SearchStrategy[float], unbounded: bool = True) -> Reading:
    low, value, high = sorted(draw(st.tuples(values, values, values)))
    has = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    top = math.inf if unbounded and draw(st.booleans()) else high
    return Reading(value if has[0] else None, low if has[1] else None, top if has[2] else None)


def pools(name: str) -> st.SearchStrategy[Pool]:
    nodes = st.none() | st.just(8)
    return st.builds(Pool, st.just(name), st.integers(8, 64), nodes, maybe(NUMBERS), maybe(POSITIVE), maybe(POSITIVE))


POOL_NAMES = st.lists(NAMES | st.just("default"), min_size=1, max_size=3, unique=True)
FLEETS = st.builds(
    Fleet,
    POOL_NAMES.flatmap(lambda names: st.tuples(*map(pools, names))),
    st.just(1.0) | st.floats(0.01, 1.0),
)
CLASSES = st.builds(
    WorkloadClass,
    NAMES,
    RATES,
    st.builds(Slo, maybe(POSITIVE), maybe(POSITIVE), maybe(POSITIVE), maybe(FRACTIONS)),
    st.floats(1e-3, 1e3),
    maybe(NUMBERS),
    maybe(NUMBERS),
    maybe(NUMBERS),
)


@st.composite
def cells_of(draw: st.DrawFn, classes: tuple[WorkloadClass, ...], fleet: Fleet) -> tuple[Cell, ...]:
    cells = []
    for workload in classes:
        for tp in draw(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=2, unique=True)):
            pool, kind = draw(st.sampled_from(fleet.pools)).name, draw(st.sampled_from(LoadKind))
            ladder = sorted(draw(st.lists(POSITIVE, max_size=3, unique=True)))
            labels = draw(st.lists(NAMES, min_size=len(ladder) + 1, max_size=len(ladder) + 1, unique=True))
            variant = draw(st.just(DEFAULT_VARIANT) | NAMES)
            gpus = tp * draw(st.integers(1, 2))
            for label, offered in zip(labels, [*ladder, None], strict=True):
                key = CellKey(workload.name, ServerKey(tp, pool, variant), label)
                cells.append(Cell(key, gpus, kind, offered, draw(maybe(POSITIVE)), draw(st.booleans())))
    return tuple(cells)


MEASUREMENT = st.builds(
    Measurement,
    key=st.just(CellKey("", 1, "")),
    status=st.sampled_from(Status),
    throughput_rps=readings(RATES),
    success_rate=readings(FRACTIONS, unbounded=False),
    ttft_p99_s=readings(NUMBERS),
    e2e_p99_s=readings(NUMBERS),
    tpot_p99_s=readings(NUMBERS),
    requests=st.none() | st.integers(0, 2**53),
    ttft_p50_s=maybe(NUMBERS),
    e2e_p50_s=maybe(NUMBERS),
    window_s=maybe(NUMBERS),
    cost_gpu_s=maybe(NUMBERS),
    started_at=FREE_TEXT,
    source=FREE_TEXT,
)


@st.composite
def folders(draw: st.DrawFn) -> tuple[Instance, tuple[Measurement, ...]]:
    fleet = draw(FLEETS)
    classes = tuple(draw(st.lists(CLASSES, min_size=1, max_size=3, unique_by=lambda c: c.name)))
    cells = draw(cells_of(classes, fleet))
    assumptions = {
        name: draw(st.fixed_dictionaries({}, optional={"enabled": st.booleans()} | dict.fromkeys(numbers, NUMBERS)))
        for name, numbers in SETTINGS.items()
        if draw(st.booleans())
    }
    open_fraction = st.floats(0.01, 0.99)
    instance = Instance(
        name=draw(NAMES),
        fleet=fleet,
        classes=classes,
        cells=cells,
        source=draw(FREE_TEXT),
        facts=draw(st.builds(Facts, maybe(POSITIVE), maybe(POSITIVE), maybe(POSITIVE), maybe(POSITIVE), st.booleans())),
        certificate=draw(
            st.builds(
                CertificateSettings,
                open_fraction,
                maybe(st.floats(0.0, 0.99)),
                open_fraction,
                st.sampled_from(["grid", "cell"]),
            )
        ),
        measure=draw(
            st.builds(
                MeasureSettings,
                NUMBERS,
                st.floats(1e-3, 1e3),
                maybe(st.floats(1e3, 1e9)),
                st.none() | st.integers(0, 10**6),
                NUMBERS,
            )
        ),
        assumptions=assumptions,
        noise=draw(st.fixed_dictionaries({}, optional=dict.fromkeys(NOISE, NUMBERS))),
    )
    rows = draw(st.lists(st.tuples(st.sampled_from(cells), MEASUREMENT), max_size=4))
    measurements = (
        Measurement(**{name: getattr(m, name) for name in Measurement.__slots__} | {"key": cell.key, "seed": seed})
        for seed, (cell, m) in enumerate(rows)
    )
    return instance, tuple(measurements)


@pytest.mark.slow
@settings(max_examples=80)
@given(folders())
def test_what_is_written_reads_back_equal(drawn: tuple[Instance, tuple[Measurement, ...]]) -> None:
    instance, measurements = drawn
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "deeper" / "folder"
        write_instance(path, instance, measurements)
        folder = read_instance(path)
        assert folder.instance == instance
        assert folder.measurements == measurements
        first = {file.name: file.read_bytes() for file in path.iterdir()}
        assert sorted(first) == ["cells.csv", "classes.csv", "instance.toml", "measurements.csv"]
        write_instance(path, folder.instance, folder.measurements)
        assert {file.name: file.read_bytes() for file in path.iterdir()} == first


def test_rows_are_appended_one_by_one(sample: Sample) -> None:
    folder = sample.read()
    file = sample.path / "journal.csv"
    with file.open("w") as out:
        out.write(measurement_header() + "\n")
        for measurement in folder.measurements:
            out.write(measurement_row(measurement) + "\n")
    assert read_measurements(file, folder.instance) == folder.measurements


def test_public_instances_survive_the_round_trip(public_instances: Mapping[str, Path], tmp_path: Path) -> None:
    for path in public_instances.values():
        folder = read_instance(path)
        write_instance(tmp_path / path.name, folder.instance, folder.measurements)
        again = read_instance(tmp_path / path.name)
        assert (again.instance, again.measurements) == (folder.instance, folder.measurements)


@pytest.mark.parametrize("text", ["\0", "\ud800"])
def test_a_text_that_cannot_be_written_leaves_the_folder_alone(sample: Sample, text: str) -> None:
    folder = sample.read()
    broken = [Measurement(folder.measurements[0].key, source=f"a{text}b")]
    with pytest.raises(UsageError, match="cannot be written"):
        write_instance(sample.path, folder.instance, broken)
    assert sample.read().measurements == folder.measurements


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    replace_file(file, "one\r\n")
    replace_file(file, "zwei ü\n")
    assert file.read_bytes() == "zwei ü\n".encode()
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        replace_file(tmp_path / "taken", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "taken"]


def test_the_import_is_light() -> None:
    """The command line imports this package even to print its help."""
    code = "import sys, fleetsieve.files; print([m for m in ('numpy', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

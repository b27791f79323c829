"""A whole grid, from simulation.toml to an instance folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fleetsieve.files import record_name, write_instance
from fleetsieve.simulator.measuring import simulate_cell
from fleetsieve.simulator.spec import SPEC_NAME, read_spec

RECORDS_FOLDER = "records"


def simulate(
    spec_path: str | Path,
    out_dir: str | Path,
    *,
    records: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Simulate every cell of a spec and write the instance folder `out_dir` with its measurements.

    `spec_path` is a simulation.toml or a folder that holds one; a copy of it goes to `out_dir`, so that the folder states
    how it was made. With `records`, the requests of each run go to records/CLASS-tpN-LOAD-seedK.csv.gz.
    `progress(done, total)` is called after each run. The same spec gives the same bytes.

    Raises:
        InputError: when the spec has errors; nothing is written then.
    """
    source = Path(spec_path)
    source = source / SPEC_NAME if source.is_dir() else source
    spec = read_spec(source)
    instance = spec.instance()
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    jobs = [(cell.key, repeat) for cell in instance.cells for repeat in range(spec.repeats)]
    measurements = []
    for done, (key, repeat) in enumerate(jobs, start=1):
        run = simulate_cell(spec, key.class_name, key.tp, key.load, repeat, key.variant)
        measurements.append(run.measurement)
        if records and run.served is not None:
            folder = out / RECORDS_FOLDER
            folder.mkdir(exist_ok=True)
            (folder / record_name(key, repeat)).write_bytes(run.records_csv_gz())
        if progress is not None:
            progress(done, len(jobs))
    write_instance(out, instance, measurements)
    copy = out / SPEC_NAME
    if copy.resolve() != source.resolve():
        copy.write_bytes(source.read_bytes())

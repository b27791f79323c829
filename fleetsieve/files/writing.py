"""Instance, measurements -> an instance folder, each file in one step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fleetsieve.files.csv_writing import cells_text, classes_text, measurements_text
from fleetsieve.files.folder import CELLS, CLASSES, INSTANCE, MEASUREMENTS
from fleetsieve.files.replacing import replace_file
from fleetsieve.files.toml_writing import instance_text
from fleetsieve.instance import Instance, Measurement


def write_instance(path: str | Path, instance: Instance, measurements: Iterable[Measurement] = ()) -> None:
    """Write the instance folder `path`; it is made when it is not there, and its four files are replaced.

    `read_instance(path)` gives equal objects back, and equal objects give equal bytes. A reader never sees half a file:
    each is written beside its place and then moved there.

    Raises:
        UsageError: when a text cannot be written in UTF-8; nothing is written then.
        OSError: when the folder cannot be written.
    """
    folder = Path(path)
    texts = {
        INSTANCE: instance_text(instance),
        CLASSES: classes_text(instance.classes),
        CELLS: cells_text(instance.cells),
        MEASUREMENTS: measurements_text(measurements),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        replace_file(folder / name, text)

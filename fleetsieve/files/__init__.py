"""Instance folders on disk <-> the objects of `fleetsieve.instance`; every error of all files is reported at once."""

from fleetsieve.files.appending import append_measurement
from fleetsieve.files.bundled import bundled_names, resolve
from fleetsieve.files.csv_writing import header_columns, measurement_header, measurement_row
from fleetsieve.files.folder import Folder, read_instance, read_measurements
from fleetsieve.files.predictions import PriorFile, read_predictions
from fleetsieve.files.records import (
    HIDDEN_RECORDS,
    RECORDS,
    RequestRow,
    read_records,
    record_name,
    records_folder,
    write_records,
)
from fleetsieve.files.replacing import replace_bytes, replace_file
from fleetsieve.files.writing import write_instance

__all__ = [
    "HIDDEN_RECORDS",
    "RECORDS",
    "Folder",
    "PriorFile",
    "RequestRow",
    "append_measurement",
    "bundled_names",
    "header_columns",
    "measurement_header",
    "measurement_row",
    "read_instance",
    "read_measurements",
    "read_predictions",
    "read_records",
    "record_name",
    "records_folder",
    "replace_bytes",
    "replace_file",
    "resolve",
    "write_instance",
    "write_records",
]

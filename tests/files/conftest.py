from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from sample_folder import Sample


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return Sample(tmp_path)


@pytest.fixture(scope="session")
def public_instances() -> Mapping[str, Path]:
    folder = Path(__file__).resolve().parents[2].parent / "shared" / "instances"
    if not folder.is_dir():
        pytest.skip("needs public measured grids, which are not part of this project")
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_dir()}

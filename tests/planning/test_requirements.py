"""Which requirements file the boot is told to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.jobs.code import Code
from launcher.planning.requirements import boot_installs
from launcher.source.tree import read_source


@pytest.mark.parametrize(
    ("fields", "packed", "installed"),
    [
        pytest.param({}, True, "requirements.txt", id="the default that is there"),
        pytest.param({}, False, None, id="the default that is not there"),
        pytest.param({"requirements": "none"}, True, None, id="nothing is wanted"),
        pytest.param({"requirements": "gpu.txt"}, False, "gpu.txt", id="named"),
        pytest.param(
            {"source_dir": "s3://bucket/source.tar.gz"}, False, "requirements.txt", id="not seen here"
        ),
        pytest.param(
            {"source_dir": "s3://bucket/x.tar.gz", "requirements": "none"}, False, None, id="not seen, none"
        ),
    ],
)
def test_the_boot_is_told_what_the_plan_knows_or_cannot_know(
    tmp_path: Path, fields: dict[str, str], packed: bool, installed: str | None
) -> None:
    if packed:
        (tmp_path / "requirements.txt").write_text("einops\n")
    code = Code(entry_point="train.py", **fields)  # type: ignore[arg-type]
    source = read_source(tmp_path, "train.py", (), code.requirements_file)
    assert boot_installs(code, source) == installed

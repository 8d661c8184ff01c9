"""Which names a job's source uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.source.names import names_in_source

WANTED = ("DistributedSampler", "fully_shard")


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        pytest.param("train.py", "sampler = data.DistributedSampler(x)", True, id="used"),
        pytest.param("lib/data.py", "from d import DistributedSampler as S", True, id="in a module below"),
        pytest.param("train.py", "# DistributedSampler", False, id="in a comment"),
        pytest.param("train.py", "'''DistributedSampler'''", False, id="in a string"),
        pytest.param("train.py", "MyDistributedSampler()", False, id="in another name"),
        pytest.param("train.py", "DistributedSampler(\n  '''", True, id="before a syntax error"),
        pytest.param("train.sh", "DistributedSampler", False, id="in no Python file"),
        pytest.param(".venv/lib/d.py", "DistributedSampler()", False, id="in a hidden folder"),
        pytest.param("venv/lib/d.py", "DistributedSampler()", False, id="in installed packages"),
    ],
)
def test_names_are_found_where_code_uses_them(tmp_path: Path, file: str, text: str, found: bool) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert ("DistributedSampler" in names_in_source(tmp_path, WANTED)) is found


def test_no_folder_has_no_names(tmp_path: Path) -> None:
    assert names_in_source(tmp_path / "missing", WANTED) == frozenset()


def test_bytes_that_are_no_text_are_no_crash(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"\xff\xfe\x00DistributedSampler(\x00")
    assert names_in_source(tmp_path, WANTED) <= {"DistributedSampler"}

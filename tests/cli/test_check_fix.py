"""`launch check --fix`, which adds to requirements.txt what the script imports and the image lacks."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import RunLaunch, WriteJob

IMAGE = {"name": "pytorch", "version": "2.12.1"}


@pytest.mark.parametrize(("before", "after"), [(None, "timm\nwandb\n"), ("einops", "einops\ntimm\nwandb\n")])
def test_fix_adds_the_missing_packages_once(
    run_launch: RunLaunch, write_job: WriteJob, before: str | None, after: str
) -> None:
    job = write_job(framework=IMAGE)
    file = job.parent / "src" / "requirements.txt"
    (job.parent / "src" / "train.py").write_text("import timm\nimport wandb\n")
    if before is not None:
        file.write_text(before)
    status, printed, said = run_launch("check", str(job), "--fix", "--output", "json")
    assert (status, file.read_text()) == (0, after)
    assert [each for each in json.loads(printed)["findings"] if each["code"] == "CODE005"] == []
    assert said.splitlines()[0] == f"{file}: added timm, wandb"
    assert "no package is known to be missing" in run_launch("check", str(job), "--fix")[2]
    assert file.read_text() == after


def test_fix_leaves_a_file_alone_that_is_not_packed(run_launch: RunLaunch, write_job: WriteJob) -> None:
    job = write_job(framework=IMAGE)
    source = job.parent / "src"
    (source / "train.py").write_text("import timm\n")
    (source / "requirements.txt").write_text("einops\n")
    (source / ".slipwayignore").write_text("requirements.txt\n")
    status, _, said = run_launch("check", str(job), "--fix")
    assert status == 2
    assert "is left out of what is packed" in said
    assert (source / "requirements.txt").read_text() == "einops\n"

"""What is found of job files and where: the sentences and tables of `cases/findings.yaml`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.jobs.load_job import load_job
from tests.case_files import put

TABLE = yaml.safe_load((Path(__file__).with_name("cases") / "findings.yaml").read_text("utf-8"))


@pytest.mark.parametrize("sentence", TABLE)
def test_a_job_file_has_the_findings_of_its_table(
    sentence: str, job_data: dict[str, Any], write_job: Callable[..., Path]
) -> None:
    wrong = []
    for changes, expected, *says in TABLE[sentence]:
        loaded = load_job(write_job(**{**dict.fromkeys(job_data), **put(job_data, changes)}))
        found = [f"{each.code} {each.subject}" for each in loaded.findings]
        told = " ".join(f"{each.message} {each.remedy}" for each in loaded.findings)
        if found != expected or any(text not in told for text in says):
            wrong.append(f"{changes}: {found} instead of {expected}, which says {told}")
        if bool(loaded.findings) is (loaded.spec is not None):
            wrong.append(f"{changes}: the specification is {loaded.spec}")
        for each in loaded.findings:
            parts = each.subject.split(".") if each.subject else []
            path = [int(part) if part.isdigit() else part for part in parts]
            if each.location != loaded.location(*path):
                wrong.append(f"{changes}: {each.subject} at {each.location}")
    assert not wrong, "\n".join(wrong)

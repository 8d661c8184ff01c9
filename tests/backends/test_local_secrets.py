"""Secrets of a local job: from the environment, through memory alone, to the script and to nobody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import BackendError, JobState
from launcher.backends.local.backend import LocalBackend
from launcher.jobs.load_job import Variables
from tests.backends.workplace import SHORT, Workplace, finish, texts

VALUE = "hf_plantedPLANTED1234"
NAMED = {"SLIPWAY_SECRETS": json.dumps({"HF_TOKEN": "team/hf", "KEY": "team/key"})}
GIVEN = {"HF_TOKEN": VALUE, "KEY": "k_planted5678", "OTHER": "planted-other"}
PRINTS = """
    import os
    print("token", os.environ["HF_TOKEN"])
    print(sorted(name for name in os.environ if name in ("HF_TOKEN", "KEY", "OTHER") or "SECRET" in name))
    print(len(os.environ["HF_TOKEN"]), flush=True)
    raise RuntimeError("no access with " + os.environ["KEY"])
"""


def local(workplace: Workplace, **variables: Any) -> LocalBackend:
    return LocalBackend(workplace.home, grace=SHORT, variables=Variables(**variables))


def everything_below(folder: Path) -> str:
    return "\n".join(file.read_text("utf-8", "replace") for file in folder.rglob("*") if file.is_file())


def test_the_script_has_the_values_and_what_is_kept_has_not(workplace: Workplace) -> None:
    plan = workplace.plan(PRINTS, environment=NAMED)
    with local(workplace, values=GIVEN) as backend:
        backend.submit(plan)
        status = finish(backend)
        lines = texts(backend)
    assert status.state is JobState.FAILED
    assert status.failure_reason is not None
    assert "no access with ***" in status.failure_reason
    assert {"token ***", "['HF_TOKEN', 'KEY']", str(len(VALUE))} <= set(lines)
    kept = everything_below(workplace.home)
    assert "team/hf" in kept
    assert "planted" not in kept + str(status) + "".join(lines)


def test_what_is_not_set_is_named_before_anything_starts(workplace: Workplace) -> None:
    backend = local(workplace, values={"KEY": "k_planted5678", "HF_TOKEN": ""})
    with pytest.raises(BackendError, match=r"^IAM002 the job's secrets HF_TOKEN are not set here") as error:
        backend.submit(workplace.plan(PRINTS, environment=NAMED))
    assert error.value.remedy == "Set them before the launch: export HF_TOKEN=..."
    assert not workplace.home.exists()


def test_a_job_file_has_no_other_variables_than_it_is_given(workplace: Workplace) -> None:
    """In CI whoever proposes a job file would get any variable of the machine's by calling it a secret."""
    backend = local(workplace, values=GIVEN, allowed=("KEY",))
    with pytest.raises(BackendError, match="the job's secrets HF_TOKEN are not taken") as error:
        backend.submit(workplace.plan(PRINTS, environment=NAMED))
    assert error.value.remedy == "If the job may have them, add --allow-env HF_TOKEN."
    assert not workplace.home.exists()


def test_by_itself_the_environment_of_the_launcher_is_asked_and_in_ci_nothing(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", VALUE)
    monkeypatch.setenv("KEY", "k_planted5678")
    monkeypatch.setenv("CI", "true")
    backend = LocalBackend(workplace.home, grace=SHORT)
    with pytest.raises(BackendError, match="in CI"):
        backend.submit(workplace.plan(PRINTS, environment=NAMED))


def test_a_resumed_job_takes_its_secrets_anew(workplace: Workplace) -> None:
    plan = workplace.plan(PRINTS, environment=NAMED)
    with local(workplace, values=GIVEN) as backend:
        backend.submit(plan)
        finish(backend)
        workplace.shared("step-1").touch()
        request = {**backend.request_of("job-1"), "TrainingJobName": "job-2"}
    with pytest.raises(BackendError, match="HF_TOKEN, KEY are not set"):
        local(workplace, values={}).resume("job-1", request)
    with local(workplace, values={**GIVEN, "HF_TOKEN": "hf_plantedAGAIN"}) as backend:
        backend.resume("job-1", request)
        finish(backend, "job-2")
        assert str(len("hf_plantedAGAIN")) in texts(backend, name="job-2")
    assert "planted" not in everything_below(workplace.home)

"""Code on its way to S3: once for the same content, whole or not at all."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from moto.s3.models import s3_backends

from launcher.backends.interface import BackendError, Progress
from launcher.backends.sagemaker import transfers, upload
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.failure_modes.refusal import AwsRefusal
from launcher.source.errors import SourceError
from tests.emulator.faults import (
    DENIED_S3,
    EXPIRED_S3,
    HANG,
    LOST,
    RESET,
    SKEWED_S3,
    SLOW_DOWN,
    Fault,
    inject,
)
from tests.emulator.sagemaker import TrainingScript
from tests.session.submission.launching import FOR_GOOD, PlanOf


def keys(clients: dict[str, Any], bucket: str = "dev-code") -> list[str]:
    return [item["Key"] for item in clients["s3"].list_objects_v2(Bucket=bucket).get("Contents", ())]


def test_the_code_lies_where_the_request_says(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    plan = plan_of()
    backend.submit(plan)
    (channel,) = plan.request["InputDataConfig"]
    prefix = channel["DataSource"]["S3DataSource"]["S3Uri"].removeprefix("s3://dev-code/")
    assert keys(clients) == [f"{prefix}/slipway.pyz", f"{prefix}/source.tar.gz"]


def test_a_toolkit_strategy_finds_its_archive_and_nothing_else(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    plan = plan_of(distribution={"strategy": "smddp"}, framework={"version": "2.0.1"})
    backend.submit(plan)
    (key,) = keys(clients)
    submitted = plan.request["HyperParameters"]["sagemaker_submit_directory"]
    assert submitted == f'"s3://dev-code/{key}"'
    assert key.endswith("/sourcedir.tar.gz")


def test_the_same_code_is_sent_once_for_all_jobs(
    backend: SageMakerBackend, script: TrainingScript, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    backend.submit(plan_of())
    puts = inject(clients["s3"], "PutObject")
    told: list[Progress] = []
    backend.submit(plan_of(hyperparameters={"lr": 0.1}), told.append)
    assert puts.calls == 0
    assert [progress.step for progress in told] == ["the code is on S3 already"]
    assert len(script.requests) == 2


def test_other_code_goes_elsewhere(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf, tmp_path: Path
) -> None:
    first = plan_of()
    backend.submit(first)
    (tmp_path / "src" / "more.py").write_text("x = 1\n")
    second = plan_of()
    backend.submit(second)
    assert first.package.s3_uri != second.package.s3_uri
    assert len(keys(clients)) == 4


def test_only_what_is_missing_is_sent(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    plan = plan_of()
    backend.submit(plan)
    (boot,) = [key for key in keys(clients) if key.endswith(".pyz")]
    clients["s3"].delete_object(Bucket="dev-code", Key=boot)
    puts = inject(clients["s3"], "PutObject")
    backend.submit(plan_of())
    assert puts.calls == 1
    assert boot in keys(clients)


def test_code_that_has_lain_there_for_years_is_not_sent_again(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    backend.submit(plan_of())
    for key in s3_backends["123456789012"]["aws"].buckets["dev-code"].keys.values():
        key.last_modified -= timedelta(days=1000)
    puts = inject(clients["s3"], "PutObject")
    backend.submit(plan_of())
    assert puts.calls == 0


def test_without_the_right_to_look_the_code_is_sent(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    inject(clients["s3"], "HeadObject", DENIED_S3, DENIED_S3)
    backend.submit(plan_of())
    assert len(keys(clients)) == 2


def test_code_that_changed_since_it_was_planned_is_refused(
    backend: SageMakerBackend, script: TrainingScript, plan_of: PlanOf, tmp_path: Path
) -> None:
    plan = plan_of()
    (tmp_path / "src" / "train.py").write_text("print('changed')\n")
    with pytest.raises(SourceError, match="no longer what was planned"):
        backend.submit(plan)
    assert script.requests == []


@pytest.mark.parametrize("fault", [SLOW_DOWN, RESET, HANG, LOST], ids=lambda fault: fault.name)
def test_a_fault_that_passes_is_survived(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf, fault: Fault
) -> None:
    inject(clients["s3"], "PutObject", fault, fault)
    backend.submit(plan_of())
    assert len(keys(clients)) == 2


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (SLOW_DOWN, "SlowDown"),
        (RESET, "cannot be reached"),
        (HANG, "cannot be reached"),
        (EXPIRED_S3, "aws sso login"),
        (DENIED_S3, "AccessDenied"),
        (SKEWED_S3, "clock"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_nothing_is_created_when_the_upload_fails_and_a_new_start_succeeds(
    backend: SageMakerBackend,
    script: TrainingScript,
    clients: dict[str, Any],
    plan_of: PlanOf,
    fault: Fault,
    says: str,
) -> None:
    faults = inject(clients["s3"], "PutObject", None, *[fault] * FOR_GOOD)
    with pytest.raises(AwsRefusal, match="upload the code to s3://dev-code/code/") as refusal:
        backend.submit(plan_of())
    assert says in str(refusal.value)
    assert script.requests == []
    faults.ahead.clear()
    backend.submit(plan_of())
    assert len(script.requests) == 1


@pytest.fixture
def large_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that goes in three parts."""
    monkeypatch.setattr(transfers, "PART_BYTES", 5 * 1024 * 1024)
    (tmp_path / "src").mkdir()
    large = tmp_path / "src" / "weights.bin"
    large.write_bytes(os.urandom(11 * 1024 * 1024))
    return large


def test_large_code_goes_in_parts_and_tells_its_progress(
    large_source: Path, backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    parts = inject(clients["s3"], "UploadPart", None, RESET)
    told: list[Progress] = []
    backend.submit(plan_of(), told.append)
    assert parts.calls == 4
    assert told[-1].step == "upload the code"
    assert told[-1].done == told[-1].total > large_source.stat().st_size
    assert len(told) > 3


def test_large_code_is_known_again_by_the_checksums_of_its_parts(
    large_source: Path, backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    backend.submit(plan_of())
    parts, reads = (inject(clients["s3"], operation) for operation in ("UploadPart", "GetObject"))
    backend.submit(plan_of())
    assert (parts.calls, reads.calls) == (0, 0)


def test_an_upload_that_breaks_in_the_middle_leaves_nothing_behind(
    large_source: Path,
    backend: SageMakerBackend,
    script: TrainingScript,
    clients: dict[str, Any],
    plan_of: PlanOf,
) -> None:
    faults = inject(clients["s3"], "UploadPart", None, *[RESET] * 30)
    with pytest.raises(AwsRefusal, match="upload"):
        backend.submit(plan_of())
    assert clients["s3"].list_multipart_uploads(Bucket="dev-code").get("Uploads", []) == []
    assert not any(key.endswith("source.tar.gz") for key in keys(clients))
    assert script.requests == []
    faults.ahead.clear()
    backend.submit(plan_of())
    assert len(script.requests) == 1


def test_a_disk_without_room_is_said(
    backend: SageMakerBackend,
    script: TrainingScript,
    plan_of: PlanOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upload, "build_source", full)
    with pytest.raises(BackendError, match="No space left on device"):
        backend.submit(plan_of())
    assert script.requests == []

"""What lies under a key of our code: accepted where it is our code, refused where it is somebody else's."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import BackendError
from launcher.backends.sagemaker import transfers
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.failure_modes.refusal import AwsRefusal
from launcher.planning.training_plan import TrainingPlan
from launcher.source.packaging import build_source
from tests.emulator.faults import CONFLICT, DENIED_S3, inject
from tests.emulator.sagemaker import TrainingScript
from tests.session.submission.launching import FOR_GOOD, PlanOf

Place = Callable[..., None]


def key_of(plan: TrainingPlan, name: str = "source.tar.gz") -> str:
    assert plan.package is not None
    return f"{plan.package.s3_uri.removeprefix('s3://dev-code/')}/{name}"


def ours(plan: TrainingPlan, folder: Path) -> bytes:
    assert plan.package is not None
    build_source(plan.package.source, folder / "ours.tar.gz")
    return (folder / "ours.tar.gz").read_bytes()


def evil() -> bytes:
    text, packed = b"print('EVIL')", io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.py")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return packed.getvalue()


def recompressed(archive: bytes) -> bytes:
    return gzip.compress(gzip.decompress(archive), 1)


@pytest.fixture
def s3(clients: dict[str, Any]) -> Any:
    return clients["s3"]


@pytest.mark.parametrize("name", ["source.tar.gz", "slipway.pyz"])
def test_code_that_somebody_put_under_our_key_is_not_run(
    backend: SageMakerBackend, script: TrainingScript, s3: Any, plan_of: PlanOf, name: str
) -> None:
    first = plan_of()
    backend.submit(first)
    mark = {"slipway-code": first.package.digest}
    s3.put_object(
        Bucket="dev-code", Key=key_of(first, name), Body=evil(), Metadata=mark, ChecksumAlgorithm="SHA256"
    )
    with pytest.raises(BackendError, match=rf"{name} is not the code of this job") as refusal:
        backend.submit(plan_of())
    assert "nothing was created" in refusal.value.message
    assert "remove that object" in refusal.value.remedy
    assert len(script.requests) == 1


def test_code_that_was_put_there_before_the_first_launch_is_not_run_either(
    backend: SageMakerBackend, script: TrainingScript, s3: Any, plan_of: PlanOf
) -> None:
    plan = plan_of()
    s3.put_object(Bucket="dev-code", Key=key_of(plan), Body=evil())
    with pytest.raises(BackendError, match="is not the code of this job"):
        backend.submit(plan)
    assert script.requests == []


@pytest.mark.parametrize("algorithm", [{}, {"ChecksumAlgorithm": "SHA256"}], ids=["crc", "sha256"])
def test_the_same_code_is_known_however_it_was_compressed_and_summed(
    backend: SageMakerBackend, s3: Any, plan_of: PlanOf, tmp_path: Path, algorithm: dict[str, str]
) -> None:
    plan = plan_of()
    body = recompressed(ours(plan, tmp_path))
    assert body != ours(plan, tmp_path)
    s3.put_object(Bucket="dev-code", Key=key_of(plan), Body=body, **algorithm)
    puts = inject(s3, "PutObject")
    backend.submit(plan)
    assert puts.calls == 1
    assert s3.get_object(Bucket="dev-code", Key=key_of(plan))["Body"].read() == body


def test_our_own_upload_is_known_without_being_read(
    backend: SageMakerBackend, s3: Any, plan_of: PlanOf
) -> None:
    backend.submit(plan_of())
    reads = inject(s3, "GetObject")
    backend.submit(plan_of())
    assert reads.calls == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body + gzip.compress(b"more"),
        lambda body: body[:-20],
        lambda body: b"no gzip",
        lambda body: b"",
        lambda body: gzip.compress(gzip.decompress(body)[:-1024]),
        lambda body: gzip.compress(gzip.decompress(body).replace(b"train.py", b"trail.py")),
    ],
    ids=["longer", "cut", "no gzip", "empty", "less", "another name"],
)
def test_nearly_our_code_is_not_our_code(
    backend: SageMakerBackend,
    script: TrainingScript,
    s3: Any,
    plan_of: PlanOf,
    tmp_path: Path,
    change: Callable[[bytes], bytes],
) -> None:
    plan = plan_of()
    s3.put_object(Bucket="dev-code", Key=key_of(plan), Body=change(ours(plan, tmp_path)))
    with pytest.raises(BackendError, match="is not the code of this job"):
        backend.submit(plan)
    assert script.requests == []


def test_what_is_far_larger_than_our_code_is_not_even_read(
    backend: SageMakerBackend, s3: Any, plan_of: PlanOf
) -> None:
    plan = plan_of()
    s3.put_object(Bucket="dev-code", Key=key_of(plan), Body=bytes(3 * 1024 * 1024))
    reads = inject(s3, "GetObject")
    with pytest.raises(BackendError, match="3,145,728 bytes"):
        backend.submit(plan)
    assert reads.calls == 0


@pytest.mark.parametrize("same", [True, False])
def test_what_appears_between_the_look_and_the_upload_is_compared(
    backend: SageMakerBackend,
    script: TrainingScript,
    s3: Any,
    plan_of: PlanOf,
    tmp_path: Path,
    same: bool,
) -> None:
    plan = plan_of()
    body = recompressed(ours(plan, tmp_path)) if same else evil()
    s3.put_object(Bucket="dev-code", Key=key_of(plan), Body=body)
    inject(s3, "HeadObject", DENIED_S3)
    if same:
        backend.submit(plan)
    else:
        with pytest.raises(BackendError, match="is not the code of this job"):
            backend.submit(plan)
    assert s3.get_object(Bucket="dev-code", Key=key_of(plan))["Body"].read() == body
    assert len(script.requests) == same


def test_large_code_is_not_replaced_either(
    backend: SageMakerBackend,
    script: TrainingScript,
    s3: Any,
    plan_of: PlanOf,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transfers, "PART_BYTES", 5 * 1024 * 1024)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "weights.bin").write_bytes(os.urandom(6 * 1024 * 1024))
    plan, theirs = plan_of(), evil()
    s3.put_object(Bucket="dev-code", Key=key_of(plan), Body=theirs)
    inject(s3, "HeadObject", DENIED_S3)
    with pytest.raises(BackendError, match="is not the code of this job"):
        backend.submit(plan)
    assert s3.get_object(Bucket="dev-code", Key=key_of(plan))["Body"].read() == theirs
    assert s3.list_multipart_uploads(Bucket="dev-code").get("Uploads", []) == []
    assert script.requests == []


def test_what_lies_there_and_may_not_be_looked_at_is_not_trusted(
    backend: SageMakerBackend, script: TrainingScript, s3: Any, plan_of: PlanOf
) -> None:
    plan = plan_of()
    s3.put_object(Bucket="dev-code", Key=key_of(plan), Body=evil())
    inject(s3, "HeadObject", *[DENIED_S3] * FOR_GOOD)
    with pytest.raises(AwsRefusal, match="compare"):
        backend.submit(plan)
    assert script.requests == []


def test_two_uploads_at_once_are_repeated(backend: SageMakerBackend, s3: Any, plan_of: PlanOf) -> None:
    puts = inject(s3, "PutObject", CONFLICT, CONFLICT)
    backend.submit(plan_of())
    assert puts.calls == 4


def test_but_not_for_ever(
    backend: SageMakerBackend, script: TrainingScript, s3: Any, plan_of: PlanOf
) -> None:
    puts = inject(s3, "PutObject", *[CONFLICT] * FOR_GOOD)
    with pytest.raises(AwsRefusal, match="ConditionalRequestConflict"):
        backend.submit(plan_of())
    assert puts.calls == 3
    assert script.requests == []


def test_a_further_attempt_runs_the_code_of_the_first_one_after_its_files_were_edited(
    backend: SageMakerBackend, script: TrainingScript, s3: Any, plan_of: PlanOf, tmp_path: Path
) -> None:
    first, further = plan_of(), plan_of()
    backend.submit(first)
    (tmp_path / "src" / "train.py").write_text("print('edited')\n")
    puts = inject(s3, "PutObject")
    backend.submit(further)
    assert puts.calls == 0
    assert len(script.requests) == 2


def test_and_is_not_fooled_by_then_either(
    backend: SageMakerBackend, script: TrainingScript, s3: Any, plan_of: PlanOf, tmp_path: Path
) -> None:
    first, further = plan_of(), plan_of()
    backend.submit(first)
    (tmp_path / "src" / "train.py").write_text("print('edited')\n")
    s3.put_object(Bucket="dev-code", Key=key_of(first), Body=evil(), ChecksumAlgorithm="SHA256")
    with pytest.raises(BackendError, match="is not the code of this job"):
        backend.submit(further)
    assert len(script.requests) == 1

"""Code on its way to S3: once for the same content, whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from moto.s3.models import s3_backends

from launcher.backends.interface import BackendError, Progress
from launcher.backends.sagemaker import upload
from launcher.backends.sagemaker import upload as transfers
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.backends.sagemaker.upload import read_stored_source
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import AwsRefusal
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare_for
from launcher.source.folder_walk import SourceError
from launcher.source.packaging import build_source
from tests.emulator.faults import (
    CONFLICT,
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
from tests.session.submission.launches import FOR_GOOD, PlanOf


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


@pytest.mark.few_cases(every=3)
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
    monkeypatch.setattr(upload, "PART_BYTES", 5 * 1024 * 1024)
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


URI = "s3://dev-checkpoints/mine/source.tar.gz"
SourcePlan = Callable[[], TrainingPlan]


def put(s3: Any, **files: str) -> None:
    """Write the archive with these files; in their names __ stands for the dot."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "."))
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    s3.put_object(Bucket="dev-checkpoints", Key="mine/source.tar.gz", Body=content.getvalue())


@pytest.fixture
def plan_from_s3(
    clients: dict[str, Any], write_job: Callable[..., Path], manifest: dict[str, Any]
) -> SourcePlan:
    def plan() -> TrainingPlan:
        source = read_stored_source(clients["s3"], URI, "train.py", {"deepspeed"})
        loaded = load_job(write_job(code={"source_dir": URI, "entry_point": "train.py"}))
        role = f"arn:aws:iam::123456789012:role/{manifest['role_arn'].rpartition('/')[2]}"
        cluster = Cluster.model_validate({**manifest, "role_arn": role})
        return prepare_for(loaded, cluster, session_region="us-west-2", source=source)

    return plan


def test_the_archive_is_read_and_judged_where_it_lies(clients: dict[str, Any]) -> None:
    put(clients["s3"], train__py="import deepspeed")
    tree = read_stored_source(clients["s3"], URI, "train.py", {"deepspeed"})
    assert (tree.has_entry_point, tree.names, tree.place) == (True, {"deepspeed"}, URI)
    assert tree.digest is not None and not tree.is_unread
    assert tree.read("train.py", 6) == b"import"


def test_it_is_copied_to_the_jobs_code_once(
    backend: SageMakerBackend, clients: dict[str, Any], plan_from_s3: SourcePlan
) -> None:
    s3 = clients["s3"]
    put(s3, train__py="print(1)")
    plan = plan_from_s3()
    backend.submit(plan)
    key = f"{plan.package.s3_uri.removeprefix('s3://dev-code/')}/source.tar.gz"
    theirs = s3.get_object(Bucket="dev-checkpoints", Key="mine/source.tar.gz")["Body"].read()
    assert s3.get_object(Bucket="dev-code", Key=key)["Body"].read() == theirs
    copies = inject(s3, "CopyObject")
    backend.submit(plan_from_s3())
    assert copies.calls == 0


def test_an_archive_that_was_written_again_is_not_run(
    backend: SageMakerBackend, clients: dict[str, Any], plan_from_s3: SourcePlan
) -> None:
    put(clients["s3"], train__py="print(1)")
    plan = plan_from_s3()
    put(clients["s3"], train__py="print(2)")
    with pytest.raises(BackendError, match="no longer what was planned"):
        backend.submit(plan)


def test_a_missing_archive_and_a_missing_script_are_findings(
    clients: dict[str, Any], plan_from_s3: SourcePlan
) -> None:
    assert "source.tar.gz is not there" in codes(plan_from_s3())[0]
    put(clients["s3"], other__py="")
    assert codes(plan_from_s3()) == [f"the entry point train.py is not in {URI}"]


def codes(plan: TrainingPlan) -> list[str]:
    return [each.message for each in plan.findings if each.code == "CODE002"]


def test_what_is_no_archive_is_a_finding(clients: dict[str, Any], plan_from_s3: SourcePlan) -> None:
    clients["s3"].put_object(Bucket="dev-checkpoints", Key="mine/source.tar.gz", Body=b"<html>")
    assert any("cannot be read as tar.gz" in each for each in codes(plan_from_s3()))


@pytest.mark.parametrize("fault", [DENIED_S3, RESET])
def test_where_s3_refuses_or_is_lost_nothing_is_said_of_the_archive(
    clients: dict[str, Any], fault: Any
) -> None:
    put(clients["s3"], train__py="")
    inject(clients["s3"], "GetObject", *[fault] * 9)
    with pytest.raises(AwsRefusal):
        read_stored_source(clients["s3"], URI, "train.py")


def test_a_connection_that_is_lost_within_the_archive_is_no_fault_of_it(clients: dict[str, Any]) -> None:
    class Lost:
        def read(self, size: int) -> bytes:
            raise ReadTimeoutError(endpoint_url="https://s3")

        def close(self) -> None:
            pass

    class Client:
        def get_object(self, **_: Any) -> dict[str, Any]:
            return {"Body": Lost(), "ContentLength": 10, "ETag": "x"}

    with pytest.raises(AwsRefusal):
        read_stored_source(Client(), URI, "train.py")


def test_without_aws_it_is_said_that_nobody_looked(write_job: Callable[..., Path], manifest: Any) -> None:
    loaded = load_job(write_job(code={"source_dir": URI, "entry_point": "train.py"}))
    plan = prepare_for(loaded, Cluster.model_validate(manifest), session_region="us-west-2")
    (finding,) = [each for each in plan.findings if each.code == "CODE002"]
    assert (finding.severity, finding.verified) == ("info", False)
    assert not plan.refused and plan.package is not None
    with pytest.raises(SourceError, match="was not fetched"):
        plan.package.source.check()


@pytest.mark.parametrize(
    "uri", ["s3://bucket/folder", "s3://bucket", "s3:///source.tar.gz", "s3://b/.tar.gz"]
)
def test_a_uri_that_is_no_archives_is_refused(write_job: Callable[..., Path], uri: str) -> None:
    (finding,) = load_job(write_job(code={"source_dir": uri, "entry_point": "train.py"})).findings
    assert finding.code == "SPEC003" and f"{uri} is not an archive on S3" in finding.message

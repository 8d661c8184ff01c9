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
from launcher.backends.sagemaker.upload import read_stored_source
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import AwsRefusal
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare_for
from launcher.source.folder_walk import SourceError
from launcher.source.packaging import build_source
from tests.backends.sagemaker.conftest import Emulated
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
from tests.session.submission.launches import FOR_GOOD

NOT_OURS = "is not the code of this job"


def assert_refused(aws: Emulated, plan: TrainingPlan, match: str = NOT_OURS) -> BackendError:
    """The code of the plan does not run, and no further job is created."""
    before = len(aws.script.requests)
    with pytest.raises(BackendError, match=match) as refusal:
        aws.backend.submit(plan)
    assert len(aws.script.requests) == before
    return refusal.value


def lay(aws: Emulated, plan: TrainingPlan, body: bytes, **more: Any) -> None:
    """Lay this where the plan's code would lie."""
    aws.s3.put_object(Bucket="dev-code", Key=key_of(plan), Body=body, **more)


def lying(aws: Emulated, plan: TrainingPlan) -> bytes:
    """What lies where the plan's code is to lie."""
    return aws.s3.get_object(Bucket="dev-code", Key=key_of(plan))["Body"].read()


def keys(clients: dict[str, Any], bucket: str = "dev-code") -> list[str]:
    return [item["Key"] for item in clients["s3"].list_objects_v2(Bucket=bucket).get("Contents", ())]


def test_the_code_lies_where_the_request_says(aws: Emulated) -> None:
    plan = aws.plan_of()
    aws.backend.submit(plan)
    (channel,) = plan.request["InputDataConfig"]
    prefix = channel["DataSource"]["S3DataSource"]["S3Uri"].removeprefix("s3://dev-code/")
    assert keys(aws.clients) == [f"{prefix}/slipway.pyz", f"{prefix}/source.tar.gz"]


def test_a_toolkit_strategy_finds_its_archive_and_nothing_else(aws: Emulated) -> None:
    plan = aws.plan_of(distribution={"strategy": "smddp"}, framework={"version": "2.0.1"})
    aws.backend.submit(plan)
    (key,) = keys(aws.clients)
    submitted = plan.request["HyperParameters"]["sagemaker_submit_directory"]
    assert submitted == f'"s3://dev-code/{key}"'
    assert key.endswith("/sourcedir.tar.gz")


def test_the_same_code_is_sent_once_for_all_jobs(aws: Emulated) -> None:
    aws.backend.submit(aws.plan_of())
    # However long it has lain there, and without being read.
    for key in s3_backends["123456789012"]["aws"].buckets["dev-code"].keys.values():
        key.last_modified -= timedelta(days=1000)
    puts, reads = (inject(aws.s3, operation) for operation in ("PutObject", "GetObject"))
    told: list[Progress] = []
    aws.backend.submit(aws.plan_of(hyperparameters={"lr": 0.1}), told.append)
    assert (puts.calls, reads.calls) == (0, 0)
    assert [progress.step for progress in told] == ["the code is on S3 already"]
    assert len(aws.script.requests) == 2


def test_other_code_goes_elsewhere(aws: Emulated, tmp_path: Path) -> None:
    first = aws.plan_of()
    aws.backend.submit(first)
    (tmp_path / "src" / "more.py").write_text("x = 1\n")
    second = aws.plan_of()
    aws.backend.submit(second)
    assert first.package.s3_uri != second.package.s3_uri
    assert len(keys(aws.clients)) == 4


def test_only_what_is_missing_is_sent(aws: Emulated) -> None:
    plan = aws.plan_of()
    aws.backend.submit(plan)
    (boot,) = [key for key in keys(aws.clients) if key.endswith(".pyz")]
    aws.s3.delete_object(Bucket="dev-code", Key=boot)
    puts = inject(aws.s3, "PutObject")
    aws.backend.submit(aws.plan_of())
    assert puts.calls == 1
    assert boot in keys(aws.clients)


def test_without_the_right_to_look_the_code_is_sent(aws: Emulated) -> None:
    inject(aws.s3, "HeadObject", DENIED_S3, DENIED_S3)
    aws.backend.submit(aws.plan_of())
    assert len(keys(aws.clients)) == 2


def test_code_that_changed_since_it_was_planned_is_refused(aws: Emulated, tmp_path: Path) -> None:
    plan = aws.plan_of()
    (tmp_path / "src" / "train.py").write_text("print('changed')\n")
    with pytest.raises(SourceError, match="no longer what was planned"):
        aws.backend.submit(plan)
    assert aws.script.requests == []


@pytest.mark.parametrize("fault", [SLOW_DOWN, RESET, HANG, LOST], ids=lambda fault: fault.name)
def test_a_fault_that_passes_is_survived(aws: Emulated, fault: Fault) -> None:
    inject(aws.s3, "PutObject", fault, fault)
    aws.backend.submit(aws.plan_of())
    assert len(keys(aws.clients)) == 2


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
    aws: Emulated, fault: Fault, says: str
) -> None:
    faults = inject(aws.s3, "PutObject", None, *[fault] * FOR_GOOD)
    with pytest.raises(AwsRefusal, match="upload the code to s3://dev-code/code/") as refusal:
        aws.backend.submit(aws.plan_of())
    assert says in str(refusal.value)
    assert aws.script.requests == []
    faults.ahead.clear()
    aws.backend.submit(aws.plan_of())
    assert len(aws.script.requests) == 1


@pytest.fixture
def large_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that goes in three parts."""
    monkeypatch.setattr(transfers, "PART_BYTES", 5 * 1024 * 1024)
    (tmp_path / "src").mkdir()
    large = tmp_path / "src" / "weights.bin"
    large.write_bytes(os.urandom(11 * 1024 * 1024))
    return large


def test_large_code_goes_in_parts_and_tells_its_progress(aws: Emulated, large_source: Path) -> None:
    parts = inject(aws.s3, "UploadPart", None, RESET)
    told: list[Progress] = []
    aws.backend.submit(aws.plan_of(), told.append)
    assert parts.calls == 4
    assert told[-1].step == "upload the code"
    assert told[-1].done == told[-1].total > large_source.stat().st_size
    assert len(told) > 3


def test_large_code_is_known_again_by_the_checksums_of_its_parts(aws: Emulated, large_source: Path) -> None:
    aws.backend.submit(aws.plan_of())
    parts, reads = (inject(aws.s3, operation) for operation in ("UploadPart", "GetObject"))
    aws.backend.submit(aws.plan_of())
    assert (parts.calls, reads.calls) == (0, 0)


def test_an_upload_that_breaks_in_the_middle_leaves_nothing_behind(aws: Emulated, large_source: Path) -> None:
    faults = inject(aws.s3, "UploadPart", None, *[RESET] * 30)
    with pytest.raises(AwsRefusal, match="upload"):
        aws.backend.submit(aws.plan_of())
    assert aws.s3.list_multipart_uploads(Bucket="dev-code").get("Uploads", []) == []
    assert not any(key.endswith("source.tar.gz") for key in keys(aws.clients))
    assert aws.script.requests == []
    faults.ahead.clear()
    aws.backend.submit(aws.plan_of())
    assert len(aws.script.requests) == 1


def test_a_disk_without_room_is_said(aws: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upload, "build_source", full)
    assert_refused(aws, aws.plan_of(), "No space left on device")


def key_of(plan: TrainingPlan, name: str = "source.tar.gz") -> str:
    assert plan.package is not None
    return f"{plan.package.s3_uri.removeprefix('s3://dev-code/')}/{name}"


def ours(plan: TrainingPlan, folder: Path) -> bytes:
    assert plan.package is not None
    build_source(plan.package.source, folder / "ours.tar.gz")
    return (folder / "ours.tar.gz").read_bytes()


def packed(**files: str) -> bytes:
    """An archive with these files; in their names __ stands for the dot."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "."))
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


def evil() -> bytes:
    return packed(train__py="print('EVIL')")


def recompressed(archive: bytes) -> bytes:
    return gzip.compress(gzip.decompress(archive), 1)


@pytest.mark.parametrize("name", ["source.tar.gz", "slipway.pyz"])
def test_code_that_somebody_put_under_our_key_is_not_run(aws: Emulated, name: str) -> None:
    first = aws.plan_of()
    aws.backend.submit(first)
    mark = {"slipway-code": first.package.digest}
    aws.s3.put_object(
        Bucket="dev-code", Key=key_of(first, name), Body=evil(), Metadata=mark, ChecksumAlgorithm="SHA256"
    )
    refusal = assert_refused(aws, aws.plan_of(), rf"{name} is not the code of this job")
    assert "nothing was created" in refusal.message
    assert "remove that object" in refusal.remedy


def test_code_that_was_put_there_before_the_first_launch_is_not_run_either(aws: Emulated) -> None:
    plan = aws.plan_of()
    lay(aws, plan, evil())
    assert_refused(aws, plan)


@pytest.mark.parametrize("algorithm", [{}, {"ChecksumAlgorithm": "SHA256"}], ids=["crc", "sha256"])
def test_the_same_code_is_known_however_it_was_compressed_and_summed(
    aws: Emulated, tmp_path: Path, algorithm: dict[str, str]
) -> None:
    plan = aws.plan_of()
    body = recompressed(ours(plan, tmp_path))
    assert body != ours(plan, tmp_path)
    lay(aws, plan, body, **algorithm)
    puts = inject(aws.s3, "PutObject")
    aws.backend.submit(plan)
    assert puts.calls == 1
    assert lying(aws, plan) == body


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
    aws: Emulated, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    plan = aws.plan_of()
    lay(aws, plan, change(ours(plan, tmp_path)))
    assert_refused(aws, plan)


def test_what_is_far_larger_than_our_code_is_not_even_read(aws: Emulated) -> None:
    plan = aws.plan_of()
    lay(aws, plan, bytes(3 * 1024 * 1024))
    reads = inject(aws.s3, "GetObject")
    with pytest.raises(BackendError, match="3,145,728 bytes"):
        aws.backend.submit(plan)
    assert reads.calls == 0


@pytest.mark.parametrize("same", [True, False])
def test_what_appears_between_the_look_and_the_upload_is_compared(
    aws: Emulated, tmp_path: Path, same: bool
) -> None:
    plan = aws.plan_of()
    body = recompressed(ours(plan, tmp_path)) if same else evil()
    lay(aws, plan, body)
    inject(aws.s3, "HeadObject", DENIED_S3)
    if same:
        aws.backend.submit(plan)
    else:
        assert_refused(aws, plan)
    assert lying(aws, plan) == body
    assert len(aws.script.requests) == same


def test_large_code_is_not_replaced_either(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PART_BYTES", 5 * 1024 * 1024)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "weights.bin").write_bytes(os.urandom(6 * 1024 * 1024))
    plan, theirs = aws.plan_of(), evil()
    lay(aws, plan, theirs)
    inject(aws.s3, "HeadObject", DENIED_S3)
    assert_refused(aws, plan)
    assert lying(aws, plan) == theirs
    assert aws.s3.list_multipart_uploads(Bucket="dev-code").get("Uploads", []) == []


def test_what_lies_there_and_may_not_be_looked_at_is_not_trusted(aws: Emulated) -> None:
    plan = aws.plan_of()
    lay(aws, plan, evil())
    inject(aws.s3, "HeadObject", *[DENIED_S3] * FOR_GOOD)
    with pytest.raises(AwsRefusal, match="compare"):
        aws.backend.submit(plan)
    assert aws.script.requests == []


def test_two_uploads_at_once_are_repeated_but_not_for_ever(aws: Emulated) -> None:
    puts = inject(aws.s3, "PutObject", *[CONFLICT] * FOR_GOOD)
    with pytest.raises(AwsRefusal, match="ConditionalRequestConflict"):
        aws.backend.submit(aws.plan_of())
    assert (puts.calls, aws.script.requests) == (3, [])
    puts.ahead.clear()
    puts.ahead.extend((CONFLICT, CONFLICT))
    aws.backend.submit(aws.plan_of())
    assert puts.calls == 3 + 4


def test_a_further_attempt_runs_the_code_of_the_first_one_after_its_files_were_edited(
    aws: Emulated, tmp_path: Path
) -> None:
    first, further, another = (aws.plan_of() for _ in range(3))
    aws.backend.submit(first)
    (tmp_path / "src" / "train.py").write_text("print('edited')\n")
    puts = inject(aws.s3, "PutObject")
    aws.backend.submit(further)
    assert puts.calls == 0
    assert len(aws.script.requests) == 2
    # And is not fooled by then either.
    lay(aws, first, evil(), ChecksumAlgorithm="SHA256")
    assert_refused(aws, another)


URI = "s3://dev-checkpoints/mine/source.tar.gz"
SourcePlan = Callable[[], TrainingPlan]


def put(s3: Any, **files: str) -> None:
    """Write the archive with these files."""
    s3.put_object(Bucket="dev-checkpoints", Key="mine/source.tar.gz", Body=packed(**files))


@pytest.fixture
def plan_from_s3(aws: Emulated) -> SourcePlan:
    def plan() -> TrainingPlan:
        source = read_stored_source(aws.s3, URI, "train.py", {"deepspeed"})
        return aws.plan_of(source=source, code={"source_dir": URI, "entry_point": "train.py"})

    return plan


def test_the_archive_is_read_and_judged_where_it_lies(aws: Emulated) -> None:
    put(aws.s3, train__py="import deepspeed")
    tree = read_stored_source(aws.s3, URI, "train.py", {"deepspeed"})
    assert (tree.has_entry_point, tree.names, tree.place) == (True, {"deepspeed"}, URI)
    assert tree.digest is not None and not tree.is_unread
    assert tree.read("train.py", 6) == b"import"


def test_it_is_copied_to_the_jobs_code_once(aws: Emulated, plan_from_s3: SourcePlan) -> None:
    s3 = aws.s3
    put(s3, train__py="print(1)")
    plan = plan_from_s3()
    aws.backend.submit(plan)
    key = f"{plan.package.s3_uri.removeprefix('s3://dev-code/')}/source.tar.gz"
    theirs = s3.get_object(Bucket="dev-checkpoints", Key="mine/source.tar.gz")["Body"].read()
    assert s3.get_object(Bucket="dev-code", Key=key)["Body"].read() == theirs
    copies = inject(s3, "CopyObject")
    aws.backend.submit(plan_from_s3())
    assert copies.calls == 0


def test_an_archive_that_was_written_again_is_not_run(aws: Emulated, plan_from_s3: SourcePlan) -> None:
    put(aws.s3, train__py="print(1)")
    plan = plan_from_s3()
    put(aws.s3, train__py="print(2)")
    with pytest.raises(BackendError, match="no longer what was planned"):
        aws.backend.submit(plan)


def test_a_missing_archive_and_a_missing_script_are_findings(aws: Emulated, plan_from_s3: SourcePlan) -> None:
    assert "source.tar.gz is not there" in codes(plan_from_s3())[0]
    put(aws.s3, other__py="")
    assert codes(plan_from_s3()) == [f"the entry point train.py is not in {URI}"]
    aws.s3.put_object(Bucket="dev-checkpoints", Key="mine/source.tar.gz", Body=b"<html>")
    assert any("cannot be read as tar.gz" in each for each in codes(plan_from_s3()))


def codes(plan: TrainingPlan) -> list[str]:
    return [each.message for each in plan.findings if each.code == "CODE002"]


@pytest.mark.parametrize("fault", [DENIED_S3, RESET])
def test_where_s3_refuses_or_is_lost_nothing_is_said_of_the_archive(aws: Emulated, fault: Any) -> None:
    put(aws.s3, train__py="")
    inject(aws.s3, "GetObject", *[fault] * 9)
    with pytest.raises(AwsRefusal):
        read_stored_source(aws.s3, URI, "train.py")


def test_a_connection_that_is_lost_within_the_archive_is_no_fault_of_it(aws: Emulated) -> None:
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

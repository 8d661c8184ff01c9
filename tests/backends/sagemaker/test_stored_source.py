"""Code that lies on S3 as an archive: read there, judged, and copied to where the job looks for it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from launcher.backends.interface import BackendError
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.backends.sagemaker.stored_source import read_stored_source
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.refusal import AwsRefusal
from launcher.jobs.load import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.preparation import prepare_for
from launcher.source.errors import SourceError
from tests.emulator.faults import DENIED_S3, RESET, inject

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

"""`resume_from`: the newest complete checkpoint lies in the new prefix before the job is created."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from launcher.backends.interface import BackendError, Progress
from launcher.backends.sagemaker import transfers
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.failure_modes.refusal import AwsRefusal
from tests.emulator.faults import DENIED_S3, RESET, SLOW_DOWN, Fault, inject
from tests.emulator.sagemaker import TrainingScript
from tests.session.submission.launching import PlanOf, entries, interrupt, launch

Store = Callable[..., None]


@pytest.fixture
def store(clients: dict[str, Any]) -> Store:
    """Write checkpoint files of a job, in this order."""

    def write(job: str, *names: str, bucket: str = "dev-checkpoints", body: bytes = b"saved") -> None:
        for name in names:
            clients["s3"].put_object(Bucket=bucket, Key=f"{job}/{name}", Body=body)

    return write


@pytest.fixture
def stored(clients: dict[str, Any]) -> Callable[[str], list[str]]:
    def below(job: str) -> list[str]:
        listed = clients["s3"].list_objects_v2(Bucket="dev-checkpoints", Prefix=f"{job}/")
        return [item["Key"].removeprefix(f"{job}/") for item in listed.get("Contents", ())]

    return below


@pytest.fixture
def ended(backend: SageMakerBackend, plan_of: PlanOf) -> str:
    """A job that has run to its end."""
    name = backend.submit(plan_of("0first"))
    while not backend.describe(name).state.is_final:
        pass
    return name


def test_a_jobs_newest_checkpoint_is_copied_into_the_new_jobs_prefix(
    backend: SageMakerBackend,
    script: TrainingScript,
    plan_of: PlanOf,
    store: Store,
    stored: Callable[[str], list[str]],
    ended: str,
) -> None:
    store(ended, "checkpoint-1.pt", "checkpoint-2.pt", "config.json")
    told: list[Progress] = []
    name = backend.submit(plan_of(checkpoint={"resume_from": ended}), told.append)
    assert stored(name) == ["checkpoint-2.pt", "config.json"]
    assert stored(ended) == ["checkpoint-1.pt", "checkpoint-2.pt", "config.json"]
    assert script.requests[-1]["CheckpointConfig"]["S3Uri"] == f"s3://dev-checkpoints/{name}"
    steps = [progress.step for progress in told]
    assert f"resuming from checkpoint-2.pt below s3://dev-checkpoints/{ended}" in steps
    assert (told[-1].step, told[-1].done, told[-1].total) == ("copy the checkpoint", 10, 10)


def test_an_s3_uri_is_read_as_it_is(
    backend: SageMakerBackend, plan_of: PlanOf, store: Store, stored: Callable[[str], list[str]]
) -> None:
    store(
        "elsewhere/run", "step-1/.metadata", "step-1/__0_0.distcp", "step-2/__0_0.distcp", bucket="dev-code"
    )
    plan = plan_of(checkpoint={"resume_from": "s3://dev-code/elsewhere/run/"})
    assert stored(backend.submit(plan)) == ["step-1/.metadata", "step-1/__0_0.distcp"]


def test_checkpoints_that_the_container_moves_are_found_as_well(
    backend: SageMakerBackend, plan_of: PlanOf, store: Store, stored: Callable[[str], list[str]]
) -> None:
    moved = {"s3_uri": "s3://dev-checkpoints/mine", "sync": "slipway"}
    first = backend.submit(plan_of("0first", checkpoint=moved))
    while not backend.describe(first).state.is_final:
        pass
    store(f"mine/{first}", "step-1.pt")
    name = backend.submit(plan_of(checkpoint={**moved, "resume_from": first}))
    assert stored(f"mine/{name}") == ["step-1.pt"]


def test_of_the_managers_checkpoints_the_newest_whole_one_is_copied(
    backend: SageMakerBackend, plan_of: PlanOf, store: Store, stored: Callable[[str], list[str]], ended: str
) -> None:
    whole, half = "step-000000000007-0a1b2c3d", "step-000000000008-0a1b2c3d"
    body = b'{"files": [{"name": "model.pt", "bytes": 2}]}'
    store(ended, f"{whole}/model.pt", f"{half}/model.pt", body=b"ab")
    store(ended, f"{whole}/manifest.json", body=body)
    name = backend.submit(plan_of(checkpoint={"resume_from": ended}))
    assert stored(name) == [f"{whole}/manifest.json", f"{whole}/model.pt"]


def test_the_pointer_of_deepspeed_is_followed(
    backend: SageMakerBackend, plan_of: PlanOf, store: Store, stored: Callable[[str], list[str]], ended: str
) -> None:
    store(ended, "global_step1/model.pt", "global_step2/model.pt")
    store(ended, "latest", body=b"global_step1")
    name = backend.submit(plan_of(checkpoint={"resume_from": ended}))
    assert stored(name) == ["global_step1/model.pt", "latest"]


def test_a_large_file_is_copied_in_parts(
    backend: SageMakerBackend,
    clients: dict[str, Any],
    plan_of: PlanOf,
    store: Store,
    stored: Callable[[str], list[str]],
    ended: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transfers, "PART_BYTES", 5 * 1024 * 1024)
    store(ended, "step-1.pt", body=b"x" * (11 * 1024 * 1024))
    parts = inject(clients["s3"], "UploadPartCopy", None, SLOW_DOWN)
    name = backend.submit(plan_of(checkpoint={"resume_from": ended}))
    assert stored(name) == ["step-1.pt"]
    assert parts.calls == 4


def test_a_job_that_still_runs_is_not_resumed_from(
    backend: SageMakerBackend, script: TrainingScript, plan_of: PlanOf, store: Store
) -> None:
    first = backend.submit(plan_of("0first"))
    store(first, "step-1.pt")
    with pytest.raises(BackendError, match="InProgress and still writes"):
        backend.submit(plan_of(checkpoint={"resume_from": first}))
    assert len(script.requests) == 1


@pytest.mark.parametrize("reference", ["s3://dev-checkpoints/nowhere", "unknown-job", "the ended job"])
def test_without_a_checkpoint_nothing_is_created(
    backend: SageMakerBackend, script: TrainingScript, plan_of: PlanOf, ended: str, reference: str
) -> None:
    reference = ended if reference == "the ended job" else reference
    with pytest.raises((BackendError, AwsRefusal), match=reference):
        backend.submit(plan_of(checkpoint={"resume_from": reference}))
    assert len(script.requests) == 1
    assert entries() == []


def test_a_job_without_checkpoints_on_s3_says_what_to_give(
    backend: SageMakerBackend, script: TrainingScript, plan_of: PlanOf
) -> None:
    plan = plan_of(checkpoint={"resume_from": "s3://dev-checkpoints/x"})
    request = {key: value for key, value in plan.request.items() if key != "CheckpointConfig"}
    with pytest.raises(BackendError, match="keeps none there"):
        backend.submit(replace(plan, request=request))
    assert script.requests == []


@pytest.mark.parametrize("fault", [DENIED_S3, RESET], ids=lambda fault: fault.name)
def test_nothing_is_created_when_the_copy_fails_and_a_new_start_succeeds(
    backend: SageMakerBackend,
    script: TrainingScript,
    clients: dict[str, Any],
    plan_of: PlanOf,
    store: Store,
    stored: Callable[[str], list[str]],
    ended: str,
    fault: Fault,
) -> None:
    store(ended, "step-1/a", "step-1/b", "step-1/c")
    faults = inject(clients["s3"], "CopyObject", None, *[fault] * 30)
    with pytest.raises(AwsRefusal, match="copy the checkpoint to"):
        backend.submit(plan_of(checkpoint={"resume_from": ended}))
    assert len(script.requests) == 1
    faults.ahead.clear()
    name = backend.submit(plan_of(checkpoint={"resume_from": ended}))
    assert stored(name) == ["step-1/a", "step-1/b", "step-1/c"]


def test_a_job_that_was_created_before_the_kill_keeps_what_it_has_saved_since(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: PlanOf, store: Store, ended: str
) -> None:
    store(ended, "step-1.pt")
    plan = plan_of(checkpoint={"resume_from": ended})
    name = backend.submit(plan)
    store(name, "step-1.pt", body=b"newer")
    interrupt(plan)
    copies = inject(clients["s3"], "CopyObject")
    assert launch(backend, plan_of(checkpoint={"resume_from": ended})) == name
    assert copies.calls == 0

"""`resume_from`: the newest complete checkpoint lies in the new prefix before the job is created."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from launcher.backends.interface import BackendError, Progress
from launcher.backends.sagemaker import upload
from launcher.backends.sagemaker.resume import CheckpointChoice, StoredObject, choose_checkpoint
from launcher.failure_modes.model import AwsRefusal
from tests.backends.sagemaker.conftest import Emulated
from tests.emulator.faults import DENIED_S3, RESET, SLOW_DOWN, Fault, inject
from tests.session.submission.launches import entries, interrupt, launch

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


@pytest.fixture
def ended(aws: Emulated) -> str:
    """A job that has run to its end."""
    return aws.to_the_end(aws.backend.submit(aws.plan_of("0first")))


def test_a_jobs_newest_checkpoint_is_copied_into_the_new_jobs_prefix(aws: Emulated, ended: str) -> None:
    aws.store(ended, "checkpoint-1.pt", "checkpoint-2.pt", "config.json")
    told: list[Progress] = []
    name = aws.backend.submit(aws.plan_of(checkpoint={"resume_from": ended}), told.append)
    assert aws.stored(name) == ["checkpoint-2.pt", "config.json"]
    assert aws.stored(ended) == ["checkpoint-1.pt", "checkpoint-2.pt", "config.json"]
    assert aws.script.requests[-1]["CheckpointConfig"]["S3Uri"] == f"s3://dev-checkpoints/{name}"
    steps = [progress.step for progress in told]
    assert f"resuming from checkpoint-2.pt below s3://dev-checkpoints/{ended}" in steps
    assert (told[-1].step, told[-1].done, told[-1].total) == ("copy the checkpoint", 10, 10)


def test_an_s3_uri_is_read_as_it_is(aws: Emulated) -> None:
    aws.store(
        "elsewhere/run", "step-1/.metadata", "step-1/__0_0.distcp", "step-2/__0_0.distcp", bucket="dev-code"
    )
    plan = aws.plan_of(checkpoint={"resume_from": "s3://dev-code/elsewhere/run/"})
    assert aws.stored(aws.backend.submit(plan)) == ["step-1/.metadata", "step-1/__0_0.distcp"]


def test_checkpoints_that_the_container_moves_are_found_as_well(aws: Emulated) -> None:
    moved = {"s3_uri": "s3://dev-checkpoints/mine", "sync": "slipway"}
    first = aws.to_the_end(aws.backend.submit(aws.plan_of("0first", checkpoint=moved)))
    aws.store(f"mine/{first}", "step-1.pt")
    name = aws.backend.submit(aws.plan_of(checkpoint={**moved, "resume_from": first}))
    assert aws.stored(f"mine/{name}") == ["step-1.pt"]


def test_of_the_managers_checkpoints_the_newest_whole_one_is_copied(aws: Emulated, ended: str) -> None:
    whole, half = "step-000000000007-0a1b2c3d", "step-000000000008-0a1b2c3d"
    body = b'{"files": [{"name": "model.pt", "bytes": 2}]}'
    aws.store(ended, f"{whole}/model.pt", f"{half}/model.pt", body=b"ab")
    aws.store(ended, f"{whole}/manifest.json", body=body)
    name = aws.backend.submit(aws.plan_of(checkpoint={"resume_from": ended}))
    assert aws.stored(name) == [f"{whole}/manifest.json", f"{whole}/model.pt"]


def test_the_pointer_of_deepspeed_is_followed(aws: Emulated, ended: str) -> None:
    aws.store(ended, "global_step1/model.pt", "global_step2/model.pt")
    aws.store(ended, "latest", body=b"global_step1")
    name = aws.backend.submit(aws.plan_of(checkpoint={"resume_from": ended}))
    assert aws.stored(name) == ["global_step1/model.pt", "latest"]


def test_a_large_file_is_copied_in_parts(
    aws: Emulated,
    ended: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upload, "PART_BYTES", 5 * 1024 * 1024)
    aws.store(ended, "step-1.pt", body=b"x" * (11 * 1024 * 1024))
    parts = inject(aws.s3, "UploadPartCopy", None, SLOW_DOWN)
    name = aws.backend.submit(aws.plan_of(checkpoint={"resume_from": ended}))
    assert aws.stored(name) == ["step-1.pt"]
    assert parts.calls == 4


def test_a_job_that_still_runs_is_not_resumed_from(aws: Emulated) -> None:
    first = aws.backend.submit(aws.plan_of("0first"))
    aws.store(first, "step-1.pt")
    with pytest.raises(BackendError, match="InProgress and still writes"):
        aws.backend.submit(aws.plan_of(checkpoint={"resume_from": first}))
    assert len(aws.script.requests) == 1


@pytest.mark.parametrize("reference", ["s3://dev-checkpoints/nowhere", "unknown-job", "the ended job"])
def test_without_a_checkpoint_nothing_is_created(aws: Emulated, ended: str, reference: str) -> None:
    reference = ended if reference == "the ended job" else reference
    with pytest.raises((BackendError, AwsRefusal), match=reference):
        aws.backend.submit(aws.plan_of(checkpoint={"resume_from": reference}))
    assert len(aws.script.requests) == 1
    assert entries() == []


def test_a_job_without_checkpoints_on_s3_says_what_to_give(aws: Emulated) -> None:
    plan = aws.plan_of(checkpoint={"resume_from": "s3://dev-checkpoints/x"})
    request = {key: value for key, value in plan.request.items() if key != "CheckpointConfig"}
    with pytest.raises(BackendError, match="keeps none there"):
        aws.backend.submit(replace(plan, request=request))
    assert aws.script.requests == []


@pytest.mark.parametrize("fault", [DENIED_S3, RESET], ids=lambda fault: fault.name)
def test_nothing_is_created_when_the_copy_fails_and_a_new_start_succeeds(
    aws: Emulated, ended: str, fault: Fault
) -> None:
    aws.store(ended, "step-1/a", "step-1/b", "step-1/c")
    faults = inject(aws.s3, "CopyObject", None, *[fault] * 30)
    with pytest.raises(AwsRefusal, match="copy the checkpoint to"):
        aws.backend.submit(aws.plan_of(checkpoint={"resume_from": ended}))
    assert len(aws.script.requests) == 1
    faults.ahead.clear()
    name = aws.backend.submit(aws.plan_of(checkpoint={"resume_from": ended}))
    assert aws.stored(name) == ["step-1/a", "step-1/b", "step-1/c"]


def test_a_job_that_was_created_before_the_kill_keeps_what_it_has_saved_since(
    aws: Emulated, ended: str
) -> None:
    aws.store(ended, "step-1.pt")
    plan = aws.plan_of(checkpoint={"resume_from": ended})
    name = aws.backend.submit(plan)
    aws.store(name, "step-1.pt", body=b"newer")
    interrupt(plan)
    copies = inject(aws.s3, "CopyObject")
    assert launch(aws.backend, aws.plan_of(checkpoint={"resume_from": ended})) == name
    assert copies.calls == 0


def test_nothing_is_copied_into_the_prefix_of_a_job_that_is_there(aws: Emulated, ended: str) -> None:
    aws.store(ended, "step-1.pt")
    plan = aws.plan_of(checkpoint={"resume_from": ended})
    name = aws.backend.submit(plan)
    aws.store(name, "step-1.pt", body=b"newer")
    copies = inject(aws.s3, "CopyObject")
    aws.backend.submit(plan)
    assert plan.request is not None
    assert aws.backend.resume(ended, plan.request) == name
    assert copies.calls == 0


def choice(*names: str, **pointers: str) -> CheckpointChoice:
    """The choice among objects that were written in this order."""
    objects = [StoredObject(name, 10) for name in names]
    texts = {
        {"latest": "latest", "megatron": "latest_checkpointed_iteration.txt"}[key]: text
        for key, text in pointers.items()
    }
    return choose_checkpoint(objects, texts)


def chosen(*names: str, **pointers: str) -> list[str]:
    return sorted(item.name for item in choice(*names, **pointers).objects)


@pytest.mark.parametrize(
    ("names", "expected"), CASES["newest complete"].values(), ids=CASES["newest complete"]
)
def test_the_newest_complete_checkpoint_is_chosen(names: list[str], expected: list[str]) -> None:
    assert chosen(*names) == expected


def test_a_pointer_names_the_newest_complete_one() -> None:
    files = ["global_step10/mp_rank_00_model_states.pt", "global_step20/mp_rank_00_model_states.pt", "latest"]
    assert chosen(*files, latest="global_step10\n") == [files[0], "latest"]
    files = ["iter_0000010/model.pt", "iter_0000020/model.pt", "latest_checkpointed_iteration.txt"]
    assert chosen(*files, megatron="10") == [files[0], files[2]]
    # One to what is not there is passed over, and what is newer and not complete is told.
    assert chosen("step-1/a", "latest", latest="step-7") == ["latest", "step-1/a"]
    made = choice("step-1/a", "step-1/b", "step-2/a")
    assert (made.names, made.incomplete) == (["step-1"], ["step-2"])


def managed(*steps: int, lacking: str = "") -> list[StoredObject]:
    """What slipway.CheckpointManager saves at these steps, but for one file."""
    names = [
        f"step-{step:012d}-0a1b2c3d/{name}"
        for step in steps
        for name in ("model.pt", "shards/__0_0.distcp", "manifest.json")
    ]
    return [StoredObject(name, 10) for name in names if name != lacking]


WHOLE = '{"files": [{"name": "model.pt", "bytes": 10}, {"name": "shards/__0_0.distcp", "bytes": 10}]}'
SEVENTH, EIGHTH = "step-000000000007-0a1b2c3d", "step-000000000008-0a1b2c3d"


def test_of_the_managers_the_newest_whole_one_is_taken_its_manifest_last() -> None:
    found = choose_checkpoint(managed(7, 8), None, {SEVENTH: WHOLE, EIGHTH: WHOLE})
    assert (found.names, found.incomplete) == ([EIGHTH], [])
    assert [each.name for each in found.objects] == [
        f"{EIGHTH}/{name}" for name in ("model.pt", "shards/__0_0.distcp", "manifest.json")
    ]


@pytest.mark.parametrize(
    ("objects", "manifest"),
    [
        pytest.param(managed(7, 8, lacking=f"{EIGHTH}/model.pt"), WHOLE, id="a file is missing"),
        pytest.param(managed(7, 8), WHOLE.replace("10", "11", 1), id="a file has another size"),
        pytest.param(managed(7, 8, lacking=f"{EIGHTH}/manifest.json"), None, id="no manifest"),
        pytest.param(managed(7, 8), "[" * 100_000, id="no JSON"),
        pytest.param(managed(7, 8), '{"files": [{"name": 1}]}', id="no manifest of ours"),
        pytest.param(managed(7, 8), '{"files": []}', id="no files"),
    ],
)
def test_one_of_the_managers_that_is_not_whole_is_passed_over(
    objects: list[StoredObject], manifest: str | None
) -> None:
    texts = {SEVENTH: WHOLE} | ({EIGHTH: manifest} if manifest else {})
    found = choose_checkpoint(objects, None, texts)
    assert (found.names, found.incomplete) == ([SEVENTH], [EIGHTH])


def test_the_managers_checkpoints_and_files_of_the_script_go_together() -> None:
    objects = [*managed(7), StoredObject("config.json", 10), StoredObject("epoch-3.pt", 10)]
    assert choose_checkpoint(objects, None, {SEVENTH: WHOLE}).names == [SEVENTH, "epoch-3.pt"]
    assert choose_checkpoint(managed(7), None, {}).objects == [], "none of the manager's is whole"

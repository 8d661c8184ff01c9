"""What the service's reason of a failed job is a sign of."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.signs.sightings import finding_of_boot
from launcher.failure_modes import interruption
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import FailureMode, Retry, Stage
from tests.diagnosis.cases import records

BOOT = (
    "AlgorithmError: MEM001 rank 3 on algo-2: torch.OutOfMemoryError: CUDA out of memory (train.py:44)"
    "\n  x = f(y), exit code: 1"
)
WAITED = "AlgorithmError: NCCL004 rank 3 on algo-2: RuntimeError: Timed out, exit code: 1"
FULL = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("CapacityError: Unable to provision requested ML compute capacity. Please retry.", "CAP001"),
        ("InternalServerError: We encountered an internal error. Please try again.", "CKPT004"),
        ("ClientError: Data download failed:AccessDenied (403): Access Denied", "S3002"),
        (
            "ClientError: Data download failed:Unable to download object s3://b/k (AccessDenied: Access "
            "Denied)",
            "S3002",
        ),
        (
            "ClientError: Data download failed:Please ensure that the subnet's route table has a route to "
            "an S3 VPC "
            "endpoint or a NAT device, both the security groups and the subnet's network ACL allow traffic",
            "EFA003",
        ),
        (
            "ClientError: Artifact upload failed:Please ensure that the subnet's route table has a route to "
            "an S3 VPC endpoint or a NAT device",
            "EFA003",
        ),
        ("ClientError: Artifact upload failed:Insufficient disk space", "DISK001"),
        ("ClientError: Artifact upload failed:No space left on device", "DISK001"),
        ("InternalServerError: Artifact upload failed:Error 7: The credentials have been expired", "CKPT004"),
        ("ClientError: Please use an instance type with more memory, or reduce the size of data.", "MEM002"),
        ("AlgorithmError: , exit code: 137", "MEM002"),
        (
            'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "KeyError: 1"\nCommand "x"',
            "CODE001",
        ),
        ("AlgorithmError: framework error, exit code: 1", "CODE001"),
        (
            'ClientError: No S3 objects found under S3 URL "s3://data/train" given in input data source.',
            "S3001",
        ),
        (
            "ClientError: Data download failed:Failed to download data. S3 key: s3://data//a has an illegal "
            "char sub-sequence '//' in it",
            "S3001",
        ),
        ("ClientError: Artifact upload failed:Error 4: HTTP response code 403", "S3002"),
        ("CannotPullContainerError: pull access denied for train, repository does not exist", "IMG001"),
        ("An error occurred (ResourceLimitExceeded) when calling CreateTrainingJob", "CAP002"),
        ("something new", None),
        (None, None),
    ],
)
def test_the_services_own_texts_are_known(reason: str | None, code: str | None) -> None:
    root = diagnose([], reason).root_cause
    assert (root.finding.code if root else None) == code


@pytest.mark.parametrize(
    ("cited", "code"),
    [
        ("RuntimeError: Connection reset by peer", "NCCL006"),
        (":MemoryError", "MEM002"),
        (
            "raise ValueError(x)\n OSError: [Errno 28] No space left on device: '/opt/ml/model/a.pt'",
            "DISK001",
        ),
        ("step 1\nRuntimeError: received 0 items of ancdata\n", "DATA010"),
        (
            "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for fc.weight: copying a "
            "param with shape torch.Size([3, 2]) from checkpoint, the shape in current model is "
            "torch.Size([2, 2]).",
            "CKPT009",
        ),
        ("KeyError: 'image'", "CODE001"),
    ],
)
@pytest.mark.parametrize("end", ['"\nCommand "/opt/conda/bin/python3.11 train.py", exit code: 1', ""])
def test_what_the_toolkit_cites_of_the_script_is_read_line_by_line(cited: str, code: str, end: str) -> None:
    reason = f'AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "{cited}{end}'
    root = diagnose([], reason).root_cause
    assert root is not None and root.finding.code == code


@pytest.mark.parametrize(
    ("below", "code"),
    [
        ("/usr/bin/python: No module named src/train", "CODE002"),
        ("step 1\nModuleNotFoundError: No module named 'einops'", "CODE005"),
    ],
)
def test_what_stands_below_the_command_without_a_mark_is_read_too(below: str, code: str) -> None:
    reason = f'AlgorithmError: ExecuteUserScriptError:\nCommand "/usr/bin/python -m src/train"\n{below}'
    root = diagnose([], reason).root_cause
    assert root is not None and root.finding.code == code


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("ModuleNotFoundError: No module named 'transformers'", "CODE005"),
        (
            "botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation: "
            "Forbidden",
            "S3002",
        ),
        ("ValueError: no such channel", "CODE001"),
    ],
)
@pytest.mark.parametrize("indent", ["  ", ""])
def test_what_the_toolkit_itself_raised_is_read_from_its_traceback(
    raised: str, code: str, indent: str
) -> None:
    reason = (
        "AlgorithmError: Framework Error: \nTraceback (most recent call last):\n"
        f'{indent}File "/opt/conda/lib/python3.10/site-packages/sagemaker_training/trainer.py", line 88, in '
        f"train\n{indent}entrypoint()\n{raised}\n\n{raised.partition(': ')[2]}, exit code: 1"
    )
    root = diagnose([], reason).root_cause
    assert root is not None and root.finding.code == code


@pytest.mark.parametrize(
    "what",
    [
        "Please ensure that the subnet's route table has a route to an S3 VPC endpoint",
        "Insufficient disk space",
    ],
)
def test_an_upload_that_would_fail_again_is_not_tried_again(what: str) -> None:
    assert diagnose([], f"ClientError: Artifact upload failed:{what}").retry is Retry.NEVER


def test_a_spot_job_that_got_no_hosts_has_only_its_secondary_status() -> None:
    assert diagnose([], secondary_status="MaxWaitTimeExceeded").root_cause.finding.code == "CAP001"


def test_an_ordinary_secondary_status_says_nothing() -> None:
    for status in ("Completed", "Failed", "Training", "Stopped", "MaxRuntimeExceeded"):
        assert diagnose([], secondary_status=status).root_cause is None


def test_the_boots_diagnosis_is_told_with_rank_host_and_place() -> None:
    root = diagnose([], BOOT).root_cause
    assert (root.finding.code, root.rank, root.host) == ("MEM001", 3, "algo-2")
    assert root.finding.message == (
        "rank 3 on algo-2: torch.OutOfMemoryError: CUDA out of memory (train.py:44)"
    )


def test_the_boots_cause_comes_before_any_line() -> None:
    assert diagnose(records(FULL, "algo-1", 1), BOOT).root_cause.finding.code == "MEM001"


def test_the_boots_symptom_gives_way_to_a_cause_in_the_lines() -> None:
    assert diagnose(records(FULL, "algo-1"), WAITED).root_cause.finding.code == "HW001"


# The container only prints STOP001: nobody asks for the reason of a job that was stopped.
WRITTEN = [mode for mode in CATALOGUE.values() if mode is not interruption.STOPPED]


@pytest.mark.parametrize("mode", WRITTEN, ids=lambda mode: mode.code)
def test_a_report_that_only_names_a_symptom_gives_way_and_any_other_does_not(mode: FailureMode) -> None:
    reason = f"AlgorithmError: {mode.code} rank 3 on algo-2: RuntimeError: x, exit code: 1"
    root = diagnose(records(FULL, "algo-1"), reason).root_cause
    assert root.finding.code == (mode.code if mode.symptom is None else "HW001")


def test_of_two_symptoms_the_one_that_waited_counts_more_than_the_echo() -> None:
    lost = "AlgorithmError: NCCL006 rank 3 on algo-2: RuntimeError: Connection closed by peer, exit code: 1"
    line = "DistStoreError: Timed out after 601 seconds waiting for clients. 15/16 clients joined."
    assert diagnose(records(line, "algo-1"), lost).root_cause.finding.code == "NCCL008"


def test_the_boots_symptom_comes_before_those_of_the_lines() -> None:
    line = "[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out."
    root = diagnose(records(line, "algo-1"), WAITED).root_cause
    assert (root.finding.code, root.rank) == ("NCCL004", 3)


def test_the_exit_code_of_the_service_gives_way_to_the_lines() -> None:
    assert (
        diagnose(records(FULL, "algo-1"), "AlgorithmError: , exit code: 1").root_cause.finding.code == "HW001"
    )


def test_the_exit_code_of_the_service_stays_where_many_lines_say_nothing() -> None:
    lines = records("step\n" * 2000, "algo-1")
    assert (
        diagnose(lines, "AlgorithmError: framework error, exit code: 1").root_cause.finding.code == "CODE001"
    )


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        (
            "RuntimeError: Error downloading train-images-idx3-ubyte.gz: Tried https://x/mnist/, got: "
            "<urlopen error [Errno -2] Name or service not known>",
            "HUB001",
            "input channel",
        ),
        ("train.py: error: unrecognized arguments: --epochz", "CODE002", "Correct the name"),
        ("RuntimeError: operator torchvision::nms does not exist", "CODE005", "whl/cpu"),
        ("_pickle.UnpicklingError: Weights only load failed. This", "CODE001", "TORCH_FORCE_NO_WEIGHTS_ONLY"),
    ],
)
def test_what_the_container_reports_of_a_script_is_told_by_who_knows_the_error(
    error: str, code: str, remedy: str
) -> None:
    reason = f"AlgorithmError: CODE001 rank 2 on algo-2: {error} (train.py:97)\n  x = f(y), exit code: 1"
    cause = diagnose([], reason).root_cause
    assert cause is not None
    assert cause.finding.code == code
    assert remedy in cause.finding.remedy


def test_the_end_of_a_parsers_usage_is_no_evidence() -> None:
    refused = "train.py: error: unrecognized arguments: --epochz"
    reason = f"AlgorithmError: CODE002 rank 1 on algo-1: {refused}\n  [--depth DEPTH]\n  [DIR], exit code: 2"
    cause = diagnose([], reason).root_cause
    assert cause is not None
    assert cause.evidence == (f"rank 1 on algo-1: {refused}",)


def test_the_boots_diagnosis_becomes_a_finding() -> None:
    finding = finding_of_boot("AlgorithmError: CODE001 rank 3 on algo-2: ValueError: bad, exit code: 1")
    assert (finding.code, finding.stage, finding.subject) == ("CODE001", Stage.RUNTIME, "rank 3")
    assert finding.message == "rank 3 on algo-2: ValueError: bad"


@pytest.mark.parametrize(
    "reason",
    [
        None,
        "",
        "AlgorithmError: , exit code: 1",
        "ClientError: Please ensure that the subnet's route table has a route to S3",
        "AlgorithmError: ABC123 is no code of ours",
        "InternalServerError: We encountered an internal error. Please try again.",
    ],
)
def test_a_reason_in_other_words_is_left_to_the_reader(reason: str | None) -> None:
    assert finding_of_boot(reason) is None


def test_a_message_of_many_lines_is_kept_whole() -> None:
    finding = finding_of_boot("AlgorithmError: MEM001 rank 0: out of memory\nTraceback:\n  x, exit code: 1")
    assert finding.message.endswith("Traceback:\n  x")

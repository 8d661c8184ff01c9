"""The rules together: what a sound job is, that all are called, and the first few of them."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Severity, Stage
from launcher.failure_modes.registry import registered
from launcher.rules.job.check import RULES

P4D = "ml.p4d.24xlarge"


def test_a_sound_job_has_no_findings(judge) -> None:
    assert judge() == []


def test_every_registered_rule_is_called() -> None:
    rules = {item.function for item in registered() if item.stage is Stage.SPEC and ".rules." in item.name}
    assert rules == set(RULES)


@pytest.mark.parametrize(
    ("distribution", "instance_type", "found"),
    [
        pytest.param({"strategy": "torchrun", "processes_per_host": 8}, P4D, None, id="all GPUs"),
        pytest.param({"strategy": "torchrun", "processes_per_host": 7}, P4D, "error", id="one GPU idle"),
        pytest.param(
            {"strategy": "torchrun", "processes_per_host": 9}, P4D, None, id="one too many is DIST003"
        ),
        pytest.param(
            {"strategy": "torchrun", "processes_per_host": 32}, "ml.trn1.32xlarge", None, id="Neuron cores"
        ),
        pytest.param({"strategy": "torchrun", "processes_per_host": 2}, "ml.m5.xlarge", None, id="CPUs"),
        pytest.param({"strategy": "none", "processes_per_host": 1}, P4D, None, id="none with one"),
        pytest.param({"strategy": "none", "processes_per_host": 8}, P4D, "error", id="none with eight"),
        pytest.param(
            {"strategy": "torchrun", "processes_per_host": 3}, "ml.p9.48xlarge", None, id="unknown type"
        ),
    ],
)
def test_processes_must_be_the_accelerators_of_the_host(
    severity_of, distribution: dict, instance_type: str, found: str | None
) -> None:
    resources = {"instance_type": instance_type}
    assert severity_of("DIST001", distribution=distribution, resources=resources) == found


def test_the_finding_says_the_number_and_where_it_stands(judge) -> None:
    (finding,) = judge("DIST001", distribution={"strategy": "torchrun", "processes_per_host": 4})
    assert "4" in finding.message
    assert "8" in finding.remedy
    assert finding.location.line > 1


def test_an_unknown_instance_type_is_told_the_nearest(judge) -> None:
    (finding,) = judge("SPEC004", resources={"instance_type": "ml.p4d.24xlrge"})
    assert P4D in finding.remedy


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"source_dir": "scr", "entry_point": "train.py"}, "scr does not exist"),
        ({"source_dir": "src", "entry_point": "trian.py"}, "trian.py is not in"),
    ],
)
def test_a_missing_script_is_found_before_it_is_paid_for(judge, section: dict, says: str) -> None:
    (finding,) = judge("CODE002", code_section=section)
    assert says in finding.message


def test_a_finding_never_stands_without_a_remedy_and_a_source(judge) -> None:
    found = judge(
        distribution={"strategy": "smddp", "processes_per_host": 4},
        environment={"FI_PROVIDER": "tcp", "NCCL_PROTO": "simple", "CUDA_LAUNCH_BLOCKING": 1},
        resources={"instance_type": P4D, "instance_count": 2, "capacity": "spot", "keep_alive": "10m"},
        model={"parameters": 70e9},
        data={"samples": 1001, "batch_size": 3},
        hyperparameters={"num_workers": 64, "api_key": "0123456789abcdef"},
    )
    assert {finding.code for finding in found} == {
        "DIST001", "SPEC004", "SPEC005", "NCCL001", "NCCL003", "CKPT002", "CKPT006", "DATA001", "DATA006",
        "MEM003",
    }  # fmt: skip
    for finding in found:
        assert finding.remedy and finding.source and finding.subject
        assert finding.location or finding.code == "SPEC005"
        assert finding.severity in set(Severity)

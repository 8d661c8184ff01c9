"""DataLoader workers against CPUs: DATA006. A p4d has 96 vCPUs, 12 for each of its processes."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("job", "subject"),
    [
        pytest.param({"hyperparameters": {"num_workers": 12}}, None, id="as many as CPUs"),
        pytest.param(
            {"hyperparameters": {"num_workers": 13}}, "hyperparameters.num_workers", id="one more than CPUs"
        ),
        pytest.param(
            {"hyperparameters": {"dataloader-num-workers": "13"}},
            "hyperparameters.dataloader-num-workers",
            id="by another name, as text",
        ),
        pytest.param({"hyperparameters": {"num_workers": "auto"}}, None, id="no number"),
        pytest.param({"hyperparameters": {"workers_per_day": 99}}, None, id="another meaning"),
        pytest.param(
            {"hyperparameters": {"num_workers": 12}, "distribution": {"strategy": "none"}},
            None,
            id="one process has all CPUs",
        ),
        pytest.param(
            {"hyperparameters": {"num_workers": 97}, "distribution": {"strategy": "none"}},
            "hyperparameters.num_workers",
            id="more than all CPUs",
        ),
        pytest.param(
            {"code_section": {"source_dir": "src", "entry_point": "train.py", "arguments": ["--workers=13"]}},
            "code.arguments.0",
            id="an argument in one word",
        ),
        pytest.param(
            {
                "code_section": {
                    "source_dir": "src",
                    "entry_point": "train.py",
                    "arguments": ["--lr", "1", "--num-workers", "13"],
                }
            },
            "code.arguments.2",
            id="an argument in two words",
        ),
        pytest.param(
            {
                "hyperparameters": {"num_workers": 99},
                "resources": {"instance_type": "ml.p9.48xlarge"},
            },
            None,
            id="unknown type",
        ),
        *(
            pytest.param(
                {
                    "hyperparameters": {"num_workers": workers},
                    "resources": {"instance_type": "ml.m5.xlarge"},
                    "distribution": {"strategy": "torchrun", "processes_per_host": 8},
                },
                subject,
                id=f"{workers} for each of more processes than vCPUs",
            )
            for workers, subject in ((1, None), (2, "hyperparameters.num_workers"))
        ),
    ],
)
def test_workers_have_their_cpus(judge, job: dict, subject: str | None) -> None:
    assert [finding.subject for finding in judge("DATA006", **job)] == ([subject] if subject else [])


def test_the_arithmetic_and_a_fitting_number_are_told(judge) -> None:
    (finding,) = judge("DATA006", hyperparameters={"num_workers": 16})
    assert "8 processes make 128 workers on the 96 vCPUs" in finding.message
    assert "at most 11" in finding.remedy
    assert finding.severity == "warning"

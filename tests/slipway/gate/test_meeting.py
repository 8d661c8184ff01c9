"""The all-reduce between the hosts, judged by how far each came."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.gate.meeting import can_meet, judge_ready, judge_reduction

HOSTS = ("algo-1", "algo-2")


def stands(first: str, second: str, **said: Any) -> dict[str, dict[str, Any]]:
    return {"algo-1": {"stage": first, "said": {}}, "algo-2": {"stage": second, "said": said}}


def test_hosts_meet_only_when_all_are_ready() -> None:
    assert can_meet(stands("ready", "ready"), HOSTS)
    assert not can_meet(stands("ready", "started"), HOSTS)
    assert not can_meet({"algo-1": {"stage": "ready", "said": {}}}, HOSTS)


def test_a_torch_that_is_not_there_or_slow_makes_it_unknown() -> None:
    missing = stands("ready", "error", reason="ModuleNotFoundError: No module named 'torch'")
    assert judge_ready(missing, HOSTS, 30).unknown == (
        "the all-reduce between the hosts (algo-2: ModuleNotFoundError: No module named 'torch')",
    )
    slow = judge_ready(stands("ready", "started"), HOSTS, 30)
    assert not slow.findings
    assert "algo-2: torch and the devices were not ready within 30 s" in slow.unknown[0]


def test_gpus_that_torch_cannot_use_end_the_job() -> None:
    reason = "The NVIDIA driver on your system is too old (found version 11040)."
    (finding,) = judge_ready(stands("ready", "without", reason=reason, cuda_fails=True), HOSTS, 30).findings
    assert (finding.code, finding.host, finding.ends) == ("IMG002", "algo-2", True)
    assert "too old (found version 11040)" in finding.text


def test_a_torch_without_cuda_on_a_host_with_gpus_is_told() -> None:
    said = {"reason": "torch 2.7.1+cpu is built without CUDA", "cpu_only": True}
    (finding,) = judge_ready(stands("ready", "without", **said), HOSTS, 30).findings
    assert (finding.code, finding.ends) == ("IMG002", False)


# torch.cuda.get_arch_list() of torch 2.11.0+cu130 (recorded), 1.13.1+cu117 and 2.7.0+cu128 (of their builds).
@pytest.mark.parametrize(
    ("built", "capability", "found"),
    [
        (["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"], [9, 0], False),
        (["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"], [8, 9], False),
        (["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"], [7, 0], True),
        (["sm_37", "sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86"], [9, 0], True),
        (["sm_37", "sm_50", "sm_80", "compute_80"], [9, 0], False),
        (["sm_90a", "sm_100"], [9, 0], False),
        (["gfx90a"], [9, 0], True),
        ([], [9, 0], False),
    ],
)
def test_an_architecture_that_torch_has_no_code_for_ends_the_job(
    built: list[str], capability: list[int], found: bool
) -> None:
    report = judge_ready(stands("ready", "ready", capability=capability, built=built), HOSTS, 30)
    assert [(each.code, each.host, each.ends) for each in report.findings] == (
        [("IMG002", "algo-2", True)] if found else []
    )


def test_an_all_reduce_that_ends_on_all_hosts_gives_no_finding() -> None:
    assert not judge_reduction(stands("done", "done"), HOSTS, 20).findings


def test_one_that_hangs_says_who_came_how_far() -> None:
    (finding,) = judge_reduction(stands("gloo", "ready"), HOSTS, 20).findings
    assert (finding.code, finding.host, finding.ends) == ("NCCL007", "algo-2", True)
    assert "within 20 s: algo-1 was in the one over gloo; algo-2 waited for the others" in finding.text


def test_one_that_fails_says_why_in_its_own_words() -> None:
    stand = stands("nccl", "error", reason="DistBackendError: NCCL error: unhandled system error")
    (finding,) = judge_reduction(stand, HOSTS, 20).findings
    assert finding.host == "algo-2"
    assert "failed: DistBackendError: NCCL error: unhandled system error" in finding.text


def test_a_host_that_tells_nothing_is_the_one_that_is_behind() -> None:
    (finding,) = judge_reduction({"algo-1": {"stage": "gloo", "said": {}}}, HOSTS, 20).findings
    assert finding.host == "algo-2"
    assert "algo-2 did not answer" in finding.text


def test_of_a_host_alone_its_gpus_are_told_of() -> None:
    stand = {"algo-1": {"stage": "nccl", "said": {}}}
    (finding,) = judge_reduction(stand, HOSTS[:1], 20).findings
    assert (finding.code, finding.host) == ("NCCL007", "algo-1")
    assert finding.text.startswith("a short all-reduce between the host's GPUs was not done within 20 s: ")
    assert "algo-1 was in the one over NCCL" in finding.text
    assert "security group" not in finding.text
    late = {"algo-1": {"stage": "started", "said": {}}}
    (unknown,) = judge_ready(late, HOSTS[:1], 30).unknown
    assert unknown.startswith("the all-reduce between the GPUs (algo-1: ")

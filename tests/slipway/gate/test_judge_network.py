"""What is between the hosts is judged: who reaches whom, the all-reduce, NCCL's network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.gate.judge_host import HostFinding
from slipway.gate.judge_network import (
    can_meet,
    first_host_silent,
    judge_network,
    judge_pairs,
    judge_ready,
    judge_reduction,
    missing_hosts,
)

HOSTS = ("algo-1", "algo-2", "algo-3", "algo-4")
OK = {"ended": "ok", "offset": 0.0}
REFUSED = {"ended": "connection", "reason": "Connection refused", "address": "10.0.0.3:4711"}


def matrix(**changed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All is well but for the ways `a_b`, by the hosts' numbers."""
    return {a: {b: changed.get(f"way_{a[-1]}_{b[-1]}", OK) for b in HOSTS if b != a} for a in HOSTS}


def worst(told: dict[str, dict[str, Any]]) -> HostFinding:
    (finding,) = judge_pairs(told, HOSTS).findings
    return finding


def test_hosts_that_reach_each_other_give_no_finding() -> None:
    assert not judge_pairs(matrix(), HOSTS).findings


def test_one_direction_is_named_as_such_with_the_pair() -> None:
    finding = worst(matrix(way_2_3=REFUSED))
    assert (finding.code, finding.host, finding.ends) == ("NCCL007", "algo-2", True)
    assert "algo-2 cannot connect to algo-3 at 10.0.0.3:4711 (Connection refused)" in finding.text
    assert "while algo-3 does reach algo-2" in finding.text


def test_a_pair_that_is_cut_is_named_with_both_directions() -> None:
    finding = worst(matrix(way_2_3=REFUSED, way_3_2=REFUSED))
    assert "nor the other way round" in finding.text
    assert "more of the ways" not in finding.text


def test_a_host_that_nobody_reaches_is_the_one_at_fault() -> None:
    finding = worst(matrix(way_1_3=REFUSED, way_2_3=REFUSED, way_4_3=REFUSED))
    assert finding.host == "algo-3"
    assert "2 more of the ways between hosts" in finding.text


def test_a_name_that_does_not_resolve_is_told_from_a_connection_that_fails() -> None:
    way = {"ended": "name", "reason": "Name or service not known", "address": "algo-3"}
    finding = worst(matrix(way_1_3=way))
    assert "algo-1 cannot resolve the name algo-3 (Name or service not known)" in finding.text
    assert "DNS" in finding.text


def test_another_host_under_the_name_is_named() -> None:
    finding = worst(matrix(way_1_3={"ended": "stranger", "reason": "algo-9", "address": "10.0.0.3:1"}))
    assert "algo-1 reached algo-9 where algo-3 should be, at 10.0.0.3:1" in finding.text


def test_a_host_that_did_not_tell_is_not_known_to_reach_the_others() -> None:
    told = matrix()
    del told["algo-4"]
    assert judge_pairs(told, HOSTS).unknown == ("the ways from algo-4 (it did not tell them in time)",)


@pytest.mark.parametrize(("offset", "found"), [(4.9, False), (-4.9, False), (5.1, True), (-7200.0, True)])
def test_clocks_more_than_five_seconds_apart_are_told_and_end_nothing(offset: float, found: bool) -> None:
    told = matrix(
        way_1_3={"ended": "ok", "offset": offset},
        way_2_3={"ended": "ok", "offset": offset},
        way_4_3={"ended": "ok", "offset": offset},
        way_3_1={"ended": "ok", "offset": -offset},
        way_3_2={"ended": "ok", "offset": -offset},
    )
    findings = judge_pairs(told, HOSTS).findings
    assert [(each.host, each.ends) for each in findings] == ([("algo-3", False)] if found else [])
    if found:
        assert f"{abs(offset):.1f} s" in findings[0].text


def test_who_is_missing_is_called_by_name() -> None:
    first, second = missing_hosts(["algo-2", "algo-4"], HOSTS, 60.0, 7778)
    assert first.sentence.startswith("NCCL008 algo-2: did not answer the roll-call of 4 hosts within 60 s")
    assert second.host == "algo-4"
    assert second.text.endswith("look at its log, and whether it reaches port 7778 of algo-1")


def test_a_first_host_that_does_not_answer_is_called_by_name() -> None:
    finding = first_host_silent("algo-1", "10.0.0.1:7778 did not answer within 80 s (timed out)")
    assert finding.sentence.startswith("NCCL008 algo-1: the first host")
    assert "10.0.0.1:7778 did not answer within 80 s (timed out)" in finding.text


def stands(first: str, second: str, **said: Any) -> dict[str, dict[str, Any]]:
    return {"algo-1": {"stage": first, "said": {}}, "algo-2": {"stage": second, "said": said}}


def test_hosts_meet_only_when_all_are_ready() -> None:
    assert can_meet(stands("ready", "ready"), HOSTS[:2])
    assert not can_meet(stands("ready", "started"), HOSTS[:2])
    assert not can_meet({"algo-1": {"stage": "ready", "said": {}}}, HOSTS[:2])


def test_a_torch_that_is_not_there_or_slow_makes_it_unknown() -> None:
    missing = stands("ready", "error", reason="ModuleNotFoundError: No module named 'torch'")
    assert judge_ready(missing, HOSTS[:2], 30).unknown == (
        "the all-reduce between the hosts (algo-2: ModuleNotFoundError: No module named 'torch')",
    )
    slow = judge_ready(stands("ready", "started"), HOSTS[:2], 30)
    assert not slow.findings
    assert "algo-2: torch and the devices were not ready within 30 s" in slow.unknown[0]


def test_gpus_that_torch_cannot_use_end_the_job() -> None:
    reason = "The NVIDIA driver on your system is too old (found version 11040)."
    (finding,) = judge_ready(
        stands("ready", "without", reason=reason, cuda_fails=True), HOSTS[:2], 30
    ).findings
    assert (finding.code, finding.host, finding.ends) == ("IMG002", "algo-2", True)
    assert "too old (found version 11040)" in finding.text


def test_a_torch_without_cuda_on_a_host_with_gpus_is_told() -> None:
    said = {"reason": "torch 2.7.1+cpu is built without CUDA", "cpu_only": True}
    (finding,) = judge_ready(stands("ready", "without", **said), HOSTS[:2], 30).findings
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
    report = judge_ready(stands("ready", "ready", capability=capability, built=built), HOSTS[:2], 30)
    assert [(each.code, each.host, each.ends) for each in report.findings] == (
        [("IMG002", "algo-2", True)] if found else []
    )


def test_an_all_reduce_that_ends_on_all_hosts_gives_no_finding() -> None:
    assert not judge_reduction(stands("done", "done"), HOSTS[:2], 20).findings


def test_one_that_hangs_says_who_came_how_far() -> None:
    (finding,) = judge_reduction(stands("gloo", "ready"), HOSTS[:2], 20).findings
    assert (finding.code, finding.host, finding.ends) == ("NCCL007", "algo-2", True)
    assert "within 20 s: algo-1 was in the one over gloo; algo-2 waited for the others" in finding.text


def test_one_that_fails_says_why_in_its_own_words() -> None:
    stand = stands("nccl", "error", reason="DistBackendError: NCCL error: unhandled system error")
    (finding,) = judge_reduction(stand, HOSTS[:2], 20).findings
    assert finding.host == "algo-2"
    assert "failed: DistBackendError: NCCL error: unhandled system error" in finding.text


def test_a_host_that_tells_nothing_is_the_one_that_is_behind() -> None:
    (finding,) = judge_reduction({"algo-1": {"stage": "gloo", "said": {}}}, HOSTS[:2], 20).findings
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


EFA = ("rdmap0s6", "rdmap0s7", "rdmap0s8", "rdmap0s9")
LOGS = yaml.safe_load((Path(__file__).parent / "nccl_logs.yaml").read_text("utf-8"))
P = "algo-1:81:81 [0] NCCL INFO "


def test_sockets_on_a_host_with_efa_are_named_with_why_the_plugin_is_not_used() -> None:
    otherwise = []
    for row in LOGS:
        (finding,) = judge_network("algo-1", row["log"], EFA, 2).findings
        if (finding.code, finding.host, finding.ends) != ("EFA005", "algo-1", True):
            otherwise.append((row, finding))
        if row["why"] not in finding.text or "4 EFA devices" not in finding.text:
            otherwise.append((row, finding))
    assert otherwise == []


@pytest.mark.parametrize(
    "log",
    [
        f"{P}NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n{P}Using network Libfabric\n",
        f"{P}NET/OFI Selected Provider is efa (found 4 nics)\n{P}Using network AWS Libfabric\n",
    ],
)
def test_efa_in_use_gives_no_finding(log: str) -> None:
    report = judge_network("algo-1", log, EFA, 2)
    assert not report.findings
    assert not report.unknown


@pytest.mark.parametrize("provider", ["Provider is efa", "provider is efa, fabric is efa-direct"])
def test_cards_that_the_plugin_leaves_alone_are_counted(provider: str) -> None:
    log = f"{P}NET/OFI Selected {provider} (found 1 nics)\n{P}Using network Libfabric\n"
    (finding,) = judge_network("algo-2", log, EFA, 2).findings
    assert (finding.code, finding.host, finding.ends) == ("EFA005", "algo-2", True)
    assert "uses 1 of the 4 EFA devices of the host" in finding.text
    more = log.replace("found 1", "found 16")  # Where the plugin makes several of each card.
    assert not judge_network("algo-2", more, EFA, 2).findings


def test_a_host_with_fewer_cards_than_its_type_is_named() -> None:
    log = f"{P}NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n{P}Using network Libfabric\n"
    (finding,) = judge_network("algo-2", log, EFA, 2, efa_interfaces=32).findings
    assert (finding.code, finding.host) == ("EFA005", "algo-2")
    assert "has 4 of the 32 EFA devices of its type" in finding.text
    (finding,) = judge_network("algo-2", f"{P}Using network Socket\n", (), 2, efa_interfaces=4).findings
    assert "has 0 of the 4 EFA devices of its type" in finding.text
    assert not judge_network("algo-2", log, EFA, 2, efa_interfaces=4).findings
    assert not judge_network("algo-2", "", (), 1, efa_interfaces=4).findings


def test_sockets_are_right_without_efa_and_for_a_host_alone() -> None:
    assert not judge_network("algo-1", LOGS[0]["log"], (), 2).findings
    assert not judge_network("algo-1", LOGS[0]["log"], EFA, 1).findings


def test_a_log_without_a_word_about_the_network_is_said_not_to_say() -> None:
    assert judge_network("algo-1", "", EFA, 2).unknown == (
        "which network NCCL takes on algo-1 (its log does not say)",
    )


@pytest.mark.parametrize(
    "line",
    [
        # libfabric, efa_rdm_util.c; aws-ofi-nccl 1.1 to 1.16, nccl_ofi_sendrecv; from 1.9 on, nccl_ofi_rdma.
        "FI_EFA_USE_DEVICE_RDMA=1 was set by user, but EFA device has no rdma-read capability",
        "algo-1:9:9 [4] NCCL WARN NET/OFI Unable to register memory (type = 2) for device 4. RC: -22, Error: "
        "Invalid argument",
        "algo-1:9:9 [0] NCCL WARN NET/OFI Could not register memory on data rail 0 with flag 4",
    ],
)
def test_memory_that_efa_cannot_register_is_named_in_the_plugins_words(line: str) -> None:
    (finding,) = judge_network("algo-1", f"{P}NCCL version 2.21.5\n{line}\n", EFA, 2).findings
    assert finding.code == "EFA007"
    assert line[-30:] in finding.text

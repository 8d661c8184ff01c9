"""What the ranks say of their world: several that are each alone never met."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.ending import End, Ending
from launcher.diagnosis.model import Verdict
from launcher.diagnosis.record import Record, parse
from launcher.diagnosis.redaction import shown

STARTED = (
    "slipway: algo-1, host 1 of 2: train.py by torchrun, 2 per host, rendezvous algo-1:7777",
    "slipway: algo-2, host 2 of 2: train.py by torchrun, 2 per host, rendezvous algo-1:7777",
)


def of_ranks(text: str, ranks: int = 4, started: bool = True) -> list[Record]:
    """What each rank of two hosts prints, with `{rank}` in it filled in."""
    lines = [Record(None, f"algo-{host + 1}", STARTED[host]) for host in range(2) if started]
    each = ranks // 2
    return lines + [
        Record(None, f"algo-{rank // each + 1}", f"[rank{rank}]:{text.format(rank=rank)}")
        for rank in range(ranks)
    ]


ALONE = [
    "world size: 1",
    "world_size=1",
    "WORLD_SIZE=1",
    "INFO:root:World size 1",
    "2026-01-01 10:00:00,123 - train - INFO - world_size: 1",
    "[train.py:12] world size is 1, device cpu",
    "rank 0, world size 1",
    "Hello from rank 0 of 1",
    "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1",
    "Distributed environment: DistributedType.NO",
    "Distributed environment: NO",
    "WARNING - __main__ - Process rank: 0, device: cpu, n_gpu: 0, distributed training: False",
]


@pytest.mark.parametrize("text", ALONE)
@pytest.mark.parametrize("succeeded", [True, False])
def test_ranks_that_are_each_alone_never_met(text: str, succeeded: bool) -> None:
    diagnosis = diagnose(of_ranks(text), ending=Ending(End.COMPLETED if succeeded else End.FAILED))
    cause = diagnosis.root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank, cause.host) == ("DIST008", None, None)
    assert cause.finding.message == (
        "ranks 0, 1, 2, 3 of the 4 that were started each say that they are alone: independent trainings, "
        "not one"
    )
    assert cause.evidence == (shown(parse(text).text),)
    assert diagnosis.retry.value == "never"


TOGETHER = [
    "world size: 4",
    "rank {rank}, world size 4",
    "Hello from rank {rank} of 4",
    "Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: 1/4",
    "Distributed environment: DistributedType.MULTI_CPU",
    "Process rank: {rank}, device: cpu, n_gpu: 0, distributed training: True",
]

OTHER_WORLDS = [
    "tensor parallel world size: 1",
    "data_parallel_world_size=1",
    "initialized with pipeline world size 1",
    "Namespace(rank=0, world_size=1, lr=0.1)",
    "{{'rank': 0, 'world_size': 1}}",
    '"world_size": 1,',
    "cfg.world_size: 1",
    "world size 1.5 GB",
    "number of GPUs in the world 1",
    "rank 0 of 16",
    "best rank 0 of 1.5",
    "  world_size: 1",
]


@pytest.mark.parametrize("text", [*TOGETHER, *OTHER_WORLDS])
def test_ranks_that_met_and_other_worlds_are_no_such_sign(text: str) -> None:
    assert diagnose(of_ranks(text)).findings == ()


@pytest.mark.parametrize("together", TOGETHER)
def test_one_that_has_met_others_is_proof_enough(together: str) -> None:
    lines = [*of_ranks("world size: 1"), *of_ranks(together)]
    assert diagnose(lines).findings == ()


def test_one_process_that_is_alone_is_right() -> None:
    lines = [Record(None, "algo-1", f"[rank0]:{text}") for text in ALONE]
    assert diagnose(lines).findings == ()
    assert diagnose([Record(None, "algo-1", text) for text in ALONE]).findings == ()


def test_ranks_are_enough_to_know_that_there_are_several() -> None:
    cause = diagnose(of_ranks("world size: 1", ranks=2, started=False)).root_cause
    assert cause is not None
    assert cause.finding.message.startswith("ranks 0, 1 each say that they are alone")


def test_hosts_that_are_alone_may_be_two_jobs_unless_the_boot_says_otherwise() -> None:
    alone = [Record(None, host, "world size: 1") for host in ("algo-1", "algo-2")]
    assert diagnose(alone).root_cause is None
    cause = diagnose([Record(None, "algo-1", STARTED[0]), *alone]).root_cause
    assert cause is not None
    assert cause.finding.message.startswith("hosts algo-1, algo-2 of the 4 that were started each say")


def test_whatever_else_ended_the_job_is_its_cause() -> None:
    lines = [
        *of_ranks("world size: 1"),
        Record(None, "algo-2", "[rank3]:Traceback (most recent call last):"),
        Record(None, "algo-2", '[rank3]:  File "/opt/ml/code/train.py", line 3, in <module>'),
        Record(None, "algo-2", "[rank3]:KeyError: 'x'"),
    ]
    diagnosis = diagnose(lines)
    assert diagnosis.root_cause is not None
    assert diagnosis.root_cause.finding.code == "CODE001"


BOOT = (
    "slipway: DIST008 none of the 4 ranks ever met another one: they ran as independent programs, each of "
    "which was paid for → PyTorch: call torch.distributed.init_process_group() and wrap the model"
)
WARNING = (
    "slipway: warning: after 61 s none of the 4 ranks has met another one, and each would train for itself "
    "(DIST008, if it stays so) → PyTorch: call torch.distributed.init_process_group()"
)
LOST = (
    "slipway: CKPT007 nothing was saved where it is kept; what the script wrote elsewhere, 1 file (1.2 GB) "
    "such as out/ckpt.pt, dies with the host. Write to SM_MODEL_DIR"
)


@pytest.mark.parametrize("succeeded", [True, False])
def test_the_boots_word_is_the_cause_with_its_own_remedy(succeeded: bool) -> None:
    lines = [Record(None, "algo-1", line) for line in (STARTED[0], WARNING, BOOT)]
    diagnosis = diagnose(lines, ending=Ending(End.COMPLETED if succeeded else End.FAILED))
    assert diagnosis.root_cause is not None
    finding = diagnosis.root_cause.finding
    assert (finding.code, finding.message) == (
        "DIST008",
        "algo-1: none of the 4 ranks ever met another one: they ran as independent programs, each of which "
        "was paid for",
    )
    assert finding.remedy == "PyTorch: call torch.distributed.init_process_group() and wrap the model"
    assert [each.code for each in diagnosis.findings] == ["DIST008"]


def test_a_warning_on_the_way_and_lost_work_are_told_and_are_no_cause() -> None:
    lines = [Record(None, "algo-1", line) for line in (STARTED[0], WARNING, LOST)]
    diagnosis = diagnose(lines)
    assert diagnosis.root_cause is None
    assert [(each.code, each.severity.value, each.message) for each in diagnosis.findings] == [
        (
            "CKPT007",
            "warning",
            "algo-1: nothing was saved where it is kept; what the script wrote elsewhere, 1 file (1.2 GB) "
            "such as out/ckpt.pt, dies with the host",
        ),
        (
            "DIST008",
            "warning",
            "algo-1: after 61 s none of the 4 ranks has met another one, and each would train for itself",
        ),
    ]
    assert [each.remedy[:8] for each in diagnosis.findings] == ["Write to", "PyTorch:"]


def test_of_a_job_that_was_stopped_it_is_told_beside_the_stop() -> None:
    diagnosis = diagnose(of_ranks("world size: 1"), ending=Ending(End.STOPPED, "job"))
    assert diagnosis.verdict is Verdict.STOPPED
    assert [(each.code, each.severity.value) for each in diagnosis.findings][-1] == ("DIST008", "warning")

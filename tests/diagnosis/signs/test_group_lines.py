"""What lines tell of the ranks together: how large their world is, who claims a rank, who did not come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from launcher.diagnosis.diagnose import SuccessReader, diagnose
from launcher.diagnosis.logs.lines import Record, parse, shown
from launcher.diagnosis.model import Diagnosis, End, Ending, Verdict
from tests.diagnosis.cases import records

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


def read(*batches: list[Record]) -> list[tuple[str, str, str]]:
    reader = SuccessReader()
    for batch in batches:
        reader.read(batch)
    return [(each.code, each.severity.value, each.message) for each in reader.warnings]


def lines(*texts: str) -> list[Record]:
    return [Record(None, "algo-1", text) for text in texts]


def test_a_job_that_only_trains_is_not_warned_of() -> None:
    assert read(lines(STARTED[0], "epoch 1 loss 0.3"), of_ranks("world size: 4"), []) == []


def test_the_boots_word_on_ranks_and_work_is_a_warning_each_with_its_remedy() -> None:
    reader = SuccessReader()
    reader.read(lines(STARTED[0], "epoch 1"))
    reader.read(lines(BOOT))
    reader.read(lines(LOST, BOOT))
    assert [(each.code, each.severity.value, each.subject) for each in reader.warnings] == [
        ("DIST008", "warning", "algo-1"),
        ("CKPT007", "warning", "algo-1"),
    ]
    assert [each.remedy[:8] for each in reader.warnings] == ["PyTorch:", "Write to"]
    assert "die" not in reader.warnings[0].message


def test_so_are_ranks_that_are_each_alone_in_lines_that_come_one_by_one() -> None:
    assert read(*([line] for line in of_ranks("world size: 1"))) == [
        (
            "DIST008",
            "warning",
            "ranks 0, 1, 2, 3 of the 4 that were started each say that they are alone: independent "
            "trainings, not one",
        )
    ]


def test_a_warning_on_the_way_is_over_when_the_ranks_met() -> None:
    assert read(lines(STARTED[0], WARNING)) == []


TIMED_OUT = "torch.distributed.DistStoreError: wait timeout after 20000ms, keys: /default_pg/0//cpu//0/{key}"
INIT = (
    "{host}:88:141 [{device}] NCCL INFO ncclCommInitRank comm 0x55d0{device} rank {rank} nranks 4 "
    "cudaDev {device} nvmlDev {device} busId 1{device}1d0 commId {identity} - Init START"
)


def member(rank: int, size: int = 4) -> str:
    return f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{size}"


def diagnosis(lines: Iterable[tuple[str, str]]) -> Diagnosis:
    return diagnose([Record(None, host, line, host) for host, line in lines])


def code(found: Diagnosis) -> str | None:
    return None if found.root_cause is None else found.root_cause.finding.code


def waiting_for(key: int, ranks: Iterable[int]) -> list[tuple[str, str]]:
    return [(f"algo-{1 + rank // 2}", f"[rank{rank}]:{TIMED_OUT.format(key=key)}") for rank in ranks]


def test_a_rank_that_waits_for_itself_joined_as_another_one() -> None:
    found = diagnosis(waiting_for(2, range(4)))
    assert found.root_cause is not None
    assert (code(found), found.root_cause.finding.subject) == ("DIST007", "rank 2")
    assert found.root_cause.finding.message == (
        "rank 2 on algo-2: waited in vain for rank 2, which it is itself: it joined under another rank"
    )


def test_a_rank_for_which_only_others_wait_is_missing() -> None:
    assert code(diagnosis(waiting_for(2, (0, 1, 3)))) == "NCCL008"


def test_in_a_group_of_some_ranks_the_numbers_are_others() -> None:
    of_group = [(host, line.replace("//cpu", "//2//cpu")) for host, line in waiting_for(2, range(4))]
    assert code(diagnosis(of_group)) == "NCCL008"


def test_ranks_that_two_hosts_announce_are_named_with_them() -> None:
    found = diagnosis((host, member(rank)) for host in ("algo-1", "algo-2") for rank in (0, 1))
    assert found.root_cause is not None
    assert code(found) == "DIST007"
    assert found.root_cause.finding.message == (
        "ranks 0, 1 of 4 are each claimed by more than one host: algo-1, algo-2"
    )


def test_hosts_that_announce_all_ranks_have_a_world_each() -> None:
    assert (
        code(diagnosis((host, member(rank, 2)) for host in ("algo-1", "algo-2") for rank in (0, 1))) is None
    )


def test_each_rank_once_is_as_it_should_be() -> None:
    assert code(diagnosis((f"algo-{1 + rank // 2}", member(rank)) for rank in range(4))) is None


@pytest.mark.parametrize(
    ("ranks", "wanted"),
    [((0, 0, 1, 1), "DIST007"), ((0, 1, 0, 1), "DIST007"), ((0, 1), None), ((0, 0, 1), None)],
)
@pytest.mark.parametrize("also", [(), (2, 3)])
def test_without_hosts_a_part_of_the_ranks_comes_as_often_as_there_are_parts(
    ranks: tuple[int, ...], wanted: str | None, also: tuple[int, ...]
) -> None:
    found = diagnosis(("", member(rank)) for rank in (*ranks, *also))
    assert code(found) == (None if also else wanted)


def test_one_communicator_has_each_rank_once() -> None:
    def lines(identities: tuple[str, str]) -> list[tuple[str, str]]:
        return [
            (f"algo-{1 + host}", INIT.format(host=f"algo-{1 + host}", device=n, rank=n, identity=identity))
            for host, identity in enumerate(identities)
            for n in range(2)
        ]

    started = lines(("0x9c1", "0x9c1"))
    assert code(diagnosis(started)) == "DIST007"
    assert code(diagnosis(lines(("0x9c1", "0x77f")))) is None
    complete = [(host, line.replace("START", "COMPLETE")) for host, line in started]
    assert code(diagnosis(started + complete)) is None
    split = [(host, line.replace("commId", "parent 0x5 color 1 key 0 commId")) for host, line in started]
    assert code(diagnosis(split)) is None


def test_after_a_start_anew_ranks_may_be_on_other_hosts() -> None:
    first = [(f"algo-{1 + rank}", member(rank, 3)) for rank in range(2)]
    again = [(f"algo-{2 - rank}", member(rank, 3)) for rank in range(2)]
    start = "INFO torch.distributed.elastic.agent.server.api:[default] Restarting worker group"
    assert code(diagnosis([*first, *again])) == "DIST007"
    restarts = [(host, start) for host in ("algo-1", "algo-2")]
    assert diagnosis([*first, *restarts, *again]).verdict is not Verdict.FAILED


def waits(rank: int, came: int, prefix: str = "[rank{}]: ") -> str:
    return prefix.format(rank) + (
        f"INFO Waiting in store based barrier to initialize process group for rank: {rank}, "
        f"key: store_based_barrier_key:1 (world_size=4, worker_count={came}, timeout=0:30:00)"
    )


def told(lines: Sequence[str]) -> tuple[Verdict, str]:
    found = diagnose([Record(None, "algo-1", line, "algo-1") for line in lines])
    return found.verdict, found.summary or ""


@pytest.mark.parametrize("prefix", ["[rank{}]: ", ""])
def test_the_rank_for_which_all_others_wait_is_named(prefix: str) -> None:
    verdict, summary = told([waits(rank, 3, prefix) for rank in (0, 1, 3)] * 3)
    assert verdict is Verdict.UNKNOWN
    assert "3 of 4 ranks wait at the store for their process group to be made; rank 2 did not come" in summary


def test_what_the_missing_rank_printed_last_changes_nothing() -> None:
    lines = [waits(rank, 3) for rank in (0, 1, 3)] + ["[rank2]: INFO loading the dataset"]
    assert "rank 2 did not come" in told(lines)[1]


def test_nobody_is_named_where_the_log_lacks_some_who_came() -> None:
    verdict, summary = told([waits(rank, 3) for rank in (0, 1)])
    assert verdict is Verdict.UNKNOWN
    assert "3 of 4 ranks wait" in summary
    assert "did not come" not in summary


@pytest.mark.parametrize(
    "lines",
    [
        [waits(rank, 4) for rank in range(4)],
        [
            *(waits(rank, 3) for rank in (0, 1, 3)),
            *(f"[rank{rank}]: INFO the model is built" for rank in range(4)),
        ],
        [*(waits(rank, 3, "") for rank in (0, 1, 3)), "INFO the model is built"],
    ],
    ids=["all came", "each went on", "somebody without a name went on"],
)
def test_of_ranks_that_came_or_went_on_nothing_is_said(lines: Sequence[str]) -> None:
    assert "wait at the store" not in told(lines)[1]


def refused(error: str) -> str:
    return f"[W socket.cpp:697] [c10d] The client socket has failed to connect to 10.0.0.5:7777 ({error})."


@pytest.mark.parametrize("error", ["errno: 110 - Connection timed out", "errno: 113 - No route to host"])
def test_a_store_that_nobody_reaches_to_the_end_is_the_root_cause(error: str) -> None:
    found = diagnose([Record(None, "algo-2", line, "algo-2") for line in [refused(error)] * 3])
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "NCCL008"
    assert (
        f"could not reach the store at 10.0.0.5:7777: {error.removeprefix('errno: ')}"
        in found.root_cause.finding.message
    )


@pytest.mark.parametrize(
    "lines",
    [
        [refused("errno: 110 - Connection timed out"), "INFO the model is built"],
        [refused("errno: 111 - Connection refused")],
        [refused("errno: 97 - Address family not supported by protocol")],
    ],
    ids=["reached", "not up yet", "no IPv6"],
)
def test_a_store_that_is_reached_later_or_not_up_yet_is_no_root_cause(lines: Sequence[str]) -> None:
    assert diagnose([Record(None, "algo-2", line, "algo-2") for line in lines]).root_cause is None


STEPS = "\n".join(f"[rank0]: step {step} loss 2.0" for step in range(40))
WAITS = (
    "[rank0]:[E820 11:30:44.1 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=31117, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for "
    "600061 milliseconds before timing out."
)
FIELDS = """internal record id: 31116
group info: 0:default_pg
collective: nccl:all_reduce
missing ranks: {ranks}
input sizes: [[1571911]]
output sizes: [[1571911]]
world size: 8
expected ranks: {{0, 1, 2, 3, 4, 5, 6, 7}}"""
HEADS = (
    "Not all ranks joining collective: sequence number: 31117",
    "Not all ranks joining collective, sequence number: 31117",
    "Not all ranks joining collective 31117 at entry 31116",
)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("before", ["", WAITS])
def test_the_rank_that_did_not_join_is_named(head: str, before: str) -> None:
    lines = "\n".join([STEPS, *([before] if before else []), head, FIELDS.format(ranks="{3}")])
    cause = diagnose(records(lines)).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank, cause.finding.subject) == ("NCCL004", 3, "rank 3")
    assert "has not joined nccl:all_reduce #31117, in which the others wait" in cause.finding.message


def test_of_several_ranks_nobody_is_named_alone() -> None:
    cause = diagnose(records(f"{STEPS}\n{HEADS[0]}\n{FIELDS.format(ranks='{3, 4, 5, 6, 7}')}")).root_cause
    assert cause is not None
    assert cause.rank is None
    assert "ranks 3, 4, 5, 6, 7 have not joined" in cause.finding.message


def test_lines_of_other_ranks_may_stand_between_the_fields() -> None:
    said = ("Not all ranks joining collective, sequence number: 4", "collective: nccl:all_reduce")
    lines: list[str] = []
    for line in (*said, "missing ranks: {1}"):
        lines += [f"[rank0]: {line}", "[rank1]: step 9 loss 2.0"]
    cause = diagnose([Record(None, "algo-1", line) for line in lines]).root_cause
    assert cause is not None
    assert cause.rank == 1


def test_the_rank_that_called_something_else_is_named() -> None:
    said = (
        "error msg: Culprit rank 2; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: "
        "'all_reduce' does not match found collective type: 'broadcast'"
    )
    cause = diagnose(records(f"{STEPS}\n{said}")).root_cause
    assert cause is not None
    assert cause.rank == 2
    assert "differs from the others in a collective (collective type mismatch" in cause.finding.message


def test_ranks_that_join_later_were_only_slow() -> None:
    said = f"{HEADS[1]}\n{FIELDS.format(ranks='{1}')}"
    later = "\n".join(f"[rank0]: step {step} loss 2.0" for step in range(40, 80))
    assert diagnose(records(f"{STEPS}\n{said}\n{later}")).verdict is Verdict.HEALTHY


def test_what_only_resembles_it_is_nothing() -> None:
    lines = f"{STEPS}\nNot all ranks joining collective calls is a bug\nINFO the culprit rank is unknown\n"
    assert diagnose(records(lines + "[rank0]: step 41 loss 2.0")).verdict is Verdict.HEALTHY

"""What lines tell of the ranks together: how large their world is, who claims a rank, who did not come."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from launcher.diagnosis.diagnose import SuccessReader, diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import Diagnosis

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


NOT_FINITE = (
    "slipway: warning: NUM001 rank 0 on algo-1 prints a loss that is not finite, twice in a row: loss nan"
)
WAITS = (
    "slipway: warning: NCCL004 rank 2 on algo-2 has not entered all_reduce #21 [4160] (train.py:27), in "
    "which ranks 0, 1, 3 wait; it is at train.py:33, process state S"
)
GETS_ON = "slipway: the ranks get on again, after NCCL004 was told"


def test_losses_that_were_not_finite_are_said_of_a_job_that_completed_and_of_one_that_runs() -> None:
    reader = SuccessReader()
    reader.read(lines("loss 0.3", NOT_FINITE))
    assert [(each.code, each.severity.value) for each in reader.warnings] == [("NUM001", "warning")]
    assert [each.code for each in reader.standing] == ["NUM001"]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (
            "WARNING:load:unexpected keys: ['module.body.weight', 'module.body.bias']",
            "CKPT005",
            "of the checkpoint nothing was loaded that has a wrapper in its key: module.",
        ),
        (
            "<All but>_IncompatibleKeys(missing_keys=['fc.weight'], unexpected_keys=['ema.fc.weight'])",
            "CKPT005",
            "the checkpoint was loaded with strict=False, and none of its keys fits: they begin with 'ema.', "
            "which the model's do not",
        ),
        (
            "train.py:9: UserWarning: 2 process(es) on a host with 8 GPUs: GPUs [2, 3] are not used",
            "DIST001",
            "2 process(es) on a host with 8 GPUs: GPUs [2, 3] are not used",
        ),
    ],
    ids=["a wrapper's keys", "strict=False", "idle GPUs"],
)
def test_what_a_script_says_itself_against_its_success_is_a_warning(
    line: str, code: str, message: str
) -> None:
    assert read(lines("epoch 1"), lines(line, line)) == [(code, "warning", message)]


@pytest.mark.parametrize(
    "line",
    [
        "WARNING:load:unexpected keys: ['head.weight', 'head.bias']",
        "WARNING:load:missing keys: ['module.body.weight']",
        "8 processes on a host with 8 GPUs, none of them idle",
        "16 workers for 8 GPUs, 3 of them idle",
    ],
)
def test_of_what_may_well_be_meant_there_is_no_warning(line: str) -> None:
    assert read(lines(line)) == []


def test_what_the_watchdog_warns_of_stands_until_it_is_taken_back_and_is_none_of_a_success() -> None:
    reader = SuccessReader()
    reader.read(lines(WAITS))
    (standing,) = reader.standing
    assert standing.code == "NCCL004"
    assert "rank 2 on algo-2 has not entered all_reduce" in standing.message
    reader.read(lines(GETS_ON))
    assert (reader.standing, reader.warnings) == ((), ())


def diagnosis(lines: Iterable[tuple[str, str]]) -> Diagnosis:
    return diagnose([Record(None, host, line, host) for host, line in lines])

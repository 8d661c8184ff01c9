"""What the lines of a completed job say against its success, read as they come."""

from __future__ import annotations

from launcher.diagnosis.completed import SuccessReader
from launcher.diagnosis.record import Record
from tests.diagnosis.test_world_size import BOOT, LOST, STARTED, WARNING, of_ranks


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

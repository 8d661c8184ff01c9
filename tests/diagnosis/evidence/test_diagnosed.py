"""What the files of a job besides its logs make of the diagnosis."""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.found import NO_DUMP, together
from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.model import Verdict
from launcher.diagnosis.record import Record
from tests.diagnosis.evidence.recorders import recorded
from tests.diagnosis.stories import raised, root


def test_dumps_alone_name_the_rank_and_the_collective() -> None:
    cause = diagnose([], evidence=[FileEvidence(recordings=(each,)) for each in recorded("op")]).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == ("NCCL004", 2)
    assert "called broadcast #6 [3] (train.py:24 in <module>)" in cause.finding.message
    assert "where ranks 0, 1, 3 wait in all_reduce #6 [4160] (train.py:34 in step)" in cause.finding.message


def test_an_exception_in_the_log_is_the_cause_and_the_dumps_what_followed() -> None:
    lines = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/opt/ml/code/train.py", line 3, in <module>',
        "[rank1]: KeyError: 'label'",
    ]
    evidence = [FileEvidence(recordings=(each,)) for each in recorded("never")]
    found = diagnose([Record(None, "algo-1", line) for line in lines], evidence=evidence)
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("CODE001", 1)
    assert "NCCL004" in [each.code for each in found.consequences]


def test_dumps_of_a_job_that_stands_still_by_nobody_name_no_rank() -> None:
    cause = diagnose([], evidence=[FileEvidence(recordings=(recorded("never")[0],))]).root_cause
    assert cause is not None
    assert cause.rank is None


def test_the_dump_of_one_that_waits_hides_no_rank_that_ended_without_a_word() -> None:
    closed = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:398"
    lines = [
        *(Record(None, "algo-1", line) for line in raised(0, closed, "loss.backward()").split("\n")),
        Record(None, "algo-2", "Root Cause (first observed failure):"),
        *(
            Record(None, "algo-2", line)
            for line in ("[0]:", "  rank      : 2 (local_rank: 0)", "  exitcode  : 3 (pid: 7)")
        ),
    ]
    found = diagnose(lines, evidence=[FileEvidence(recordings=(recorded("exit")[0],))])
    assert root(found) == ("CODE001", 2)


def test_every_rank_has_a_row_also_the_one_without_a_dump() -> None:
    found = together(FileEvidence(recordings=(each,)) for each in recorded("exit"))
    assert found.world_size == 4
    rows = {row.rank: row for row in found.rows}
    assert rows[0].enqueued is not None
    assert (rows[0].enqueued.name, rows[0].enqueued.sequence) == ("all_reduce", 6)
    assert rows[0].frame == "train.py:34 in step"
    assert rows[2].state == NO_DUMP


def test_nothing_fails_by_no_evidence_and_nothing_is_well_by_it() -> None:
    found = diagnose([], evidence=[])
    assert (found.verdict, found.root_cause) == (Verdict.UNKNOWN, None)

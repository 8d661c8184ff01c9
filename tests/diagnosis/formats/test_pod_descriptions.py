"""A pod's description tells how its containers ended: that is the pod's end, not the file's."""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.formats.blocks import lines_of
from launcher.diagnosis.formats.detection import format_of
from launcher.diagnosis.record import Record

DESCRIBED = """\
Name:             trainer-{pod}
Namespace:        train
Containers:
  pytorch:
    State:          Terminated
      Reason:       {reason}
      Exit Code:    {code}
    Restart Count:  0
"""


def read(text: str) -> list[Record]:
    content = text.encode()
    lines = lines_of(format_of(content).as_text([content]))
    return [Record(None, "describe.txt", line) for line in lines]


def test_a_pod_that_crashed_is_named_with_its_signal() -> None:
    cause = diagnose(read(DESCRIBED.format(pod=2, reason="Error", code=139))).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.host) == ("CODE004", "trainer-2")


def test_of_several_pods_the_one_that_was_killed_is_named() -> None:
    text = DESCRIBED.format(pod=0, reason="Completed", code=0) + "\n\n"
    cause = diagnose(read(text + DESCRIBED.format(pod=1, reason="OOMKilled", code=137))).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.host) == ("MEM002", "trainer-1")


def test_a_name_alone_makes_no_description() -> None:
    assert [each.text for each in read("Name:    trainer-0\nstep 1 loss 2\n")] == [
        "Name:    trainer-0",
        "step 1 loss 2",
    ]

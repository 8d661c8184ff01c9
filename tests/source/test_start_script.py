"""Shell scripts that start trainings: what they start, and what that has of them."""

from __future__ import annotations

import pytest

from launcher.source.start_script import read_batch_script


def test_the_same_start_in_two_branches_is_one_job() -> None:
    text = "if [ -f x ]; then\n  srun torchrun train.py\nelse\n  srun torchrun train.py\nfi\n"
    assert len(read_batch_script(text).jobs) == 1


def test_each_start_is_told_as_well() -> None:
    text = "A=1 torchrun train.py\ntorchrun train.py\n"
    assert [sorted(each.environment) for each in read_batch_script(text).starts] == [["A"], []]


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("torchrun train.py\n", "train.py"),
        ("cd src\ntorchrun ./train.py\npython train.py\n", "src/train.py"),
        ("torchrun -m pkg.train\n", "pkg/train.py"),
        ("torchrun train.py\ntorchrun other.py\n", None),
        ("torchrun $SCRIPT\n", None),
        ("cd $(dirname $0)\ntorchrun train.py\n", None),
        ("torchrun /opt/train.py\n", None),
        ("torchrun ../train.py\n", None),
        ("bash inner.sh\n", None),
    ],
)
def test_the_only_program_that_it_starts(text: str, program: str | None) -> None:
    assert read_batch_script(text).only_program == program


@pytest.mark.parametrize(
    ("text", "handed_on"),
    [
        ("export A=1 B=$X\ntorchrun train.py\n", [("A", "1")]),
        ("A=1\nexport A\nA=2\ntorchrun train.py\n", [("A", "2")]),
        ("export A=1\nunset A\ntorchrun train.py\n", []),
        ("if [ -f x ]; then export A=1; fi\ntorchrun train.py\n", []),
        ("export A=1\nif [ -f x ]; then unset A; fi\ntorchrun train.py\n", []),
        ("A=1\nif [ -f x ]; then export A; fi\ntorchrun train.py\n", []),
        ("torchrun train.py\nexport A=1\n", []),
        ("A=1 torchrun train.py\n", [("A", "1")]),
        ("export A=1\nA=2 torchrun train.py\n", [("A", "2")]),
        ("export A=1\n./train\n", [("A", "1")]),
    ],
)
def test_the_variables_that_it_hands_on(text: str, handed_on: list[tuple[str, str]]) -> None:
    assert [(name, value) for name, value, _ in read_batch_script(text).handed_on()] == handed_on

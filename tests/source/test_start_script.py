"""Shell scripts that start trainings: what they start, and what that has of them."""

from __future__ import annotations

import pytest

from launcher.source.shell_text import Word, variables_of_words
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


@pytest.mark.parametrize(
    ("text", "words", "arguments"),
    [
        ("torchrun train.py --config $1 ${2:-big}\n", ["a.yaml"], ["--config", "a.yaml", "big"]),
        ('torchrun train.py "$@"\n', ["a b", "c"], ["a b", "c"]),
        (
            "torchrun train.py $1 --launcher pytorch ${@:3}\n",
            ["a", "8", "--x"],
            ["a", "--launcher", "pytorch", "--x"],
        ),
        ("config=$1\nshift\ntorchrun train.py $config $1 $#\n", ["a", "b"], ["a", "b", "1"]),
        ("if [ -f x ]; then shift; fi\ntorchrun train.py $1\n", ["a", "b"], ["$1 is open"]),
        ("shift 1\ntorchrun train.py $2\n", ["a"], []),
        ("set -e\ntorchrun train.py $1\n", ["a"], ["a"]),
        ("set -- x\ntorchrun train.py $1\n", ["a"], ["$1 is open"]),
    ],
)
def test_the_words_that_it_is_given_reach_what_it_starts(
    text: str, words: list[str], arguments: list[str]
) -> None:
    (job,) = read_batch_script(text, variables_of_words(list(map(Word, words)))).jobs
    shown = [f"{each.text} is open" if each.is_open else each.text for each in job.start.arguments]
    assert [each for each in shown if each] == arguments


def test_words_that_nobody_tells_are_open() -> None:
    (job,) = read_batch_script("torchrun train.py $1 ${2:-8} $@\n").jobs
    assert all(each.is_open for each in job.start.arguments)

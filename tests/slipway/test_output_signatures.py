"""The container says of an output what `launch diagnose` says of the same lines."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record, shown
from launcher.diagnosis.match.rows import rows_matching as rows_of_the_diagnosis
from launcher.diagnosis.model import RootCause
from launcher.diagnosis.signatures import CONTEXTS, SIGNATURES, Signature
from slipway.failure import judge_output
from slipway.output_signatures import lines_of, root_sign_of, rows_matching, table
from tests.diagnosis.cases import cases
from tools.generate import boot_signatures as generator
from tools.generate.generated import command_of

LOGS = {case.name: case.text for case in cases()}
WHO = re.compile(r"^(?:rank \d+(?: on [\w.-]+)?: |[\w.-]+: )")


def diagnosed(output: str) -> RootCause | None:
    return diagnose([Record(None, "", line) for line in output.split("\n")]).root_cause


def test_the_table_is_current() -> None:
    assert generator.TABLE.read_text("utf-8") == generator.generated()[generator.TABLE]


def test_an_example_is_called_what_the_diagnosis_calls_it() -> None:
    different = [row.example for row in generator.ROWS if not is_called_alike(row)]
    assert different == []


def is_called_alike(row: Signature) -> bool:
    root, evidence = diagnosed(row.example), judge_output(row.example, 1, "/opt/ml/code")
    if root is None:
        return evidence.code == "CODE001"  # The process failed, and nothing says of what.
    if row.code == "STOP001":
        # What the diagnosis says of a stop it puts together from more than the line.
        return evidence.code == root.finding.code
    message, told = shown(evidence.message), root.finding.message
    return (
        evidence.code == root.finding.code
        and (told in (message, f"{root.host}: {message}") or message == WHO.sub("", told))
        # Where the words name a rank, that one failed, and not the one that printed them.
        and evidence.rank in (None, root.rank)
    )


def test_a_near_miss_is_called_what_the_diagnosis_calls_it() -> None:
    different = []
    for row in generator.ROWS:
        root = diagnosed(row.near_miss)
        if judge_output(row.near_miss, 1, "/opt/ml/code").code != (root.finding.code if root else "CODE001"):
            different.append(row.near_miss)
    assert different == []


@pytest.mark.parametrize(
    "context", [each for each in CONTEXTS if each.symptoms], ids=lambda context: context.mode.code
)
def test_a_line_shortly_before_a_symptom_tells_what_it_meant(context) -> None:
    symptom = next(
        row for row in SIGNATURES if row.mode in context.symptoms and row.role.value in ("symptom", "cascade")
    )
    output = f"{context.example}\nstep 3\n{symptom.example}"
    root = diagnosed(output)
    assert root is not None
    assert judge_output(output, 1, "/opt/ml/code").code == root.finding.code == context.mode.code
    far = context.example + "\nstep" * 13 + f"\n{symptom.example}"
    assert judge_output(far, 1, "/opt/ml/code").code == symptom.code


def test_each_row_finds_the_same_lines_with_the_same_words_as_in_the_diagnosis() -> None:
    different = {}
    for name, text in LOGS.items():
        for line in lines_of(text):
            wanted = [(row.code, captured) for row, captured in rows_of_the_diagnosis(line.text)]
            found = [(row.code, captured) for row, captured in rows_matching(line.text)]
            if found != wanted:
                different[name, line.text] = (found, wanted)
    assert different == {}


def test_a_pattern_is_written_as_old_pythons_know_it_and_takes_no_more_time() -> None:
    rewritten = generator.old_spelling(r"a++b|(?>c.*?d)e|\d*+[)(+]{2}+(?P<x>f?+)")
    assert "++" not in rewritten
    assert "(?>" not in rewritten
    pattern = re.compile(rewritten)
    for text, found in [("aab", True), ("cxde", True), ("cxdxde", False), ("12(+f", True), ("b", False)]:
        assert bool(pattern.fullmatch(text)) == found, text
    assert bool(re.fullmatch(r"a++b|(?>c.*?d)e|\d*+[)(+]{2}+(?P<x>f?+)", "cxdxde")) is False
    with pytest.raises(ValueError, match="parenthesis"):
        generator.old_spelling("a)")


def test_all_patterns_are_plain_enough_for_python_3_8() -> None:
    newer = re.compile(r"(?<!\\)(?:[*+?}]\+|\(\?>)")
    for row in (*table().rows, *table().contexts):
        assert not newer.search(re.sub(r"\[[^\]]*\]", "", row.pattern)), row.pattern
    assert len(table().rows) == len(generator.ROWS)


def test_an_error_that_was_dealt_with_is_not_the_cause() -> None:
    output = "CUDA out of memory. Tried to allocate 2.00 GiB, retrying with half the batch\nexited"
    assert judge_output(output, 1, "/opt/ml/code").code == "CODE001"


def test_a_mere_mention_long_before_the_end_was_survived() -> None:
    mention = next(row for row in table().rows if row.code == "NCCL006" and row.vague)
    example = next(row for row in SIGNATURES if row.literal == mention.literal).example
    assert judge_output(example, 1, "").code == "NCCL006"
    assert judge_output(example + "\nstep" * 600, 1, "").code == "CODE001"


def test_the_end_of_a_long_output_is_judged_quickly() -> None:
    """256 KB, as much as is kept: a log over and over, and one whose every line has to be looked at."""
    everything = "\n".join(LOGS.values())
    tail = (everything * (1 + 262_144 // len(everything)))[:262_144]
    lines = lines_of(tail)
    table(), root_sign_of(lines)  # the patterns are compiled once
    began = time.process_time()
    root_sign_of(lines)
    assert time.process_time() - began < 2.0


def test_the_table_is_small() -> None:
    assert Path(generator.TABLE).stat().st_size < 220_000
    assert json.loads(generator.TABLE.read_text("utf-8"))["generated_by"] == command_of("boot_signatures")

"""Cluster files as people write them: those that are valid are deployable, the others are told what is wrong.

A refused file ends with what is to be said of it: its line where that is fixed, the code, and words of the
sentence. Each has one mistake, so one problem is told.
"""

from __future__ import annotations

import re
from pathlib import Path

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks
from constructs.slipway_checks import SlipwayChecks

from launcher.cluster.files import ClusterFileError, load_cluster_file
from stacks.slipway_app import add_stacks
from tests.stacks.synthesis import new_app

FILES = Path(__file__).parent / "files"
VALID = sorted((FILES / "valid").glob("*.yaml"))
REFUSED = sorted((FILES / "refused").glob("*.yaml"))

EXPECTED = re.compile(r"^# refused: (?:line (?P<line>\d+) )?(?P<code>[A-Z]+\d+) (?P<words>.+)$", re.MULTILINE)


@pytest.mark.few_cases(every=4)
@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_file_synthesizes_and_passes_every_check(path: Path) -> None:
    spec = load_cluster_file(path)
    app = new_app()
    add_stacks(app, spec)
    hosts = {each.instance_type: each.count for each in spec.hosts}
    packs = (AwsSolutionsChecks(app), SlipwayChecks(app, hosts=hosts))
    cdk.Validations.of(app).add_plugins(*packs)

    app.synth()  # raises where the CDK's own validation or one of the packs finds something


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_mistake_is_told_by_line_code_and_sentence(path: Path) -> None:
    expected = EXPECTED.search(path.read_text("utf-8"))
    assert expected, "the file does not say what is expected"

    with pytest.raises(ClusterFileError) as caught:
        load_cluster_file(path)

    (problem,) = caught.value.problems
    told = re.match(rf"{re.escape(str(path))}:(\d+):\d+: (\w+) (.*)", problem, re.DOTALL)
    assert told, problem
    line, code, sentence = told.groups()
    assert (expected["line"] or line, expected["code"]) == (line, code)
    assert [word for word in expected["words"].split() if word not in sentence] == []
    assert re.search(r"\. \S", sentence), "no remedy is told"


def test_there_are_files_of_both_kinds() -> None:
    assert len(VALID) + len(REFUSED) >= 80

"""Instance types outside of the API's enum (SPEC004), the job's own and the others that it may try."""

from __future__ import annotations

import pytest

KNOWN = "ml.p4d.24xlarge"


@pytest.mark.parametrize(
    ("resources", "subjects"),
    [
        ({"instance_type": KNOWN, "instance_types": ["ml.p5.48xlarge"]}, []),
        ({"instance_type": "ml.p4d.25xlarge"}, ["resources.instance_type"]),
        (
            {"instance_type": KNOWN, "instance_types": ["ml.p5.48xlarge", "ml.p5.49xlarge"]},
            ["resources.instance_types.1"],
        ),
    ],
)
def test_an_unknown_type_is_named_at_its_place(judge, resources: dict, subjects: list[str]) -> None:
    found = judge("SPEC004", resources=resources)
    assert [finding.subject for finding in found] == subjects
    assert all("Did you mean ml.p" in finding.remedy for finding in found)


def test_another_type_stands_at_its_own_line(judge) -> None:
    resources = {"instance_type": KNOWN, "instance_types": ["ml.p5.48xlarge", "ml.p5.49xlarge"]}
    first = judge("SPEC004", resources={"instance_type": "ml.p4d.25xlarge"})
    (later,) = judge("SPEC004", resources=resources)
    assert later.location.line > first[0].location.line


@pytest.mark.parametrize(
    ("types", "choice", "retries", "found"),
    [
        (["ml.p4de.24xlarge"], "launcher", 0, "info"),
        (["ml.p4de.24xlarge"], "launcher", 2, None),
        (["ml.p4de.24xlarge"], "service", 0, None),
        ([], "launcher", 0, None),
    ],
)
def test_other_types_without_retries_are_an_information(
    severity_of, types: list[str], choice: str, retries: int, found: str | None
) -> None:
    resources = {"instance_type": KNOWN, "instance_types": types, "instance_choice": choice}
    assert severity_of("SPEC003", resources=resources, limits={"max_retries": retries}) == found

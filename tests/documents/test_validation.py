"""A document against its model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, get_args

import pytest
from pydantic import BaseModel, Field

from launcher.cluster.specification import ClusterSpec
from launcher.documents.document import parse_document
from launcher.documents.validation import FilePart, validate
from launcher.jobs.specification import JobSpec


class Sample(FilePart):
    """Every form in which a field takes numbers or truth values."""

    whole: int = 1
    real: Annotated[float, Field(ge=0)] | None = None
    many: list[int] = Field([])
    named: dict[str, Annotated[float, Field(le=9)]] = Field({})
    either: bool | int = 0
    switch: bool = False
    anything: Any = None
    choices: list[dict[str, int]] = Field([])
    zone: Annotated[str, Field(pattern="^[a-z]{2}$")] = Field("ab", description="Such as ab.")


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("whole: true", "whole"),
        ("whole: False", "whole"),
        ("real: true", "real"),
        ("many: [1, true]", "many.1"),
        ("named: {a: 1, b: false}", "named.b"),
        ("choices: [{a: 1}, {a: true}]", "choices.1.a"),
    ],
)
def test_a_truth_value_is_not_a_number(text: str, subject: str) -> None:
    read, findings = validate(Sample, parse_document(text, "file.yaml", ()))
    assert read is None
    assert [(found.code, found.subject) for found in findings] == [("SPEC003", subject)]
    assert "is a truth value, not a number" in findings[0].message


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("switch: maybe", "`switch`: must be true or false, not 'maybe'", "Correct the value of `switch`."),
        ("many: true", "`many`: must be a list, not true", "Correct the value of `many`."),
        ("zone: USA", "`zone`: 'USA' does not have the form", "Correct the value of `zone`: Such as ab."),
    ],
)
def test_what_a_value_must_be_is_said_in_the_files_own_words(text: str, message: str, remedy: str) -> None:
    (finding,) = validate(Sample, parse_document(text, "file.yaml", ()))[1]
    assert message in finding.message
    assert finding.remedy == remedy


@pytest.mark.parametrize("text", ["whole: 1", "either: true", "switch: true", "anything: true", "real: ~"])
def test_where_truth_values_belong_they_stay(text: str) -> None:
    assert validate(Sample, parse_document(text, "file.yaml", ()))[1] == []


@pytest.mark.parametrize("model", [JobSpec, ClusterSpec])
def test_every_part_of_the_files_that_people_write_knows_it(model: type[BaseModel]) -> None:
    assert {part.__name__ for part in _parts(model) if not issubclass(part, FilePart)} == set()


def _parts(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _parts(field.annotation)
    for each in get_args(annotation):
        yield from _parts(each)

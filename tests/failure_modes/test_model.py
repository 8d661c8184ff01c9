"""A finding at a field of a file: what it is called, and where it stands."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Location, Path, Stage, dotted


def locate(*path: str | int) -> Location:
    """A file in which a field stands at the line of its depth."""
    return Location("job.yaml", 1 + len(path), 1)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        pytest.param(("limits", "max_wait"), "limits.max_wait", id="a field"),
        pytest.param(("code", "arguments", 1), "code.arguments.1", id="an item of a list"),
        pytest.param((), None, id="the whole file"),
    ],
)
def test_a_path_is_named_by_its_parts(path: Path, name: str | None) -> None:
    assert dotted(path) == name
    found = job_file.INVALID_VALUE.at(path, "it is wrong")
    assert (found.subject, found.location) == (name, None)


def test_the_subject_may_differ_from_the_field_to_look_at() -> None:
    found = job_file.INVALID_VALUE.at(("resources",), "it is wrong", subject="sg-1").located(locate)
    assert (found.subject, found.location) == ("sg-1", Location("job.yaml", 2, 1))


def test_what_is_wrong_with_the_whole_file_is_located_too() -> None:
    assert job_file.INVALID_VALUE.at((), "it is wrong").located(locate).location == Location("job.yaml", 1, 1)


def test_a_finding_without_a_field_has_no_location() -> None:
    found = job_file.INVALID_VALUE.finding(Stage.SPEC, "it is wrong", subject="role_arn")
    assert found.located(locate) == found


def test_a_frozen_class_is_a_data_class_by_its_fields() -> None:
    one, same, other = Location("a.py", 1, 2), Location("a.py", 1, 2), Location("a.py", 1, 3)
    assert (one == same, one == other, len({one, same, other})) == (True, False, 2)
    assert repr(one) == "Location(file='a.py', line=1, column=2, end_line=None, end_column=None)"
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one
    assert dataclasses.replace(one, column=3) == other

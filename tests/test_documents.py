"""YAML with positions, and a document against its model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from launcher.cluster.specification import ClusterSpec
from launcher.documents import (
    MAX_DEPTH,
    MAX_NODES,
    AsWritten,
    DocumentError,
    FilePart,
    dotted_keys,
    parse_document,
    validate_document,
)
from launcher.failure_modes.model import Location
from launcher.jobs.specification import JobSpec


def data_of(text: str) -> dict:
    return parse_document(text, "job.yaml", ()).data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("13e9", 13e9),
        ("1e-3", 1e-3),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("'5'", "5"),
        ("-.inf", float("-inf")),
        ("~", None),
        ("True", True),
        ("2026-01-01", "2026-01-01"),
        ("12:30:00", "12:30:00"),
        ("1_000", "1_000"),
    ],
)
def test_scalars_have_their_yaml_1_2_meaning(text: str, value: object) -> None:
    assert data_of(f"a: {text}") == {"a": value}


def test_an_unquoted_number_keeps_its_text_where_asked_and_a_nested_one_does_not() -> None:
    document = parse_document("h: {lr: 1e-3, deep: {x: 1e-3}}", "job.yaml", (("h", "*"),))
    assert document.data == {"h": {"lr": "1e-3", "deep": {"x": 0.001}}}
    assert isinstance(document.data["h"]["lr"], AsWritten)


def test_a_quoted_text_is_no_number_even_where_texts_are_kept() -> None:
    assert not isinstance(parse_document("h: {a: '1'}", "f", (("h", "*"),)).data["h"]["a"], AsWritten)


def test_a_value_stands_where_its_key_stands() -> None:
    document = parse_document("a:\n  b: 1\n  c: [1, 2]\n", "job.yaml", ())
    assert document.location("a", "b") == Location("job.yaml", 2, 3)
    assert document.location("a", "c", 1) == Location("job.yaml", 3, 10)


def test_the_location_of_what_is_missing_is_the_part_around_it() -> None:
    document = parse_document("x: 1\na:\n  b: 1\n", "job.yaml", ())
    assert document.location("a", "missing", "deep") == Location("job.yaml", 2, 1)


def test_merge_keys_fill_in_and_never_overwrite() -> None:
    assert data_of("b: &b {x: 1, y: 1}\nc: {<<: *b, y: 2}")["c"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("a: 1\na: 2", "given twice", 2),
        ("a:\n\tb: 1", "tab", 2),
        ("- 1", "list", 1),
        ("just text", "single value", 1),
        ("# nothing", "empty", 1),
        ("a: [", "YAML", 2),
        ("a: 1\nb: *nowhere", "alias", 2),
        ("a: !!python/object:os.system {}", "tag", 1),
        ("a: 1\n---\nb: 2", "document", 2),
        (b"a: 1\nb: \xff", "UTF-8", 2),
        ("? [a, b]\n: 1", "key", 1),
    ],
)
def test_what_is_no_document_is_refused_with_its_line(text: str | bytes, says: str, line: int) -> None:
    with pytest.raises(DocumentError) as refused:
        parse_document(text, "job.yaml", ())
    assert says in refused.value.message
    assert refused.value.location.line == line


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: 1\na: 2", {"a": 2}),
        ("a: !!python/tuple [1, 2]", {"a": [1, 2]}),
        ("a: !include b.yaml", {"a": "${b.yaml}"}),
        ("a: !own {b: 1}", {"a": {"b": 1}}),
    ],
)
def test_what_programs_of_others_read_is_read_as_they_do(text: str, data: object) -> None:
    assert parse_document(text, "config.yaml", (), lenient=True).data == data


def test_aliases_expand_to_a_bounded_number_of_values() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )
    with pytest.raises(DocumentError, match=f"{MAX_NODES:,}"):
        data_of(bomb)


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {<<: *a}", "a: &a {<<: [*a, *a]}"])
def test_a_value_that_contains_itself_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match=f"more than {MAX_DEPTH} levels"):
        data_of(text)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? [", "? "])
def test_nesting_is_bounded_before_anything_recurses(opening: str) -> None:
    """In a process of its own: what overflows the stack of the C library ends the process."""
    program = (
        "import sys\n"
        "from launcher.documents import DocumentError, parse_document\n"
        "try:\n"
        "    parse_document('name:\\n  ' + sys.argv[1] * 240_000, 'job.yaml', ())\n"
        "except DocumentError as error:\n"
        "    print(error.location, error.message)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, opening], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert f"more than {MAX_DEPTH} levels deep" in run.stdout
    assert run.stdout.startswith("job.yaml:2:")


def test_the_deepest_nesting_that_is_taken() -> None:
    deepest = "a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert data_of(deepest)
    with pytest.raises(DocumentError, match="levels deep"):
        data_of(deepest.replace("[]", "[[]]"))


def test_an_override_sets_a_value_and_moves_its_location_to_the_option() -> None:
    document = parse_document("a: {b: 1}", "job.yaml", ())
    document.override("a.b", "[x, 2]", ())
    document.override("new.deep", "3", ())
    assert document.data == {"a": {"b": ["x", 2]}, "new": {"deep": 3}}
    assert document.location("a", "b").file == "--set a.b"


def test_an_override_names_a_key_with_dots_in_quotes() -> None:
    document = parse_document("h: {a.b: 1}", "job.yaml", ())
    path = f"h.{dotted_keys(['a.b'])}"
    document.override(path, "2", ())
    document.override('"c.d".e', "3", ())
    assert path == 'h."a.b"'
    assert document.data == {"h": {"a.b": 2}, "c.d": {"e": 3}}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.b", "1"),
        ("a..b", "1"),
        ("b", "["),
        ("", "1"),
        ("b.", "1"),
        ('"b', "1"),
        ('"b"c', "1"),
        ('""', "1"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused(path: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"not a mapping|not a path|not YAML"):
        parse_document("a: 1", "job.yaml", ()).override(path, text, ())


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_input_gives_a_document_or_a_refusal(raw: str | bytes) -> None:
    try:
        assert isinstance(parse_document(raw, "job.yaml", ()).data, dict)
    except DocumentError as refused:
        assert refused.location.line >= 1


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
    read, findings = validate_document(Sample, parse_document(text, "file.yaml", ()))
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
    (finding,) = validate_document(Sample, parse_document(text, "file.yaml", ()))[1]
    assert message in finding.message
    assert finding.remedy == remedy


@pytest.mark.parametrize("text", ["whole: 1", "either: true", "switch: true", "anything: true", "real: ~"])
def test_where_truth_values_belong_they_stay(text: str) -> None:
    assert validate_document(Sample, parse_document(text, "file.yaml", ()))[1] == []


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

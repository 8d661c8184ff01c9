"""`${NAME}` in a job file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.load import LoadedJob, load_job
from launcher.jobs.variables import Variables, allowed_by

WriteJob = Callable[..., Path]
Load = Callable[..., LoadedJob]


@pytest.fixture
def load(write_job: WriteJob) -> Load:
    def load(variables: dict[str, str], allowed: list[str] | None = None, **fields: object) -> LoadedJob:
        return load_job(write_job(**fields), {}, Variables(variables, allowed))

    return load


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${TEAM}", "vision"),
        ("a-${TEAM}-b", "a-vision-b"),
        ("$${TEAM}", "${TEAM}"),
        ("$${AWS_PROFILE}", "${AWS_PROFILE}"),
        ("$TEAM", "$TEAM"),
        ("{TEAM}", "{TEAM}"),
        ("${TEAM}${RUN}", "vision7"),
    ],
)
def test_a_reference_stands_for_its_value(load: Load, written: str, value: str) -> None:
    assert load({"TEAM": "vision", "RUN": "7"}, environment={"X": written}).spec.environment == {"X": value}


def test_a_value_that_looks_like_a_reference_is_not_replaced_again(load: Load) -> None:
    assert load({"A": "${B}", "B": "no"}, environment={"X": "${A}"}).spec.environment == {"X": "${B}"}


def test_references_in_lists_and_nested_fields_are_replaced(load: Load) -> None:
    code = {"source_dir": "src", "entry_point": "train.py", "arguments": ["--team", "${TEAM}"]}
    assert load({"TEAM": "vision"}, code=code).spec.code.arguments[1] == "vision"


@pytest.mark.parametrize(
    ("written", "says"),
    [("${TEM}", "TEAM"), ("${OTHER_THING}", "export OTHER_THING"), ("${}", "letters"), ("${a b}", "letters")],
)
def test_a_reference_to_nothing_is_an_error_where_it_stands(load: Load, written: str, says: str) -> None:
    loaded = load({"TEAM": "vision"}, environment={"X": written})
    assert loaded.spec is None
    (finding,) = loaded.findings
    assert (finding.code, finding.subject) == ("SPEC003", "environment.X")
    assert says in finding.remedy
    assert finding.location.line > 1


AWS = ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "aws_access_key_id", "Aws_Profile"]
FIELDS: dict[str, Callable[[str], object]] = {
    "environment": lambda written: {"X": f"a-{written}"},
    "tags": lambda written: {"team": written},
    "hyperparameters": lambda written: {"deep": [{"key": written}]},
    "name": lambda written: written,
}


@pytest.mark.parametrize("name", AWS)
@pytest.mark.parametrize("field", FIELDS)
def test_the_variables_of_the_launchers_own_session_are_refused_in_every_field(
    load: Load, name: str, field: str
) -> None:
    loaded = load({name: "planted"}, [name], **{field: FIELDS[field](f"${{{name}}}")})
    assert loaded.spec is None
    finding = loaded.findings[0]
    assert finding.code == "SPEC003"
    assert f"${{{name}}} is a variable of the launcher's own AWS session" in finding.message
    assert "planted" not in str(loaded.findings)


def test_only_what_is_allowed_is_replaced(load: Load) -> None:
    tags = {"team": "${TEAM}", "run": "${RUN}"}
    loaded = load({"TEAM": "vision", "RUN": "7"}, ["TEAM"], tags=tags)
    (finding,) = loaded.findings
    assert finding.subject == "tags.run"
    assert "${RUN} is not replaced: it is not among" in finding.message
    assert "--allow-env RUN" in finding.remedy
    assert load({"TEAM": "vision", "RUN": "7"}, ["TEAM", "RUN"], tags=tags).spec.tags["run"] == "7"


def test_in_ci_nothing_is_replaced_that_was_not_named(load: Load) -> None:
    in_ci = allowed_by({"CI": "true"}, None)
    (finding,) = load({"TEAM": "vision"}, in_ci, tags={"team": "${TEAM}"}).findings
    assert "${TEAM} is not replaced: in CI" in finding.message
    assert "--allow-env TEAM" in finding.remedy
    named = allowed_by({"CI": "true"}, ["TEAM"])
    assert load({"TEAM": "vision"}, named, tags={"team": "${TEAM}"}).spec.tags == {"team": "vision"}


@pytest.mark.parametrize(
    ("environment", "all_are"),
    [({}, True), ({"CI": ""}, True), ({"CI": "false"}, True), ({"CI": "False"}, True), ({"CI": "0"}, True)]
    + [({"CI": value}, False) for value in ("true", "1", "woodpecker")],
)
def test_ci_is_where_the_variable_says_so(environment: dict[str, str], all_are: bool) -> None:
    assert (allowed_by(environment, None) is None) == all_are


def test_a_value_that_was_not_replaced_is_not_judged_as_well(load: Load) -> None:
    (found,) = load({}, limits={"max_runtime": "${NOT_SET}"}).findings
    assert "NOT_SET is not set" in found.message


FOLDERS = {"SM_MODEL_DIR": "mine", "TEAM": "vision", "ODD": "a${SM_MODEL_DIR}b"}


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("${SM_MODEL_DIR}/${TEAM}", "${SM_MODEL_DIR}/vision"),
        ("${SM_CHANNEL_MY-TRAIN}", "${SM_CHANNEL_MY-TRAIN}"),
        ("${SLIPWAY_CHECKPOINT_DIR}", "${SLIPWAY_CHECKPOINT_DIR}"),
        ("$${SM_MODEL_DIR}", "$${SM_MODEL_DIR}"),
        ("${ODD}", "a$${SM_MODEL_DIR}b"),
        ("$${oc.env:HOME}", "${oc.env:HOME}"),
    ],
)
def test_folders_of_the_container_keep_their_names_in_what_reaches_the_script(
    load: Load, written: str, kept: str
) -> None:
    code = {"source_dir": "src", "entry_point": "train.py", "arguments": [written]}
    job = load(FOLDERS, code=code, hyperparameters={"x": [written]}, environment={"X": written}).spec
    assert (job.code.arguments, job.hyperparameters["x"], job.environment["X"]) == ([kept], [kept], kept)


def test_no_permission_is_needed_for_what_is_not_replaced_here(load: Load) -> None:
    assert load(FOLDERS, [], environment={"X": "${SM_MODEL_DIR}"}).spec.environment["X"] == "${SM_MODEL_DIR}"


def test_elsewhere_they_are_the_launchers_own_variables(load: Load) -> None:
    assert load(FOLDERS, tags={"a": "${SM_MODEL_DIR}"}).spec.tags == {"a": "mine"}
    (finding,) = load({}, tags={"a": "${SM_MODEL_DIR}"}).findings
    assert "`code.arguments`" in finding.message

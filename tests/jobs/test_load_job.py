"""From a job file to a JobSpec: errors, values of `${NAME}`, texts without them, folders of the container."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.failure_modes import job_file
from launcher.failure_modes.model import AwsRefusal, Stage
from launcher.jobs.load_job import (
    LoadedJob,
    Substitution,
    Substitutions,
    Variables,
    allowed_variables,
    import_folders,
    list_folders,
    load_job,
    with_folders,
)
from slipway.container import Container
from slipway.script import folder_variables

WriteJob = Callable[..., Path]


def codes(loaded: LoadedJob) -> list[str]:
    return [finding.code for finding in loaded.findings]


def test_a_valid_file_has_a_specification_and_no_findings(write_job: WriteJob) -> None:
    loaded = load_job(write_job())
    assert loaded.findings == ()
    assert loaded.spec is not None
    assert loaded.spec.resources.instance_count == 2


def test_an_unknown_field_is_told_the_nearest_known_one_where_it_stands(write_job: WriteJob) -> None:
    text = "name: a\ncode: {entry_point: t.py}\nframework: {version: '2.8'}\nresources:\n  instance_typ: x\n"
    finding = next(f for f in load_job(write_job(text)).findings if f.code == "SPEC002")
    assert "instance_type" in finding.remedy
    assert (finding.location.line, finding.location.column) == (5, 3)


def test_environment_and_hyperparameters_become_strings_as_written(write_job: WriteJob) -> None:
    file = write_job()
    file.write_text(
        file.read_text() + "environment: {A: 1e-3, B: yes, C: true}\nhyperparameters: {lr: 1.50}\n"
    )
    spec = load_job(file).spec
    assert spec.environment == {"A": "1e-3", "B": "yes", "C": "true"}
    assert spec.hyperparameters == {"lr": "1.50"}


def test_a_hyperparameter_that_is_null_is_not_given_and_a_text_is(write_job: WriteJob) -> None:
    text = write_job().read_text() + "hyperparameters: {a: null, b: ~, c: , d: 'null', e: [null], f: ''}\n"
    spec = load_job(write_job(text)).spec
    assert spec is not None
    assert spec.hyperparameters == {"d": "null", "e": [None], "f": ""}


def test_durations_are_seconds_and_sizes_bytes(write_job: WriteJob) -> None:
    spec = load_job(
        write_job(limits={"max_runtime": "1d12h"}, data={"size": "2TB"}, resources={
            "instance_type": "ml.p5.48xlarge", "keep_alive": "30m"})
    ).spec  # fmt: skip
    assert (spec.limits.max_runtime, spec.data.size, spec.resources.keep_alive) == (129_600, 2 * 10**12, 1800)


def test_the_seconds_forms_of_the_limits_are_understood(write_job: WriteJob) -> None:
    assert load_job(write_job(limits={"max_runtime_seconds": 60})).spec.limits.max_runtime == 60


@pytest.mark.parametrize(
    ("written", "kind"),
    [("spot", "spot"), ("on-demand", "on-demand"), ({"training_plan": "arn:aws:x"}, "training-plan")],
)
def test_capacity_is_written_in_three_ways(write_job: WriteJob, written: object, kind: str) -> None:
    job = load_job(write_job(resources={"instance_type": "ml.p5.48xlarge", "capacity": written})).spec
    assert job.resources.capacity.kind == kind
    assert job.model_dump(mode="json")["resources"]["capacity"] == written


def test_the_cluster_none_is_no_cluster(write_job: WriteJob) -> None:
    assert load_job(write_job(cluster="none")).spec.cluster is None
    assert load_job(write_job(cluster="dev"), {"cluster": "none"}).spec.cluster is None


def test_an_override_is_validated_like_the_file(write_job: WriteJob) -> None:
    loaded = load_job(write_job(), {"resources.instance_count": "none"})
    assert codes(loaded) == ["SPEC003"]
    assert loaded.findings[0].location.file == "--set resources.instance_count"
    assert str(loaded.findings[0].location) == "--set resources.instance_count"


@pytest.mark.parametrize("field", ["instance_count", "volume_size_gb"])
def test_more_than_aws_has_of_anything_is_a_slip(write_job: WriteJob, field: str) -> None:
    loaded = load_job(write_job(), {f"resources.{field}": "9" * 23})
    assert codes(loaded) == ["SPEC003"]
    assert "less than or equal to 1" in loaded.findings[0].message


def test_of_a_large_file_no_more_is_read_than_shows_it(write_job: WriteJob) -> None:
    file = write_job("name: a\n")
    os.truncate(file, 1 << 40)  # a hole: it takes no room on the disk, but would in memory
    assert codes(load_job(file)) == ["SPEC001"]


def test_a_broken_file_is_spec001_and_no_exception(write_job: WriteJob) -> None:
    assert codes(load_job(write_job("a: ["))) == ["SPEC001"]


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
    in_ci = allowed_variables({"CI": "true"}, None)
    (finding,) = load({"TEAM": "vision"}, in_ci, tags={"team": "${TEAM}"}).findings
    assert "${TEAM} is not replaced: in CI" in finding.message
    assert "--allow-env TEAM" in finding.remedy
    named = allowed_variables({"CI": "true"}, ["TEAM"])
    assert load({"TEAM": "vision"}, named, tags={"team": "${TEAM}"}).spec.tags == {"team": "vision"}


@pytest.mark.parametrize(
    ("environment", "all_are"),
    [({}, True), ({"CI": ""}, True), ({"CI": "false"}, True), ({"CI": "False"}, True), ({"CI": "0"}, True)]
    + [({"CI": value}, False) for value in ("true", "1", "woodpecker")],
)
def test_ci_is_where_the_variable_says_so(environment: dict[str, str], all_are: bool) -> None:
    assert (allowed_variables(environment, None) is None) == all_are


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


SECRET = "hunter2-SUPERSECRET-value"


def made(written: str, *path: str, **values: str) -> Substitutions:
    text = written
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return Substitutions((Substitution(path or ("environment", "X"), written, text, values),))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{SECRET!r} is no duration", "'${S}' is no duration"),
        (f"x{SECRET}y", "x${S}y"),
        (f"{SECRET[:20]}... is too long", "${S} is too long"),
        ("nothing of it", "nothing of it"),
        (SECRET[:20], SECRET[:20]),
    ],
)
def test_a_long_value_is_replaced_wherever_it_stands(text: str, shown: str) -> None:
    assert made("${S}", S=SECRET).shown(text) == shown


@pytest.mark.parametrize("value", ["a\nb \"quoted\" 'twice' \\ secret", "grün und blau, das ist geheim"])
def test_so_is_one_that_messages_write_in_quotes(value: str) -> None:
    for written in (repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert made("${S}", S=value).shown(f"{written} is wrong")[1:-1].startswith("${S}")


def test_the_field_is_shown_as_it_was_written() -> None:
    replaced = made("s3://${BUCKET}/${TEAM}/x", BUCKET="acme-secret-bucket", TEAM="a")
    whole = replaced.shown("s3://acme-secret-bucket/a/x is no prefix")
    assert whole == "s3://${BUCKET}/${TEAM}/x is no prefix"
    assert replaced.shown("no bucket acme-secret-bucket") == "no bucket ${BUCKET}"


def test_the_parts_of_an_address_are_replaced_but_not_the_region() -> None:
    replaced = made("${URI}", URI="arn:aws:kms:eu-central-1:111122223333:key/0123-4567-89ab")
    assert replaced.shown("no key 0123-4567-89ab of 111122223333 in eu-central-1") == (
        "no key ${URI} of ${URI} in eu-central-1"
    )


def test_a_short_value_is_replaced_in_what_is_said_of_its_field_only() -> None:
    replaced = made("${N}", "resources", "instance_count", N="3")
    about = ("resources", "instance_count")
    text = replaced.shown("3 hosts of ml.p3.8xlarge, 13 in all, 3,100.3 USD for 3.", about)
    assert text == "${N} hosts of ml.p3.8xlarge, 13 in all, 3,100.3 USD for ${N}."
    assert replaced.shown("3 hosts", ("resources",)) == "${N} hosts"
    assert replaced.shown("3 hosts", ("limits",)) == "3 hosts"
    assert replaced.shown("3 hosts") == "3 hosts"


def test_a_very_short_word_is_replaced_only_where_it_is_quoted() -> None:
    replaced = made("${N}", "name", N="a")
    assert replaced.shown("'a' is not a name", ("name",)) == "'${N}' is not a name"


def test_a_value_of_middle_length_is_replaced_as_a_word() -> None:
    assert made("${T}", T="vision").shown("vision, not divisions") == "${T}, not divisions"


def test_what_was_put_in_is_not_replaced_again() -> None:
    replaced = made("${SECRET_TEAM} ${TEAM}", SECRET_TEAM="SECRET_TEAM", TEAM="vision")
    assert replaced.shown("SECRET_TEAM and vision") == "${SECRET_TEAM} and ${TEAM}"


def test_a_finding_keeps_what_the_catalogue_says_in_general() -> None:
    replaced = made("${S}", S="durations")
    general = job_file.INVALID_VALUE.finding(Stage.SPEC, "durations are wrong", subject="durations")
    shown = replaced.finding(general)
    assert (shown.message, shown.subject) == ("${S} are wrong", "${S}")
    assert shown.remedy == general.remedy
    assert "durations" in shown.remedy
    special = job_file.INVALID_VALUE.finding(Stage.SPEC, "x", remedy="Use durations.")
    assert replaced.finding(special).remedy == "Use ${S}."


def test_a_refusal_passes_without_the_value_in_it_or_in_its_cause() -> None:
    with pytest.raises(AwsRefusal) as refused, made("${S}", S=SECRET).refusals():
        try:
            raise ValueError(SECRET)
        except ValueError as cause:
            raise AwsRefusal(f"no {SECRET}.", f"Make {SECRET}.") from cause
    error = refused.value
    assert (error.message, error.remedy, str(error)) == ("no ${S}.", "Make ${S}.", "no ${S}. Make ${S}.")
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_number_is_shown_as_it_was_written() -> None:
    replaced = made("${T}", "limits", "max_runtime", T="2h")
    assert replaced.value(7200, ("limits", "max_runtime")) == "${T}"
    assert replaced.value(7200, ("limits", "max_wait")) == 7200


WHERE_THE_NAME_IS = "/opt/ml/input/data/checkpoints/job"


@pytest.mark.parametrize("channels", [(), ("train", "my-eval")])
def test_what_a_plan_takes_for_a_folder_is_what_the_boot_puts_in(
    write_job: Callable[..., Path], channels: tuple[str, ...]
) -> None:
    job = load_job(write_job(inputs=dict.fromkeys(channels, "s3://my-bucket/data"))).spec
    assert job is not None
    container = Container(
        root=Path("/opt/ml"),
        hosts=("algo-1",),
        current_host="algo-1",
        instance_type="ml.g5.xlarge",
        interface="eth0",
        hyperparameters={},
        input_data_config={name: {} for name in (*channels, "code")},
        resource_config={},
    )
    assert list_folders(job) == folder_variables(container, {})
    elsewhere = {"SLIPWAY_CHECKPOINT_DIR": WHERE_THE_NAME_IS}
    assert list_folders(job, WHERE_THE_NAME_IS) == folder_variables(container, elsewhere)


def test_a_script_gets_the_folders_in_place_of_their_names(write_job: Callable[..., Path]) -> None:
    code = {
        "source_dir": "src",
        "entry_point": "train.py",
        "arguments": ["--out=${SM_MODEL_DIR}", "$${SM_X}"],
    }
    job = load_job(write_job(code=code, environment={"OUT": "${SM_OUTPUT_DATA_DIR}"})).spec
    assert job is not None
    given = with_folders(job)
    assert given.code.arguments == ["--out=/opt/ml/model", "${SM_X}"]
    assert given.environment["OUT"] == "/opt/ml/output/data"


@pytest.mark.parametrize(
    ("path", "folders"),
    [
        (None, ()),
        ("${SM_SOURCE_DIR}/src:.", ("src", ".")),
        ("lib:/opt/ml/code/deep/lib/", ("lib", "deep/lib")),
        ("/opt/ml/input/data/train", None),
        ("..", None),
        ("src:${SM_CHANNEL_TRAIN}", None),
    ],
)
def test_the_folders_of_the_source_in_which_modules_are_looked_for(
    write_job: Callable[..., Path], path: str | None, folders: tuple[str, ...] | None
) -> None:
    environment = {} if path is None else {"PYTHONPATH": path}
    job = load_job(write_job(inputs={"train": "s3://my-bucket/data"}, environment=environment)).spec
    assert job is not None
    assert import_folders(job) == folders

"""From a job file to a JobSpec."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.load import LoadedJob, load_job

WriteJob = Callable[..., Path]


def codes(loaded: LoadedJob) -> list[str]:
    return [finding.code for finding in loaded.findings]


def test_a_valid_file_has_a_specification_and_no_findings(write_job: WriteJob) -> None:
    loaded = load_job(write_job())
    assert loaded.findings == ()
    assert loaded.spec is not None
    assert loaded.spec.resources.instance_count == 2


def test_all_errors_of_a_file_are_reported_at_once(write_job: WriteJob) -> None:
    loaded = load_job(
        write_job(
            name="a_b",
            framework={"version": "2.8", "pyton": "py312"},
            limits={"max_runtime": "24x"},
            inputs={"train": {"s3_url": "s3://bucket/p"}},
        )
    )
    assert loaded.spec is None
    subjects = {finding.subject: finding.code for finding in loaded.findings}
    assert subjects["name"] == "SPEC003"
    assert subjects["framework.pyton"] == "SPEC002"
    assert subjects["limits.max_runtime"] == "SPEC003"
    assert subjects["inputs.train.s3_url"] == "SPEC002"


def test_an_unknown_field_is_told_the_nearest_known_one_where_it_stands(write_job: WriteJob) -> None:
    text = "name: a\ncode: {entry_point: t.py}\nframework: {version: '2.8'}\nresources:\n  instance_typ: x\n"
    finding = next(f for f in load_job(write_job(text)).findings if f.code == "SPEC002")
    assert "instance_type" in finding.remedy
    assert (finding.location.line, finding.location.column) == (5, 3)


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({"name": "x" * 46}, "name"),
        ({"inputs": {"code": "s3://bucket/prefix"}}, "inputs"),
        ({"framework": None}, None),
        ({"image": "an/image:1"}, None),
        ({"inputs": {"t": {"s3_uri": "s3://bucket/p", "lustre": "/x"}}}, "inputs.t"),
        ({"limits": {"max_runtime": "29d"}}, "limits.max_runtime"),
        ({"limits": {"max_runtime": "1h", "max_runtime_seconds": 3}}, "limits"),
        ({"ignore": ["EFA06"]}, "ignore"),
        ({"environment": {"A": {"b": "c"}}}, "environment.A"),
        ({"model": {"parameters": float("inf")}}, "model.parameters"),
        ({"model": {"parameters": True}}, "model.parameters"),
        (
            {"resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": True}},
            "resources.instance_count",
        ),
        ({"limits": {"max_runtime_seconds": True}}, "limits.max_runtime"),
    ],
)
def test_a_value_that_the_schema_refuses_is_spec003(
    write_job: WriteJob, changes: dict, subject: str | None
) -> None:
    findings = load_job(write_job(**changes)).findings
    assert [(f.code, f.subject) for f in findings] == [("SPEC003", subject)]


def test_environment_and_hyperparameters_become_strings_as_written(write_job: WriteJob) -> None:
    file = write_job()
    file.write_text(
        file.read_text() + "environment: {A: 1e-3, B: yes, C: true}\nhyperparameters: {lr: 1.50}\n"
    )
    spec = load_job(file).spec
    assert spec.environment == {"A": "1e-3", "B": "yes", "C": "true"}
    assert spec.hyperparameters == {"lr": "1.50"}


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


@pytest.mark.parametrize(
    ("changed", "said", "remedy"),
    [
        ({"distribution": {"strategy": "torchrn"}}, "'torchrn' is not one of", "Did you mean `torchrun`?"),
        ({"distribution": {"strategy": "x"}}, "'x' is not one of", "Correct the value of"),
        ({"profile": "debg"}, "'debg' is not one of", "Did you mean `debug`?"),
        ({"code": {"source_dir": ".", "entry_point": "a.py", "arguments": [[1]]}}, "number, not a list", ""),
        ({"tags": {"a": {"b": 1}}}, "such as a text or a number, not a mapping", ""),
    ],
)
def test_a_wrong_value_is_told_with_what_was_meant(
    write_job: WriteJob, changed: dict[str, object], said: str, remedy: str
) -> None:
    [finding] = load_job(write_job(**changed)).findings
    assert said in finding.message
    assert remedy in finding.remedy


def test_the_cluster_none_is_no_cluster(write_job: WriteJob) -> None:
    assert load_job(write_job(cluster="none")).spec.cluster is None
    assert load_job(write_job(cluster="dev"), {"cluster": "none"}).spec.cluster is None


def test_an_override_is_validated_like_the_file(write_job: WriteJob) -> None:
    loaded = load_job(write_job(), {"resources.instance_count": "none"})
    assert codes(loaded) == ["SPEC003"]
    assert loaded.findings[0].location.file == "--set resources.instance_count"
    assert str(loaded.findings[0].location) == "--set resources.instance_count"


def test_of_a_large_file_no_more_is_read_than_shows_it(write_job: WriteJob) -> None:
    file = write_job("name: a\n")
    os.truncate(file, 1 << 40)  # a hole: it takes no room on the disk, but would in memory
    assert codes(load_job(file)) == ["SPEC001"]


def test_a_broken_file_is_spec001_and_no_exception(write_job: WriteJob) -> None:
    assert codes(load_job(write_job("a: ["))) == ["SPEC001"]

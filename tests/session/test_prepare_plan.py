"""From a job file to a judged plan."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.manifest import Cluster, cache_manifest, cached_manifests
from launcher.failure_modes.model import Refusal
from launcher.planning.training_plan import TrainingPlan
from launcher.rules.job import code_rules as source_rules
from launcher.session.prepare_plan import JobSource, prepare, read_job

WriteJob = Callable[..., Path]


def prepared(file: Path, **source: Any) -> TrainingPlan:
    ignore = source.pop("ignore", ())
    return prepare(read_job(JobSource(file, **source)), session_region="us-west-2", ignore=ignore)


def codes(plan: TrainingPlan) -> dict[str, bool]:
    return {finding.code: finding.ignored for finding in plan.findings}


def test_a_cluster_by_path_is_read_relative_to_the_job_file(write_job: WriteJob, manifest: dict) -> None:
    file = write_job(cluster="./dev.json")
    (file.parent / "dev.json").write_text(json.dumps(manifest))
    assert prepared(file).request["RoleArn"] == manifest["role_arn"]
    # The command line's replaces the file's.
    assert prepared(write_job(cluster="other"), cluster="./dev.json").placeholders == ()


def test_a_cluster_by_name_comes_from_what_was_last_read(write_job: WriteJob, manifest: dict) -> None:
    file = write_job(cluster="dev")
    unknown = prepared(file)
    assert unknown.request is not None and unknown.placeholders
    assert any(f.subject == "cluster" and f.severity == "info" for f in unknown.findings)
    cache_manifest(Cluster.model_validate(manifest))
    assert prepared(file).placeholders == ()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "\0", '{"name": "dev", "added_later": 1}'])
def test_a_broken_cache_is_left_aside_with_a_note(write_job: WriteJob, manifest: dict, content: str) -> None:
    cache_manifest(Cluster.model_validate(manifest))
    (kept,) = Path(os.environ["XDG_CACHE_HOME"]).rglob("dev.json")
    kept.write_text(content)
    plan = prepared(write_job(cluster="dev"))
    assert not plan.refused
    assert plan.placeholders
    (note,) = [found for found in plan.findings if found.subject == "cluster"]
    assert note.severity == "info" and str(kept) in note.message


def test_a_cluster_whose_name_no_file_can_have_was_never_read(write_job: WriteJob) -> None:
    assert prepared(write_job(cluster="x" * 10_000)).placeholders
    assert prepared(write_job(cluster="a\0b")).placeholders


def test_without_a_home_nothing_is_known_of_a_cluster(
    write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user of a container who has neither HOME nor an entry in the table of users."""

    def homeless(path: str) -> str:
        return path

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", homeless)
    plan = prepared(write_job(cluster="dev"))
    assert plan.placeholders and not plan.refused
    assert cached_manifests() == []


@pytest.mark.parametrize("content", [None, "{}", "[", "{a: 1"])
def test_a_manifest_that_cannot_be_used_is_refused_by_name(write_job: WriteJob, content: str | None) -> None:
    file = write_job(cluster="./dev.json")
    if content is not None:
        (file.parent / "dev.json").write_text(content)
    with pytest.raises(Refusal, match=r"dev\.json"):
        prepared(file)


@pytest.mark.parametrize("place", ["pipe", "/dev/zero", "folder"])
def test_what_is_not_a_regular_file_is_refused_as_job_file_and_as_manifest(
    write_job: WriteJob, tmp_path: Path, place: str
) -> None:
    """Neither waits for what a pipe may bring, nor fills the memory from a device."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refusal, match=r"nowhere\.yaml"):
        read_job(JobSource(tmp_path / "nowhere.yaml"))
    with pytest.raises(Refusal, match=f"{place} cannot be read: it is a"):
        read_job(JobSource(tmp_path / place))
    with pytest.raises(Refusal, match=f"{place} cannot be read: it is a"):
        prepared(write_job(), cluster=str(tmp_path / place))


@pytest.mark.parametrize("name", ["x" * 10_000, "a\0b"])
@pytest.mark.parametrize("field", ["source_dir", "entry_point"])
def test_names_that_no_file_can_have_are_findings(write_job: WriteJob, field: str, name: str) -> None:
    file = write_job(code={"source_dir": "src", "entry_point": "train.py", field: name})
    assert codes(prepared(file)).keys() & {"CODE001", "CODE002"}


@pytest.mark.parametrize("text", ["a.b", "name.x=1", "=3"])
def test_an_override_that_makes_no_sense_is_refused(write_job: WriteJob, text: str) -> None:
    with pytest.raises(Refusal, match="--set"):
        read_job(JobSource(write_job(), overrides=[text]))


def test_an_accepted_finding_stays_and_does_not_refuse(write_job: WriteJob) -> None:
    file = write_job(distribution={"strategy": "torchrun", "processes_per_host": 4})
    assert prepared(file).refused
    accepted = prepared(file, ignore=["DIST001"])
    assert codes(accepted)["DIST001"] is True
    assert not accepted.refused


def test_a_newer_instance_type_can_be_let_through(write_job: WriteJob) -> None:
    file = write_job(
        resources={"instance_type": "ml.p9.48xlarge"},
        distribution={"strategy": "torchrun", "processes_per_host": 16},
        ignore=["SPEC004"],
    )
    assert prepared(file).request["ResourceConfig"]["InstanceType"] == "ml.p9.48xlarge"


def test_an_unusable_job_has_findings_and_no_request(write_job: WriteJob) -> None:
    plan = prepared(write_job(resources={}))
    assert plan.refused
    assert plan.request is None
    assert codes(plan) == {"SPEC003": False}


def test_rules_see_the_cluster_and_the_source(write_job: WriteJob, manifest: dict) -> None:
    manifest["lustre"]["availability_zone"] = "us-west-2b"
    file = write_job(
        cluster="./dev.json", inputs={"corpus": {"lustre": "/train"}}, data={"samples": 1001, "batch_size": 2}
    )
    (file.parent / "dev.json").write_text(json.dumps(manifest))
    (file.parent / "src" / "data.py").write_text("DistributedSampler(dataset)")
    severities = {finding.code: finding.severity for finding in prepared(file).findings}
    assert severities["FSX002"] == "error"
    assert severities["DATA001"] == "info"


def test_too_many_processes_are_told_once(write_job: WriteJob) -> None:
    file = write_job(distribution={"strategy": "torchrun", "processes_per_host": 9})
    assert codes(prepared(file)).keys() & {"DIST001", "DIST003"} == {"DIST003"}


def code_finding(plan: TrainingPlan) -> Any:
    (found,) = [finding for finding in plan.findings if finding.code == "CODE002"]
    return found


def code_uri(plan: TrainingPlan) -> str:
    (channel,) = plan.request["InputDataConfig"]
    return channel["DataSource"]["S3DataSource"]["S3Uri"]


def test_the_code_channel_is_keyed_by_what_is_packed(write_job: WriteJob, tmp_path: Path) -> None:
    file, source = write_job(), tmp_path / "src"
    (source / ".gitignore").write_text("*.log")
    first = code_uri(prepared(file))
    (source / "run.log").write_text("x")
    assert code_uri(prepared(file)) == first
    (source / "more.py").write_text("x = 1")
    assert code_uri(prepared(file)) != first


@pytest.mark.parametrize("kind", ["missing", "link"])
def test_code_that_cannot_be_packed_is_a_finding_and_a_placeholder(
    write_job: WriteJob, tmp_path: Path, kind: str
) -> None:
    file = write_job()
    if kind == "missing":
        (tmp_path / "src").rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "src" / "data").symlink_to("/data")
    plan = prepared(file)
    assert code_finding(plan).severity == "error"
    assert code_finding(plan).location.line >= 1
    assert ("src/data is a symbolic link" in code_finding(plan).message) == (kind == "link")
    assert code_uri(plan).endswith("/" + "0" * 64)


def test_an_entry_point_lies_in_the_source_however_it_is_written(write_job: WriteJob, tmp_path: Path) -> None:
    file = write_job()
    (tmp_path / "src" / "lib").mkdir()
    for entry_point in ("./train.py", "lib/../train.py"):
        write_job(code={"source_dir": "src", "entry_point": entry_point})
        assert "CODE002" not in codes(prepared(file))
    (tmp_path / "train.py").touch()
    write_job(code={"source_dir": "src", "entry_point": "../train.py"})
    found = code_finding(prepared(file))
    assert (found.severity, found.subject) == ("error", "code.entry_point")
    assert "outside of" in found.message
    (tmp_path / "src" / ".gitignore").write_text("*.py")
    (tmp_path / "src" / "README").touch()
    write_job()
    assert "train.py is left out by .gitignore" in code_finding(prepared(file)).message


def test_large_code_is_a_warning_with_what_holds_most(
    write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_rules, "LARGE_BYTES", 1_000_000)
    file = write_job()
    (tmp_path / "src" / "weights.bin").write_bytes(bytes(2_000_000))
    found = code_finding(prepared(file))
    assert found.severity == "warning"
    assert "weights.bin (2 MB)" in found.message


def test_a_broken_job_file_hides_nothing_of_what_is_wrong_with_the_source(
    write_job: WriteJob, tmp_path: Path
) -> None:
    file = write_job(code={"source_dir": "src", "entry_point": "trian.py"}, limits={"max_runtime": "24x"})
    (tmp_path / "src" / "data").symlink_to("/data")
    plan = prepared(file)
    assert [(each.code, each.subject) for each in plan.findings] == [
        ("SPEC003", "limits.max_runtime"),
        ("CODE002", "code.entry_point"),
        ("CODE002", "code.source_dir"),
    ]
    assert plan.findings[1].location is not None and plan.findings[1].location.line > 1


def test_code_that_is_not_readable_itself_is_not_looked_for(write_job: WriteJob) -> None:
    unset = {"source_dir": "${SOURCE_DIR_OF_NOBODY}", "entry_point": "trian.py"}
    for code in ({"entry_point": "trian.py", "source": "src"}, {"source_dir": "src"}, "src", unset):
        found = codes(prepared(write_job(code=code)))
        assert found and "CODE002" not in found, code


@pytest.mark.parametrize(("here", "severity"), [(False, "error"), (True, "warning")])
def test_what_a_hosts_disk_loses_does_not_keep_a_run_from_this_machine(
    write_job: WriteJob, here: bool, severity: str
) -> None:
    file = write_job()
    (file.parent / "src" / "train.py").write_text("import torch\ntorch.save({}, 'model.ckpt')\n")
    plan = prepare(read_job(JobSource(file)), session_region="us-west-2", here=here)
    assert [each.severity.value for each in plan.findings if each.code == "CKPT007"] == [severity]

"""A job's diagnosis through its backend, with what the launcher alone knows of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.backends.interface import Cursor, JobState, JobStatus, LogBatch, LogLine
from launcher.cli.app import main
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.failure_modes.model import AwsRefusal
from launcher.planning.request_view import RequestView
from launcher.session.runs.diagnose_job import (
    LEFT_OUT_KEPT_SECONDS,
    MOST_NAMES,
    LeftOutNote,
    Place,
    add_left_out_files,
    add_missing_input,
    add_way_on,
    asked_job_of_request,
    attribute_to_machine,
    diagnose_job,
    left_checkpoints,
    places_of,
    read_left_out_note,
    write_left_out_note,
)
from launcher.source.folder_walk import IgnoredPath
from launcher.source.tree import SourceTree, read_source
from slipway.failure import Cause, judge_output

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

KILLED = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


@dataclass
class RecordedJob:
    """A backend that answers for one job, batch by batch."""

    status: JobStatus
    batches: list[list[LogLine]] = field(default_factory=list)
    refuses_logs: bool = False
    name: str = "recorded"
    runs_here: bool = False
    bills: bool = True

    def describe(self, job_name: str) -> JobStatus:
        return self.status

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        if self.refuses_logs:
            raise AwsRefusal("no logs.", "Ask.")
        position = int(cursor.get("all", "0"))
        lines = self.batches[position] if position < len(self.batches) else []
        return LogBatch(lines, {"all": str(position + bool(lines))})


def failed(reason: str | None = None, state: JobState = JobState.FAILED) -> JobStatus:
    return JobStatus("job", state, "Failed", reason)


def test_all_batches_are_read() -> None:
    job = RecordedJob(failed(), [[LogLine(1.0, "algo-1", "step")], [LogLine(2.0, "algo-2", KILLED)]])
    root = diagnose_job(job, "job").root_cause
    assert (root.finding.code, root.host) == ("HW001", "algo-2")


def test_a_job_that_never_started_or_whose_logs_may_not_be_read_is_judged_by_its_reason() -> None:
    reason = "CapacityError: Unable to provision requested ML compute capacity."
    for refuses_logs in (False, True):
        job = RecordedJob(failed(reason), refuses_logs=refuses_logs)
        assert diagnose_job(job, "job").root_cause.finding.code == "CAP001"


def test_a_completed_job_has_no_root_cause() -> None:
    job = RecordedJob(failed(state=JobState.COMPLETED), [[LogLine(1.0, "algo-1", KILLED)]])
    assert diagnose_job(job, "job").root_cause is None


def test_without_access_to_the_logs_and_without_a_reason_the_refusal_is_told() -> None:
    with pytest.raises(AwsRefusal):
        diagnose_job(RecordedJob(failed(), refuses_logs=True), "job")


FULL = (
    "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 has a total "
    "capacity of 39.40 GiB of which 1.20 GiB is free."
)


def test_the_remedy_has_the_numbers_that_the_job_was_given() -> None:
    asked = RequestView({"HyperParameters": {"batch_size": "32"}})
    printed = RecordedJob(replace(failed(), request=asked), [[LogLine(1.0, "algo-1", FULL)]])
    status = replace(failed(f"AlgorithmError: {FULL}"), request=asked)
    for job in (printed, RecordedJob(status, refuses_logs=True)):
        remedy = diagnose_job(job, "job").root_cause.finding.remedy
        assert remedy.startswith("Set batch_size to 24 instead of 32")


def silent(state: JobState = JobState.IN_PROGRESS, phase: str = "Training") -> RecordedJob:
    lines = [LogLine(1e9 + 10 * step, "algo-1", f"step {step} loss 2.0") for step in range(40)]
    return RecordedJob(JobStatus("job", state, phase), [lines])


def test_a_job_that_still_trains_and_has_long_been_silent_is_not_called_healthy() -> None:
    assert diagnose_job(silent(), "job", now=1e9 + 9000).verdict is Verdict.UNKNOWN
    assert diagnose_job(silent(), "job", now=1e9 + 400).verdict is Verdict.HEALTHY


def test_in_other_phases_than_training_it_may_be_silent() -> None:
    for phase in ("Starting", "Downloading", "Uploading"):
        assert diagnose_job(silent(phase=phase), "job", now=1e9 + 9000).verdict is Verdict.HEALTHY


REQUEST = RequestView(
    {
        "ResourceConfig": {"InstanceType": "ml.p3.8xlarge", "InstanceCount": 2, "VolumeSizeInGB": 50},
        "HyperParameters": {"batch_size": "32"},
        "AlgorithmSpecification": {
            "ContainerArguments": ["--processes-per-host", "4", "--", "--num-workers", "8"]
        },
    }
)


def test_hosts_and_numbers_are_those_of_the_request() -> None:
    asked = asked_job_of_request(REQUEST)
    assert (asked.instance_type, asked.volume_size_gb) == ("ml.p3.8xlarge", 50)
    assert asked.number(["batch_size"]).value == 32
    assert asked.number(["num_workers"]).value == 8
    # The boot's own options are no numbers of the script.
    assert asked.number(["processes_per_host"]) is None


def test_of_a_run_here_nothing_is_said_of_other_hosts() -> None:
    asked = asked_job_of_request(REQUEST, here=True)
    assert (asked.instance_type, asked.volume_size_gb, asked.facts) == (None, None, None)
    assert asked.number(["batch_size"]).value == 32


NO_GPUS = "RuntimeError: No CUDA GPUs are available"
CPUS = Place(gpus=False, instance_type="ml.g5.12xlarge")
GPUS = Place(gpus=True, instance_type="ml.g5.12xlarge")


def failed_with(error: str) -> Diagnosis:
    """The diagnosis of a run whose rank 0 ended with that error, by the reason that its host gives."""
    traceback = (
        f'Traceback (most recent call last):\n  File "/code/train.py", line 3, in f\n    g()\n{error}\n'
    )
    told = Cause(0, 1.0, 1, judge_output(traceback, 1, "/code")).text("algo-1").partition("\n")[0]
    return diagnose((), f"AlgorithmError: {told}, exit code: 1")


def remedy(error: str, place: Place) -> str:
    found = attribute_to_machine(failed_with(error), place)
    assert found.root_cause is not None
    # What is listed and what is told first are the same.
    assert found.findings[0] == found.root_cause.finding
    assert found.root_cause.finding.code in ("CODE001", "CODE005", "DIST003", "IMG002")
    assert "launch JOB.yaml --local` before" not in found.root_cause.finding.remedy
    return found.root_cause.finding.remedy


@pytest.mark.parametrize("error", CASES["missing GPU"])
def test_a_missing_gpu_is_the_machines(error: str) -> None:
    said = remedy(error, CPUS)
    assert said.startswith(
        "The hosts of this run see no GPU; on ml.g5.12xlarge the script would go on. To run it here"
    )
    assert "torch.cuda.is_available()" in said
    # A run of an older launcher does not say whether it had GPUs; what it printed does.
    assert remedy(error, Place(None, "ml.g5.12xlarge")) == said


def test_triton_which_only_a_torch_for_gpus_brings_is_not_asked_of_requirements_txt() -> None:
    failed = failed_with("ModuleNotFoundError: No module named 'triton'")
    [finding] = attribute_to_machine(failed, CPUS).findings
    assert finding.remedy.startswith("The hosts of this run see no GPU; on ml.g5.12xlarge the script")


REMEDIES = [
    # Where the instance type has no GPU either, the script would fail there too.
    (
        NO_GPUS,
        Place(False, "ml.m5.xlarge"),
        "ml.m5.xlarge has none either: it would fail there, too",
        "would go on",
    ),
    # With GPUs here the script or the build of torch is at fault.
    ("AssertionError: Torch not compiled with CUDA enabled", GPUS, "Install one with CUDA", "see no GPU"),
    (NO_GPUS, GPUS, "", "see no GPU"),
    ("ModuleNotFoundError: No module named 'torch'", CPUS, "--python PATH", "see no GPU"),
    ("ModuleNotFoundError: No module named 'torchtune'", CPUS, "", "--python"),
    # What was run here is not advised to be run here.
    ("ValueError: 3 is not in range", CPUS, "Repair what the traceback", "see no GPU"),
]


@pytest.mark.parametrize(("error", "place", "said", "unsaid"), REMEDIES)
def test_what_is_advised_depends_on_the_machine(error: str, place: Place, said: str, unsaid: str) -> None:
    found = remedy(error, place)
    assert said in found
    assert unsaid not in found


def test_a_containers_folder_in_the_code_is_said_to_be_elsewhere_here() -> None:
    for error in (
        "PermissionError: [Errno 13] Permission denied: '/opt/ml'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/model/model.pt'",
    ):
        found = diagnose((), f"AlgorithmError: CODE001 algo-1: {error} (train.py:3), exit code: 1")
        [finding] = attribute_to_machine(found, CPUS).findings
        assert "SM_MODEL_DIR" in finding.remedy, finding
    assert "SM_MODEL_DIR" not in remedy(
        "FileNotFoundError: [Errno 2] No such file or directory: '/data'", CPUS
    )


@pytest.mark.parametrize(
    "line",
    ["httpx.ConnectError: [Errno -2] Name or service not known", "urllib.error.HTTPError: HTTP Error 503: x"],
)
def test_a_hub_that_this_machine_cannot_reach_is_looked_for_from_here(line: str) -> None:
    found = diagnose([Record(1.0, "algo-1", f"[rank0]: {line}")])
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "HUB001"
    [finding] = attribute_to_machine(found, CPUS).findings
    assert "See whether this machine reaches it" in finding.remedy
    assert "give the subnets" not in finding.remedy


def test_other_causes_keep_their_remedy() -> None:
    killed = diagnose((), "AlgorithmError: MEM002 algo-1: killed by SIGKILL, exit code: 137")
    too_many = failed_with("RuntimeError: CUDA error: invalid device ordinal")
    for found, place in ((killed, CPUS), (diagnose(()), CPUS), (too_many, GPUS)):
        assert attribute_to_machine(found, place) == found


@pytest.fixture
def source(tmp_path: Path) -> SourceTree:
    folder = tmp_path / "src"
    modules = ("generated.py", "made/__init__.py", "lib/made/__init__.py")
    for name in ("train.py", "data/x.bin", "code/a.csv", ".venv/a.txt", *modules):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / ".gitignore").write_text("*.bin\ngenerated.py\nmade/\n*.csv\n")
    return read_source(folder, "train.py")


def failed_with_left_out(error: str) -> Diagnosis:
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 4, in <module>',
        "    load()",
        error,
    )
    return diagnose([LogLine(float(number), "algo-1", line) for number, line in enumerate(lines)])


def told(error: str, source: SourceTree) -> str:
    write_left_out_note("job-1", source)
    diagnosis = add_left_out_files(failed_with_left_out(error), read_left_out_note("job-1"))
    assert diagnosis.root_cause is not None
    assert diagnosis.findings[0] == diagnosis.root_cause.finding
    return diagnosis.root_cause.finding.message


@pytest.mark.parametrize(("error", "name", "pattern"), CASES["left out"])
def test_a_missing_file_that_was_left_out_is_named_with_its_pattern(
    source: SourceTree, error: str, name: str, pattern: str
) -> None:
    said = told(error, source)
    assert f"{name} lies in the source folder and was not packed: the pattern {pattern} of" in said


@pytest.mark.parametrize("error", CASES["not left out"])
def test_what_was_not_left_out_or_never_was_there_is_the_scripts_own(source: SourceTree, error: str) -> None:
    assert told(error, source) == str(failed_with_left_out(error).findings[0].message)


HUB = "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cache"


@pytest.mark.parametrize(
    ("error", "given"),
    [
        ("OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': './made/tiny'.", ()),
        ("OSError: made/tiny is not a local folder and is not a valid model identifier listed on 'hub'", ()),
        ("OSError: made/tiny does not appear to have a file named config.json. 'made/tiny'", ()),
        (f"OSError: {HUB}", ("--model", "made/tiny")),
        (f"OSError: {HUB}", ("/opt/ml/code/made/tiny",)),
    ],
)
def test_a_model_that_was_left_out_is_named_whatever_its_library_says(
    source: SourceTree, error: str, given: tuple[str, ...]
) -> None:
    (source.folder / "made" / "tiny").mkdir()
    write_left_out_note("job-1", source)
    found = add_left_out_files(failed_with_left_out(error), read_left_out_note("job-1"), given)
    said = "made/tiny lies in the source folder and was not packed: the pattern made/ of"
    assert said in found.findings[0].message
    assert "Add the line !made/ to" in found.findings[0].remedy


@pytest.mark.parametrize("error", ["KeyError: 'made'", "RuntimeError: bad shape of 'made'"])
def test_words_that_are_no_files_are_not_taken_for_them(source: SourceTree, error: str) -> None:
    write_left_out_note("job-1", source)
    diagnosis = failed_with_left_out(error)
    assert add_left_out_files(diagnosis, read_left_out_note("job-1"), ("made",)) == diagnosis


def test_the_remedy_brings_the_file_back(source: SourceTree) -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.bin'"
    write_left_out_note("job-1", source)
    finding = add_left_out_files(failed_with_left_out(error), read_left_out_note("job-1")).findings[0]
    assert f"Add the line !data/x.bin to {source.folder / '.slipwayignore'}" in finding.remedy
    (source.folder / ".slipwayignore").write_text("!data/x.bin\n")
    assert read_source(source.folder, "train.py").why_ignored("data/x.bin") is None


def test_a_file_in_a_folder_that_is_never_packed_says_so(source: SourceTree) -> None:
    said = told("FileNotFoundError: [Errno 2] No such file or directory: '.venv/a.txt'", source)
    assert said.endswith("as .venv/ never is")


def test_without_a_note_or_a_failure_a_job_is_diagnosed_as_ever(source: SourceTree) -> None:
    diagnosis = failed_with_left_out("FileNotFoundError: [Errno 2] No such file or directory: 'x'")
    assert add_left_out_files(diagnosis, read_left_out_note("nobody")) is diagnosis
    write_left_out_note("job-1", source)
    assert add_left_out_files(diagnose([]), read_left_out_note("job-1")) == diagnose([])


def test_a_note_is_bounded(tmp_path: Path) -> None:
    ignored = tuple(IgnoredPath(f"{number}.log", "*.log", tmp_path) for number in range(MOST_NAMES + 5))
    write_left_out_note("job-1", SourceTree(tmp_path, "train.py", True, True, ignored=ignored))
    assert read_left_out_note("job-1") == LeftOutNote(tmp_path, ignored[:MOST_NAMES])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"folder": "/", "left_out": [1]}', "[" * 100_000])
def test_a_broken_note_is_none(source: SourceTree, content: str) -> None:
    write_left_out_note("job-1", source)
    (note,) = Path(os.environ["XDG_CACHE_HOME"]).rglob("job-1.json")
    note.write_text(content)
    assert read_left_out_note("job-1") is None


def test_notes_on_jobs_of_long_ago_go(source: SourceTree, monkeypatch: pytest.MonkeyPatch) -> None:
    write_left_out_note("job-1", source)
    (note,) = Path(os.environ["XDG_CACHE_HOME"]).rglob("job-1.json")
    os.utime(note, (note.stat().st_mtime - LEFT_OUT_KEPT_SECONDS - 60,) * 2)
    write_left_out_note("job-2", source)
    assert read_left_out_note("job-1") is None and read_left_out_note("job-2") is not None
    # Without a home there is none.
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    write_left_out_note("job-2", source)
    assert read_left_out_note("job-2") is None


def test_a_local_run_tells_of_the_file_that_it_misses(
    write_job: Callable[..., Path], tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_job(
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 1}, distribution={"strategy": "none"}
    )
    (tmp_path / "src" / "train.py").write_text("open('data.bin')\n")
    (tmp_path / "src" / "data.bin").touch()
    (tmp_path / "src" / ".gitignore").write_text("*.bin")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main([str(file), "--local"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "the pattern *.bin of" in printed and "Add the line !data.bin to" in printed


def job(checkpoints: object, output: object) -> JobStatus:
    return JobStatus("job", JobState.COMPLETED, "Completed", checkpoints=str(checkpoints), output=str(output))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    host = tmp_path / "hosts" / "algo-1" / "ml"
    for folder in (tmp_path / "checkpoints", host / "model"):
        folder.mkdir(parents=True)
    for name in ("code/train.py", "output/data/slipway/algo-1/stdout.log", "output/data/flight_recorder/0"):
        (host / name).parent.mkdir(parents=True)
        (host / name).touch()
    return tmp_path


def test_empty_folders_and_what_is_ours_are_not_named(run: Path) -> None:
    assert list(places_of(job(run / "checkpoints", run / "hosts"))) == []
    assert list(places_of(job(run / "gone", run / "gone"))) == []


@pytest.mark.parametrize(("file", "label", "place"), CASES["written"])
def test_what_the_script_wrote_is(run: Path, file: str, label: str, place: str) -> None:
    (run / file).parent.mkdir(parents=True, exist_ok=True)
    (run / file).touch()
    assert list(places_of(job(run / "checkpoints", run / "hosts"))) == [(label, str(run / place))]


def test_of_s3_is_said_only_what_goes_there() -> None:
    assert list(places_of(job("s3://b/checkpoints", "s3://b/output"))) == [
        ("checkpoints go to", "s3://b/checkpoints"),
        ("output goes to", "s3://b/output"),
    ]
    assert list(places_of(JobStatus("job", JobState.FAILED, "Failed"))) == []


def test_checkpoints_are_left_on_s3_or_where_a_file_lies(run: Path) -> None:
    assert left_checkpoints(job("s3://bucket/checkpoints/job", run))
    assert not left_checkpoints(job(run / "checkpoints", run))
    assert not left_checkpoints(JobStatus("job", JobState.STOPPED, "Stopped"))
    (run / "checkpoints" / "step-1.pt").touch()
    assert left_checkpoints(job(run / "checkpoints", run))


NO_INPUT = "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/{}/x.csv'"


def test_an_input_that_the_job_does_not_have_is_told_with_the_line_to_add() -> None:
    channel = {
        "ChannelName": "my-data",
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/data"}},
    }
    request = RequestView({"InputDataConfig": [channel]})
    found = add_missing_input(failed_with_left_out(NO_INPUT.format("train")), request, here=True).findings[0]
    assert found.message.endswith("(train.py:4): the job has no input train; it has my-data")
    assert found.remedy.startswith("Add `inputs: {train: s3://BUCKET/PREFIX}` to the job file, with `--input")
    there = failed_with_left_out(NO_INPUT.format("my-data"))
    assert add_missing_input(there, request, here=True) == there


@pytest.mark.parametrize(("left", "said"), [("s3://bucket/checkpoints", True), (None, False)])
def test_repaired_code_is_told_how_it_goes_on_from_what_there_is(left: str | None, said: bool) -> None:
    status = JobStatus("job-1", JobState.FAILED, "Failed", checkpoints=left)
    found = add_way_on(failed_with_left_out("ValueError: bad"), status).findings[0]
    assert ("--set checkpoint.resume_from=job-1`" in found.remedy) is said

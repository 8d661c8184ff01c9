"""What is fuzzed: for each area a case made from a seed, and the code of the launcher that must take it."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NoReturn
from unittest import mock

import botocore.session
import psutil
import yaml

from attack import ROOT
from attack.fuzzing.lines import odd_lines
from attack.fuzzing.mutations import mutated, mutated_in_kind, odd_value, written
from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.backends.local.backend import LocalBackend
from launcher.cli.app import main
from launcher.cli.job_view import JobView
from launcher.cli.output import print_json
from launcher.cluster.cluster_files import ClusterFileError, load_cluster_file
from launcher.cluster.manifest import Cluster
from launcher.cluster.manifest_store import cached_manifests
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.redaction import shown
from launcher.failure_modes.refusal import Refusal
from launcher.planning.cost import cost_in_words
from launcher.planning.request_view import RequestView
from launcher.session.following.monitor import Monitor
from launcher.session.preparation import JobSource, prepare, read_job
from launcher.session.resume import plan_resumption
from launcher.session.submission import Start

REGION = "us-west-2"
LINES_IN_A_CASE = 5


class Crashed(Exception):
    """A command ended as it ends for a fault of its own."""


@dataclass(frozen=True, slots=True)
class Area:
    """One kind of input. `attack` makes the case of the generator's seed in a folder, and hands it over."""

    name: str
    what: str
    attack: Callable[[Random, Path], None]


def _job_file(chosen: Random, folder: Path) -> None:
    """Planned as `launch check` and `launch plan` do; one of ten by the command itself."""
    file = _in_place(folder, "job.yaml", written(chosen, mutated(chosen, chosen.choice(_jobs()))))
    if chosen.random() < 0.1:
        _command(chosen.choice(("check", "plan")), "job.yaml", "--output", chosen.choice(("text", "json")))
        return
    plan = _prepared(file)
    if plan is not None:
        json.dumps([finding.to_json() for finding in plan.findings])


def _cluster_file(chosen: Random, folder: Path) -> None:
    file = _in_place(folder, "cluster.yaml", written(chosen, mutated(chosen, chosen.choice(_clusters()))))
    try:
        spec = load_cluster_file(file)
    except ClusterFileError as error:
        str(error)
        return
    spec.addresses  # noqa: B018 - a property that computes
    spec.queue_instances  # noqa: B018 - a property that computes


def _manifest(chosen: Random, folder: Path) -> None:
    """By its path and as what this machine kept; either way with a job for it."""
    content = written(chosen, mutated(chosen, _manifest_data()))
    kept = folder / "cache" / "slipway" / "clusters"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "dev.json").write_bytes(content)
    _in_place(folder, "dev.json", content)
    job = {**_jobs()[0], "cluster": chosen.choice(("dev", "./dev.json"))}
    _prepared(_in_place(folder, "job.yaml", yaml.safe_dump(job).encode()))
    cached_manifests()


def _local_state(chosen: Random, folder: Path) -> None:
    """The files of a local job, read by the commands that look at it; nothing is started and none killed."""
    job = folder / ".slipway" / "local" / "digits-0unique"
    host = job / "hosts" / "algo-1"
    (host / "ml").mkdir(parents=True, exist_ok=True)
    status, request, times = _status_data(job), _requests()[0], b"10 1790000000.000\n20 1790000001.000\n"
    spoilt = chosen.choice(("status", "request", "times", "log"))
    (job / "status.json").write_bytes(_json_or_worse(chosen, status, spoilt == "status"))
    (job / "request.json").write_bytes(_json_or_worse(chosen, request, spoilt == "request"))
    (host / "log.times").write_bytes(chosen.randbytes(40) if spoilt == "times" else times)
    (host / "log").write_bytes(chosen.randbytes(200) if spoilt == "log" else b"step=1\nstep=2\nstep=3\n")
    os.chdir(folder)
    with _nobody_is_killed():
        command = chosen.randrange(5)
        if command == 0:
            _command("list", "--local", "--output", chosen.choice(("text", "json")))
        elif command == 4:
            _unless_refused(
                lambda: plan_resumption(Start(LocalBackend(folder / ".slipway/local")), "digits-0unique")
            )
        else:
            _command(("status", "logs", "diagnose")[command - 1], "digits-0unique")


def _request(chosen: Random, folder: Path) -> None:
    """A described job, of which AWS keeps the types; and of ten one file that `plan --diff` is given."""
    request = chosen.choice(_requests())
    if chosen.random() < 0.1:
        _in_place(folder, "request.json", written(chosen, mutated(chosen, request)))
        _in_place(folder, "job.yaml", yaml.safe_dump(_jobs()[0]).encode())
        _command("plan", "job.yaml", "--diff", "request.json")
        return
    view = RequestView(mutated_in_kind(chosen, request, _required()))
    for name in _PROPERTIES:
        getattr(view, name)
    cost_in_words(view, REGION)


def _log_lines(chosen: Random, folder: Path) -> None:
    """Through all that reads a followed job's lines: progress, stall, screen, JSON, diagnosis, redaction."""
    texts = odd_lines(chosen, _real_lines(), LINES_IN_A_CASE)
    lines = [LogLine(1_790_000_000.0 + n, f"algo-{1 + n % 2}", text) for n, text in enumerate(texts)]
    from rich.console import Console

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    view = JobView(Console(file=out, force_terminal=chosen.random() < 0.5))
    monitor = Monitor(view)
    status = JobStatus(name="digits-0unique", state=JobState.IN_PROGRESS, phase="Training", hosts=2)
    monitor.status(status)
    monitor.lines(lines)
    monitor.status(status)
    with redirect_stdout(out):
        for line in lines:
            print_json({"time": line.time, "host": line.host, "text": line.text}, indent=None)
    json.dumps(diagnose(lines, chosen.choice(texts)).to_json())
    for text in texts:
        shown(text)


AREAS: tuple[Area, ...] = (
    Area("job files", "check and plan", _job_file),
    Area("cluster files", "the input of cdk deploy", _cluster_file),
    Area("manifests", "by path and from the cache, with a plan", _manifest),
    Area(
        "local state",
        "status.json, request.json, log, log.times: list, status, logs, diagnose, resume",
        _local_state,
    ),
    Area("requests", "RequestView, its cost, plan --diff", _request),
    Area(
        "log lines",
        f"{LINES_IN_A_CASE} a case: progress, stall, screen, JSON, diagnosis, redaction",
        _log_lines,
    ),
)


@contextmanager
def user_in(folder: Path) -> Iterator[None]:
    """The environment of a user who works in this folder, has no AWS configuration and no network."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_MAX_ATTEMPTS": "1",
    }
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src" / "train.py").write_text("print('trained')\n")
    os.chdir(folder)
    with mock.patch.dict(os.environ, environment, clear=True):
        yield


def _in_place(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def _prepared(file: Path) -> Any:
    return _unless_refused(lambda: prepare(read_job(JobSource(file)), session_region=REGION))


def _unless_refused(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Refusal as refusal:
        assert refusal.message and refusal.remedy
        return None


def _command(*words: str) -> None:
    """Run `launch`; raises Crashed where it ends as it should never."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    code: Any = None
    with redirect_stdout(out), redirect_stderr(err), mock.patch("sys.stdin", io.StringIO()):
        try:
            main(list(words))
        except SystemExit as ended:
            code = ended.code
    err.flush()
    said = err.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    if "This is a fault of the launcher" in said or "Traceback" in said or code not in (0, 1, 2, 3):
        raise Crashed(f"launch {' '.join(words)} ended with {code}: {said.strip()[:300]}")


@contextmanager
def _nobody_is_killed() -> Iterator[None]:
    """A record that was spoilt may name any process as its launcher."""

    def refuse(*arguments: Any) -> NoReturn:
        raise Crashed(f"a signal was about to be sent: {arguments}")

    with (
        mock.patch.object(os, "killpg", refuse),
        mock.patch.object(psutil.Process, "kill", refuse),
        mock.patch.object(psutil.Process, "terminate", refuse),
        mock.patch.object(psutil.Process, "send_signal", refuse),
        mock.patch.object(signal, "pidfd_send_signal", refuse),
    ):
        yield


def _json_or_worse(chosen: Random, data: dict[str, Any], spoilt: bool) -> bytes:
    if not spoilt:
        return json.dumps(data).encode()
    if chosen.random() < 0.1:
        return json.dumps(odd_value(chosen), default=str, skipkeys=True).encode()
    text = json.dumps(mutated(chosen, data), default=str, skipkeys=True)
    if chosen.random() < 0.2:
        text = text[: chosen.randrange(len(text) + 1)]
    return text.encode("utf-8", "surrogatepass")


_PROPERTIES = [name for name, value in vars(RequestView).items() if isinstance(value, property)]


@cache
def _jobs() -> list[dict[str, Any]]:
    """Valid jobs: the example, and those of the golden requests."""
    example = yaml.safe_load((ROOT / "examples" / "ddp" / "job.yaml").read_text())
    golden = [json.loads(file.read_text()) for file in sorted((ROOT / "tests" / "golden").glob("*.json"))]
    jobs = [example, *(each["job"] for each in golden)]
    return [{**job, "code": {**job["code"], "source_dir": "src"}} for job in jobs]


@cache
def _requests() -> list[dict[str, Any]]:
    golden = [json.loads(file.read_text()) for file in sorted((ROOT / "tests" / "golden").glob("*.json"))]
    return [{**each["request"], "TrainingJobName": "digits-0unique"} for each in golden]


@cache
def _required() -> frozenset[str]:
    """Every member that the API's model requires somewhere in the request of a training job."""
    model = botocore.session.get_session().get_service_model("sagemaker")
    return frozenset(_required_in(model.operation_model("CreateTrainingJob").input_shape, set()))


def _required_in(shape: Any, seen: set[str]) -> Iterator[str]:
    if shape.name in seen:
        return
    seen.add(shape.name)
    if shape.type_name == "structure":
        yield from shape.required_members
        for member in shape.members.values():
            yield from _required_in(member, seen)
    elif shape.type_name == "list":
        yield from _required_in(shape.member, seen)


@cache
def _clusters() -> list[dict[str, Any]]:
    return [yaml.safe_load(file.read_text()) for file in sorted((ROOT / "clusters").glob("*.yaml"))]


@cache
def _manifest_data() -> dict[str, Any]:
    """A manifest as the stacks write it, with all its parts."""
    text = yaml.safe_load((ROOT / "attack" / "fuzzing" / "manifest.yaml").read_text())
    Cluster.model_validate(text)
    return dict(text)


def _status_data(job: Path) -> dict[str, Any]:
    return {
        "name": "digits-0unique",
        "folder": str(job),
        "launcher": {"pid": 2**22 + 1, "started": 1.0},
        "hosts": 1,
        "state": "Failed",
        "phase": "Failed",
        "failure_reason": "AlgorithmError: planted, exit code: 1",
        "started": 1_790_000_000.0,
        "ended": 1_790_000_100.0,
    }


@cache
def _real_lines() -> list[str]:
    files = sorted((ROOT / "tests" / "logs").glob("*.log"))
    return [line for file in files for line in file.read_text(errors="replace").splitlines() if line.strip()]

"""What is fuzzed: for each area a case, drawn part by part, and the code of the launcher that takes it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from hypothesis.strategies import (
    SearchStrategy,
    binary,
    booleans,
    floats,
    integers,
    lists,
    none,
    sampled_from,
    tuples,
)

from launcher.backends.interface import Backend, JobState, JobStatus, LogBatch, LogLine
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.python import Machine, this_machine
from launcher.cli.interaction import print_json
from launcher.cli.job_view import JobView
from launcher.cluster.files import ClusterFileError, load_cluster_file
from launcher.cluster.manifest import cached_manifests
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import shown
from launcher.experiments.run_comparison import RunSide, compare, verdicts
from launcher.experiments.run_measures import Series
from launcher.planning.job_cost import cost_in_words
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import JobSource, code_of, prepare, read_job
from launcher.session.runs.climb_ladder import LadderRequest, ReadyLadder, prepare_ladder
from launcher.session.runs.compare_runs import facts_of_plans, series_of
from launcher.session.runs.follow_job import Monitor
from launcher.session.submit_job import Start, plan_resumption
from tools.attack.fuzzing.handing_over import (
    REGION,
    command,
    in_place,
    nobody_is_killed,
    prepared,
    unless_refused,
)
from tools.attack.fuzzing.lines import odd_lines
from tools.attack.fuzzing.mutations import mutated, mutated_in_kind, odd_values, of_ten, written
from tools.attack.fuzzing.valid_inputs import (
    real_lines,
    required_members,
    valid_clusters,
    valid_jobs,
    valid_manifest,
    valid_requests,
    valid_status,
)

LINES_IN_A_CASE = 5

Draw = Callable[[SearchStrategy[Any]], Any]

_CHANGED = ("resources.instance_count", "distribution.strategy", "hyperparameters.lr", "framework.version")
_SETTINGS = ("2", "0", "torchrun", "smddp", "latest", "null", "[a, b]", "{a: 1}", "1e400", "${NOWHERE}")
"""What two runs are made to differ in, for good or ill."""


@dataclass(frozen=True, slots=True)
class Area:
    """One kind of input. `attack` draws a case, makes it in a folder, and hands it over."""

    name: str
    what: str
    attack: Callable[[Draw, Path], None]


def _one(draw: Draw, of: Sequence[Any]) -> Any:
    return draw(sampled_from(of))


def _changed(draw: Draw, of: Sequence[Any]) -> bytes:
    """One of these documents, changed and written."""
    return draw(written(draw(mutated(_one(draw, of)))))


def _job_file(draw: Draw, folder: Path) -> None:
    """Planned as `launch check` and `launch plan` do; one of ten by the command itself."""
    file = in_place(folder, "job.yaml", _changed(draw, valid_jobs()))
    if draw(of_ten(1)):
        command(_one(draw, ("check", "plan")), "job.yaml", "--output", _one(draw, ("text", "json")))
        return
    plan = prepared(file)
    if plan is not None:
        json.dumps([finding.to_json() for finding in plan.findings])


def _experiment(draw: Draw, folder: Path) -> None:
    """What a ladder and a pair make of a job file before anything runs; one of ten by the command itself."""
    file = in_place(folder, "job.yaml", _changed(draw, valid_jobs()))
    sides = [
        f"{field}={_one(draw, _SETTINGS)}"
        for field in draw(lists(sampled_from(_CHANGED), min_size=2, max_size=2, unique=True))
    ]
    if draw(of_ten(1)):
        of_pair = ("pair", "job.yaml", "--set", sides[0], "--set", sides[1])
        of_ladder = ("ladder", "job.yaml", "--from", "1-host")
        command(*_one(draw, (of_pair, of_ladder, ("plan", "job.yaml", "--pair"))))
        return
    unless_refused(lambda: _ladder(LadderRequest(JobSource(file, overrides=sides[:1]), steps=3)))
    plans = [unless_refused(lambda side=side: _planned(JobSource(file, overrides=[side]))) for side in sides]
    if all(plan is not None and plan.request is not None for plan in plans):
        unless_refused(lambda: facts_of_plans(plans[0], plans[1]))


def _planned(source: JobSource) -> TrainingPlan:
    return prepare(read_job(source), session_region=REGION)


def _ladder(wanted: LadderRequest) -> ReadyLadder:
    loaded = read_job(wanted.job)
    return prepare_ladder(wanted, loaded, code_of(loaded), _machine(), REGION)


@cache
def _machine() -> Machine:
    return this_machine(None, os.environ)


def _cluster_file(draw: Draw, folder: Path) -> None:
    file = in_place(folder, "cluster.yaml", _changed(draw, valid_clusters()))
    try:
        spec = load_cluster_file(file)
    except ClusterFileError as error:
        str(error)
        return
    spec.addresses  # noqa: B018 - a property that computes
    spec.queue_instances  # noqa: B018 - a property that computes


def _manifest(draw: Draw, folder: Path) -> None:
    """By its path and as what this machine kept; either way with a job for it."""
    content = _changed(draw, [valid_manifest()])
    kept = folder / "cache" / "slipway" / "clusters"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "dev.json").write_bytes(content)
    in_place(folder, "dev.json", content)
    job = {**valid_jobs()[0], "cluster": _one(draw, ("dev", "./dev.json"))}
    prepared(in_place(folder, "job.yaml", yaml.safe_dump(job).encode()))
    cached_manifests()


def _local_state(draw: Draw, folder: Path) -> None:
    """The files of a local job, read by the commands that look at it; nothing is started and none killed."""
    job = folder / ".slipway" / "local" / "digits-0unique"
    host = job / "hosts" / "algo-1"
    (host / "ml").mkdir(parents=True, exist_ok=True)
    status, request, times = valid_status(job), valid_requests()[0], b"10 1790000000.000\n20 1790000001.000\n"
    spoilt = _one(draw, ("status", "request", "times", "log"))
    (job / "status.json").write_bytes(_json_or_worse(draw, status, spoilt == "status"))
    (job / "request.json").write_bytes(_json_or_worse(draw, request, spoilt == "request"))
    (host / "log.times").write_bytes(draw(binary(max_size=40)) if spoilt == "times" else times)
    (host / "log").write_bytes(draw(binary(max_size=200)) if spoilt == "log" else b"step=1\nstep=2\nstep=3\n")
    os.chdir(folder)
    with nobody_is_killed():
        which = draw(integers(0, 4))
        if which == 0:
            command("list", "--local", "--output", _one(draw, ("text", "json")))
        elif which == 4:
            unless_refused(
                lambda: plan_resumption(Start(LocalBackend(folder / ".slipway/local")), "digits-0unique")
            )
        else:
            command(("status", "logs", "diagnose")[which - 1], "digits-0unique")


def _request(draw: Draw, folder: Path) -> None:
    """A described job, of which AWS keeps the types; and of ten one file that `plan --diff` is given."""
    request = _one(draw, valid_requests())
    if draw(of_ten(1)):
        in_place(folder, "request.json", _changed(draw, [request]))
        in_place(folder, "job.yaml", yaml.safe_dump(valid_jobs()[0]).encode())
        command("plan", "job.yaml", "--diff", "request.json")
        return
    view = RequestView(draw(mutated_in_kind(request, required_members())))
    for name in _PROPERTIES:
        getattr(view, name)
    cost_in_words(view, REGION)


def _log_lines(draw: Draw, folder: Path) -> None:
    """Through all that reads a job's lines, from the progress to the comparison of two jobs."""
    texts = draw(odd_lines(real_lines(), LINES_IN_A_CASE))
    lines = [LogLine(1_790_000_000.0 + n, f"algo-{1 + n % 2}", text) for n, text in enumerate(texts)]
    from rich.console import Console

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    view = JobView(Console(file=out, force_terminal=draw(booleans())))
    monitor = Monitor(view)
    status = JobStatus(name="digits-0unique", state=JobState.IN_PROGRESS, phase="Training", hosts=2)
    monitor.status(status)
    monitor.lines(lines)
    monitor.status(status)
    with redirect_stdout(out):
        for line in lines:
            print_json({"time": line.time, "host": line.host, "text": line.text}, indent=None)
    json.dumps(diagnose(lines, _one(draw, texts)).to_json())
    sides = [RunSide(label, _read(draw, lines, status)) for label in ("A", "B")]
    verdicts(compare(sides[0], sides[1]))
    for text in texts:
        shown(text)


_ODD = sampled_from(("nan", "inf", "-inf", "1e308", "-1e308", "0", "1e-320"))
_MEASURED = tuples(
    of_ten(1).flatmap(lambda odd: _ODD if odd else none()),
    of_ten(1).flatmap(lambda odd: _ODD if odd else floats(0.5, 1.5).map("{:.4f}".format)),
    floats(0, 1),
)


def _read(draw: Draw, lines: Sequence[LogLine], status: JobStatus) -> Series:
    """What is read of a run that printed these lines among losses of its own, some of them odd."""
    for step, (number, loss, seconds) in enumerate(draw(lists(_MEASURED, max_size=79))):
        text = f"step={step if number is None else number} loss={loss}"
        lines = [*lines, LogLine(1_790_000_000.0 + seconds * step, "algo-1", text)]
    backend = mock.create_autospec(Backend, instance=True)
    backend.read_logs.side_effect = [LogBatch(lines, {}), LogBatch([], {})]
    return series_of(backend, status)


AREAS: tuple[Area, ...] = (
    Area("job files", "check and plan", _job_file),
    Area("experiments", "job files: ladder, pair, plan --pair", _experiment),
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
        f"{LINES_IN_A_CASE} a case: progress, stall, screen, JSON, diagnosis, comparison, redaction",
        _log_lines,
    ),
)


_PROPERTIES = [name for name, value in vars(RequestView).items() if isinstance(value, property)]


def _json_or_worse(draw: Draw, data: dict[str, Any], spoilt: bool) -> bytes:
    if not spoilt:
        return json.dumps(data).encode()
    if draw(of_ten(1)):
        return json.dumps(draw(odd_values), default=str, skipkeys=True).encode()
    text = json.dumps(draw(mutated(data)), default=str, skipkeys=True)
    if draw(of_ten(2)):
        text = text[: draw(integers(0, len(text)))]
    return text.encode("utf-8", "surrogatepass")

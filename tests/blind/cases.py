"""Blind examples: programs and logs that were written from a failure mode's title and sources by who did not
know the rules.

`scripts/CODE.test` holds programs with the failure mode and tempting ones that are right:

    [case a trainer class whose barrier stands under a property that says who leads]
    # style: 4
    # expect: DDP004
    # line: trainer.py:31
    # why: the other ranks never come to it
    # job: {"instance_type": "ml.p4d.24xlarge", "hyperparameters": {"epochs": 3}}

    ...train.py...
    [file trainer.py]
    ...

`# expect: nothing` is a right program, in which there is no error or warning of the file's code.
`logs/FAMILY.test` holds logs of which a mode is the root cause (`# code: NCCL004`), with `# rank: 3` where
they show it, and `# verdict: healthy` where the job did not fail of it; HEALTHY.test those in which nothing
failed. `jobs/FAMILY.test` holds job files in the same way, with the files beside them: `[file src/train.py]`.
`runs/FAMILY.test` holds programs that are really run, by `launch --local`, of which a mode is the root cause;
its `# job:` may say `processes_per_host`.

An example is of the first set unless it says `# half: second` or a later one. Each set was looked at once
before rules were mended by it; the rules have not been mended by the last.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from launcher.diagnosis.diagnose import diagnose
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import CATALOGUE
from launcher.session.prepare_plan import JobSource, prepare, read_job
from tests.case_files import Part, read_parts
from tests.diagnosis.cases import records

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"
"""How many examples of each cell are judged right, and of how many: `python -m tools.checks.blind`."""
HALVES = ("first", "second", "third", "fourth", "fifth", "sixth")
FOLDERS = {Stage.SCRIPT: "scripts", Stage.SPEC: "jobs", Stage.LOG: "logs", Stage.RUNTIME: "runs"}
QUICK = (Stage.SCRIPT, Stage.SPEC, Stage.LOG)
"""The stages whose examples are judged in seconds; those that are run are judged where they are asked for."""
ENTRY = "train.py"
JOB_FILE = "job.yaml"
_HEADING = re.compile(r"\[(case|file) (.+)\]")
_HEADER = re.compile(r"# (code|style|expect|half|line|why|job|rank|verdict): (.*)")
_RESOURCES = ("instance_type", "instance_count", "capacity", "volume_gb")
_CODE = ("arguments", "argument_style", "requirements")
_FRAMEWORK = {"name": "pytorch", "version": "2.8.0", "python": "py312"}
_PLAIN_JOB = {"checkpoint": {}, "inputs": {"train": "s3://acme-data/train"}}
"""What the writers were told: torchrun on two hosts of eight GPUs, which keep /opt/ml/checkpoints."""
_COMPILER = {"name": "pytorch", "version": "1.13.1", "python": "py39"}


@dataclass(frozen=True)
class Example:
    """A program or log with what was expected of it before anybody judged it.

    `expected` is false for what is right or healthy though it looks otherwise. A program has its `files`, of
    which ENTRY is started, and perhaps its `job`; a log is a text, perhaps with the `rank` that failed.
    """

    code: str
    stage: Stage
    name: str
    place: str
    expected: bool
    files: Mapping[str, str]
    job: Mapping[str, Any] | None = None
    rank: int | None = None
    is_healthy: bool = False


def examples(half: str, stage: Stage) -> Iterator[Example]:
    """The examples of a half, by their codes."""
    for file in sorted((FOLDER / FOLDERS[stage]).glob("*.test")):
        parts = read_parts(file, _HEADING)
        for number, part in enumerate(parts):
            if part.kind == "case" and _headers(part).get("half", "first") == half:
                others = takewhile(lambda other: other.kind == "file", parts[number + 1 :])
                yield _example(part, stage, {each.name: "\n".join(each.lines) + "\n" for each in others})


def _head(part: Part) -> list[str]:
    return list(takewhile(str.strip, part.lines))


def _headers(part: Part) -> dict[str, str]:
    return dict(match.groups() for match in map(_HEADER.fullmatch, _head(part)) if match)


def _example(part: Part, stage: Stage, others: Mapping[str, str]) -> Example:
    head, headers = _head(part), _headers(part)
    code, expected = headers.get("code", part.file.stem), headers["expect"]
    if expected not in (code, "nothing"):
        raise part.bad(f"`{expected}` is expected of a case of {code}")
    return Example(
        code,
        stage,
        part.name,
        f"{part.file.relative_to(FOLDER.parent.parent)}:{part.number}",
        expected == code,
        {JOB_FILE if stage is Stage.SPEC else ENTRY: "\n".join(part.lines[len(head) + 1 :]) + "\n", **others},
        json.loads(headers["job"]) if "job" in headers else None,
        int(headers["rank"]) if "rank" in headers else None,
        headers.get("verdict") == "healthy",
    )


def judge_script(case: Example, folder: Path) -> list[Finding]:
    """What `launch check` says of a program, in its job or in the one that its writer had in mind."""
    _write(folder / "src", case.files)
    return _check(folder, yaml.safe_dump(_job_fields(_PLAIN_JOB if case.job is None else case.job)))


def judge_job(case: Example, folder: Path) -> list[Finding]:
    """What `launch check` says of a job file; a script that it does not need prints a line."""
    _write(folder, {f"src/{ENTRY}": "print('trained')\n", **case.files})
    return _check(folder, case.files[JOB_FILE])


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def _check(folder: Path, job: str) -> list[Finding]:
    (folder / JOB_FILE).write_text(job, "utf-8")
    plan = prepare(read_job(JobSource(folder / JOB_FILE, allow_env=())), session_region="us-west-2")
    return list(plan.findings)


def _job_fields(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The job file of plain fields: what its sections hold may stand at the top."""
    fields = dict(plain)
    strategy = fields.get("distribution", {}).get("strategy", "torchrun").replace("pytorchxla", "torch_xla")
    host = "ml.p3.16xlarge" if strategy == "torch_xla" else "ml.p4d.24xlarge"
    resources = {"instance_type": host, "instance_count": 2, **fields.pop("resources", {})}
    resources |= {name: fields.pop(name) for name in _RESOURCES if name in fields}
    code = {"source_dir": "src", "entry_point": ENTRY, **fields.pop("code", {})}
    code |= {name: fields.pop(name) for name in _CODE if name in fields}
    if fields.pop("spot", None):
        resources["capacity"] = "spot"
    retries = fields.pop("retries", fields.pop("retry", 0))
    retries = retries.get("attempts", 3) if isinstance(retries, dict) else int(retries)
    limits = {"max_runtime": "12h", "max_retries": retries, **fields.pop("limits", {})}
    return {
        "name": "blind",
        "region": "us-west-2",
        "role_arn": "arn:aws:iam::111122223333:role/training",
        "framework": _COMPILER if strategy == "torch_xla" else _FRAMEWORK,
        "output": {"s3_uri": "s3://acme-output/blind"},
        **fields,
        "code": code,
        "distribution": {"strategy": strategy},
        "limits": limits,
        "resources": resources,
    }


@dataclass(frozen=True)
class Verdict:
    """An example, whether the verdict on it is right, and what was found."""

    case: Example
    is_right: bool
    said: str


def verdicts(half: str, codes: Collection[str] = (), stages: Iterable[Stage] = QUICK) -> Iterator[Verdict]:
    """The verdicts on the examples of a half, of some codes or of all."""
    for stage in stages:
        chosen = [case for case in examples(half, stage) if not codes or case.code in codes]
        if stage is Stage.RUNTIME:
            with ThreadPoolExecutor(2) as pool:
                yield from pool.map(_judged_run, chosen)
        else:
            yield from map(_judged_log if stage is Stage.LOG else _judged_files, chosen)


def _judged_files(case: Example) -> Verdict:
    """The mode is found; or, in what is right, there is no error or warning of it."""
    judge = judge_job if case.stage is Stage.SPEC else judge_script
    with TemporaryDirectory() as folder:
        findings = [each for each in judge(case, Path(folder)) if not each.ignored]
    own = [each for each in findings if each.code == case.code]
    is_right = bool(own) if case.expected else all(each.severity is Severity.INFO for each in own)
    said = ", ".join(sorted({f"{each.code} {each.severity.value}" for each in findings})) or "nothing"
    return Verdict(case, is_right, said)


def _judged_log(case: Example) -> Verdict:
    """The mode is the root cause, or is told where it ended no job; a rank that is named is right."""
    told = diagnose(records(case.files[ENTRY]))
    root = told.root_cause
    if case.is_healthy:
        is_right = case.code in {each.code for each in told.findings}
    else:
        is_right = (root.finding.code if root else None) == (case.code if case.expected else None)
    rank = root.rank if root else None
    wrong_rank = case.rank is not None and rank not in (None, case.rank)
    said = f"{told.verdict.value}, {root.finding.code if root else 'no cause'}, rank {rank} ({case.rank})"
    return Verdict(case, is_right and not wrong_rank, said)


def _judged_run(case: Example) -> Verdict:
    """The mode is what the run is said to have failed of, and of the right rank."""
    plain = {"limits": {"max_runtime": "5m"}, "watchdog": {"stall": "40s"}, **(case.job or {})}
    processes = plain.pop("processes_per_host", 2)
    job = {"instance_type": "ml.m5.xlarge", "instance_count": 1, **plain}
    with TemporaryDirectory() as folder:
        _write(Path(folder), {f"src/{name}": text for name, text in case.files.items()})
        (Path(folder) / JOB_FILE).write_text(yaml.safe_dump(_job_fields(job)), "utf-8")
        ignored = [word for mode in CATALOGUE for word in ("--ignore", mode)]
        command = [sys.executable, "-m", "launcher.cli.app", JOB_FILE, "--local", "--yes", "--output", "json"]
        ended = subprocess.run(
            [*command, "--processes", str(processes), *ignored],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(FOLDER.parent.parent)},
            capture_output=True,
            text=True,
            timeout=1200,
        )
    if not ended.stdout.startswith("{"):
        return Verdict(case, case.expected and f" {case.code} " in ended.stderr, ended.stderr[-300:])
    result = json.loads(ended.stdout)
    # What did not end the job is a warning of its result.
    reason = result.get("failure") or result.get("stop")
    told = [reason] if reason else result.get("warnings", [])
    codes = {each["code"] for each in told}
    right = [each for each in told if each["code"] == case.code]
    ranks = {each.get("rank") for each in right}
    wrong_rank = case.rank is not None and bool(right) and not ranks & {None, case.rank}
    said = f"{result.get('state')}, {', '.join(sorted(codes)) or 'no cause'}, rank {ranks} ({case.rank})"
    return Verdict(case, (bool(right) if case.expected else not codes) and not wrong_rank, said)


def counts_of(found: Iterable[Verdict]) -> dict[str, dict[str, list[int]]]:
    """How many examples of each cell are judged right, and how many there are, by code and stage."""
    counts: dict[str, dict[str, list[int]]] = {}
    for each in sorted(found, key=lambda verdict: verdict.case.code):
        count = counts.setdefault(each.case.code, {}).setdefault(each.case.stage.value, [0, 0])
        count[0] += each.is_right
        count[1] += 1
    return counts

"""One incident by its number: its files, and whether a diagnosis of them is right."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from launcher.session.log_files import logs_in
from tests.diagnosis.incidents.job import Job, drawn
from tests.diagnosis.incidents.others import noise, steps, survived
from tests.diagnosis.incidents.roots import ROOTS, Expected, earlier
from tests.diagnosis.incidents.writing import written


class Grade(StrEnum):
    """How right a diagnosis is, in a word."""

    RIGHT = "right"
    NONE = "none"
    WRONG_ROOT = "wrong root"
    WRONG_RANK = "wrong rank"
    RANK_NOT_NAMED = "rank not named"
    WRONG_RETRY = "wrong retry"


@dataclass(frozen=True)
class Told:
    """An incident: what kind it is, how it was drawn, what is right, and its files by their paths."""

    seed: int
    kind: str
    job: Job
    expected: Expected
    files: dict[str, bytes]

    def diagnosis(self) -> Diagnosis:
        """What is said of the files, as `launch diagnose --log FOLDER` reads them."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            logs = logs_in([Path(folder)])
            return diagnose(logs.records, streams=logs.streams, evidence=logs.evidence)

    def grade(self, found: Diagnosis) -> Grade:
        """How right it is; a wrong answer is worse than none."""
        cause, expected = found.root_cause, self.expected
        if cause is None:
            return Grade.NONE
        if cause.finding.code not in expected.codes:
            return Grade.WRONG_ROOT
        if cause.rank is not None and cause.rank != expected.culprit:
            return Grade.WRONG_RANK
        if cause.rank is None and expected.culprit is not None and expected.is_shown:
            return Grade.RANK_NOT_NAMED
        if expected.retry is not None and found.retry != expected.retry:
            return Grade.WRONG_RETRY
        return Grade.RIGHT


def told(seed: int) -> Told:
    """The incident of this number: every kind comes again after as many numbers as there are kinds."""
    kind = list(ROOTS)[seed % len(ROOTS)]
    job = drawn(seed)
    if kind == "stopped" and not job.has_agents:
        job.layout = "hosts"
    if kind == "two at once" and job.hosts == 1:
        job.ranks, job.skews = 16, (*job.skews, 0.0)
    if job.sagemaker:
        for host in range(job.hosts):
            job.of_host(
                0.5, host, "\x05 sagemaker-training-toolkit INFO     Invoking user script", whole=True
            )
    noise(job, 1)
    at = 10.0
    if job.has_agents and job.layout != "ranks" and job.chance.random() < 0.25:
        at = steps(job, 1, 9, at)
        earlier(job, at + 1)
        job.attempt = 1
        at += 40
    at = steps(job, 10, 19, at)
    if job.chance.random() < 0.3:
        survived(job, at + 1)
    at = steps(job, 20, 24 if job.chance.random() < 0.5 else 90, at + 2)
    expected = ROOTS[kind](job, at + 1.5)
    return Told(seed, kind, job, expected, written(job))

"""A job file of a program that uses the SageMaker SDK: what it gives to an estimator or a trainer.

Version 2 has an estimator for each framework and a job by its `fit`, version 3 a `ModelTrainer` and its
`train`. What the program's reader cannot follow is a question.
"""

from __future__ import annotations

from launcher.drafts.job_draft import DraftField, DraftQuestion, JobDraft
from launcher.drafts.sdk.estimator import EstimatorReading
from launcher.drafts.sdk.keywords import OTHER_CLASSES, POSITIONS
from launcher.drafts.sdk.reading import Lines, SdkJob, SdkReading
from launcher.drafts.sdk.trainer import TrainerReading
from launcher.drafts.sdk.tuner import parts_with_tuning
from launcher.program.index import file_of
from launcher.program.program import Program, write_out_unpacked


def find_sdk_jobs(program: Program, lines: Lines) -> list[SdkJob]:
    """The estimators and trainers that a program makes, in the order of its lines."""
    found = []
    for file in program.files:
        for kind in POSITIONS:
            for last in sorted(program.known_as({kind})):
                for call in file.calls_of.get(last, ()):
                    name = program.qualified(call.func) or ""
                    if name.startswith("sagemaker.") and name.rpartition(".")[2] == kind:
                        write_out_unpacked(program, call)
                        found.append(SdkJob(kind, call, lines(file, call.lineno)))
    unique = {id(each.call): each for each in found}
    return sorted(unique.values(), key=lambda each: (str(file_of(each.call).path), each.call.lineno))


def find_other_classes(program: Program, lines: Lines) -> list[str]:
    """What else a program makes of the SDK, each with its line."""
    return [
        f"{name} ({lines(file, call.lineno)})"
        for file in program.files
        for name in OTHER_CLASSES
        for call in file.calls_of.get(name, ())
    ]


def draft_of_sdk_job(program: Program, job: SdkJob, lines: Lines, *, name: str, origin: str) -> JobDraft:
    """The job file of one of them; `name` is for a job that its program does not name."""
    kind = TrainerReading if job.kind == "ModelTrainer" else EstimatorReading
    reading: SdkReading = kind(program, job, lines)
    parts = [*parts_with_tuning(reading, name)]
    fields = tuple(each for each in parts if isinstance(each, DraftField))
    questions = tuple(each for each in parts if isinstance(each, DraftQuestion))
    sentences = [origin, *reading.notes]
    if reading.lost:
        sentences.append(f"Left out, as job files have no words for it: {', '.join(reading.lost)}.")
    return JobDraft(" ".join(sentences), fields, questions, kept_out=tuple(reading.kept_out))

"""Credentials where everyone who may describe the job can read them. Their values are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject
from launcher.text.secrets import credential_in

# Names that say of their value that it is one. Words like pad_token and max_tokens are none of them.
_NAME = re.compile(
    r"(?:^|_)(?:secret_?access_?key|access_?key_?id|session_?token|secret_?key|private_?key|api_?key|apikey"
    r"|password|passwd|passphrase|client_?secret|secret"
    r"|(?:access|auth|api|bearer|refresh|security|hf|hub|huggingface|huggingfacehub|github|gitlab|gh|wandb"
    r"|slack|hugging_?face_?hub)_?token)$"
    r"|^token$"
)
# Values that only point to a secret, switch something, or name nothing.
_NO_SECRET = re.compile(
    r"arn:.*|s3://.*|(?:/[\w.-]+){2,}|\{\{resolve:.*\}\}|true|false|none|null|yes|no|[-+.\d]+|<.*>|\*+",
    re.IGNORECASE,
)
_SHORTEST = 8


@finds(Stage.SPEC, job_file.CREDENTIAL)
def no_credentials(subject: JobSubject) -> Iterator[Finding]:
    """Environment, hyperparameters (at any depth) and arguments, by the form of a value or by its name.

    A run on this machine stores nothing at AWS: there it is a warning.
    """
    would = (
        "on AWS it would be stored in clear text with the job, and the service would refuse it; here "
        "it is kept in the run's folder"
        if subject.here
        else "it would be stored in clear text with the job, and the service refuses requests in which it "
        "finds credentials"
    )
    for path, name, value in _texts(subject):
        shown = _masked(name)
        what = credential_in(value) or credential_in(name) or _named(name, value)
        if what:
            field = ".".join(_masked(str(part)) for part in path)
            yield job_file.CREDENTIAL.at(
                path,
                f"{shown} in {path[0]} looks like {what}: {would}",
                severity=Severity.WARNING if subject.here else None,
                subject=field,
            )


def _texts(subject: JobSubject) -> Iterator[tuple[Path, str, str]]:
    for name, value in subject.job.environment.items():
        yield ("environment", name), name, value
    for name, item in subject.job.hyperparameters.items():
        for inner, text in _leaves(name, item):
            yield ("hyperparameters", name), inner, text
    arguments = subject.job.code.arguments
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if not equals and argument.startswith("-") and index + 1 < len(arguments):
            value = arguments[index + 1]
        is_flag = argument.startswith("-") and bool(value)
        yield (
            ("code", "arguments", index),
            name.lstrip("-") if is_flag else "an argument",
            value if is_flag else argument,
        )


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(str(key), item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(name, item)
    else:
        yield name, str(value)


def _named(name: str, value: str) -> str | None:
    if not _NAME.search(name.replace("-", "_").replace(".", "_").lower()):
        return None
    text = value.strip()
    if len(text) < _SHORTEST or _NO_SECRET.fullmatch(text):
        return None
    return "a credential by its name"


def _masked(name: str) -> str:
    return "a name" if credential_in(name) else name

"""Credentials where everyone who may describe the job can read them. Their values are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject

Path = tuple[str | int, ...]

# What a credential looks like by itself: the published forms of those who issue them.
_FORMS = (
    ("an AWS access key id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY"),
    ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})"),
    ("a GitLab token", r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("a Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("a Slack token", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    ("an API key", r"\b(?:sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35})"),
    ("a JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\."),
    ("a password in a URL", r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/:@]+@"),
    ("an AWS secret", r"(?i)\baws_?(?:secret_?access_?key|session_?token)\s*[=:]\s*[A-Za-z0-9/+]{16,}"),
)
_SHAPES = tuple((what, re.compile(form)) for what, form in _FORMS)

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
    r"arn:.*|s3://.*|(?:/[\w.-]+){2,}\.?[\w-]*|\{\{resolve:.*\}\}|true|false|none|null|yes|no|[-+.\d]+|<.*>|\*+",
    re.IGNORECASE,
)
_SHORTEST = 8


@finds(Stage.SPEC, job_file.CREDENTIAL)
def no_credentials(subject: JobSubject) -> Iterator[Finding]:
    """Environment, hyperparameters (at any depth) and arguments, by the form of a value or by its name."""
    for path, name, value in _texts(subject):
        shown = _masked(name)
        what = _shape(value) or _shape(name) or _named(name, value)
        if what:
            field = ".".join(_masked(str(part)) for part in path)
            yield job_file.CREDENTIAL.finding(
                Stage.SPEC,
                f"{shown} in {path[0]} looks like {what}: it would be stored in clear text with the job, and "
                "the service refuses requests in which it finds credentials",
                location=subject.locate(*path),
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


def _shape(text: str) -> str | None:
    return next((what for what, shape in _SHAPES if shape.search(text)), None)


def _named(name: str, value: str) -> str | None:
    if not _NAME.search(name.replace("-", "_").replace(".", "_").lower()):
        return None
    text = value.strip()
    if len(text) < _SHORTEST or _NO_SECRET.fullmatch(text):
        return None
    return "a credential by its name"


def _masked(name: str) -> str:
    return "a name" if _shape(name) else name

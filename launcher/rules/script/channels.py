"""The channels that a script reads, against those that the job has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.declared_options import as_attribute, is_given
from launcher.rules.script.finding import found
from launcher.rules.script.subject import ScriptSubject
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, last_name, parent_of
from launcher.scripts.values import External
from launcher.text.nearest import nearest

VARIABLE = "SM_CHANNEL_"
FOLDER = "/opt/ml/input/data"
_ANY = frozenset({"SM_CHANNELS", "SM_INPUT_DIR", "SM_TRAINING_ENV", "SM_INPUT_DATA_CONFIG"})
"""Variables by which a script may read channels whose names it does not write."""


@dataclass(frozen=True, slots=True)
class ChannelRead:
    """A place that names a channel: `key` as SageMaker's variable has it; whether it must be there."""

    node: ast.expr
    key: str
    name: str
    is_needed: bool
    by_variable: bool


@finds(Stage.SCRIPT, data.CHANNELS_DIFFER)
def channels_are_there(subject: ScriptSubject) -> Iterator[Finding]:
    """A channel that the script reads and the job lacks, or one that the job has and nobody reads.

    `os.environ["SM_CHANNEL_TRAIN"]` without a channel `train` is a KeyError on every host, once they run. A
    path below /opt/ml/input/data that is not there is a warning, as the script may not come to it, and so is
    a channel that no text of the script, hyperparameter or argument names: every host downloads it for
    nothing. Reads under a test or in a try statement, and options that the job gives, are left alone.

    Bad: `parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAINING"])`, for a job with `train`
    Good: `parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAIN"])`

    Source: SageMaker's documentation of training storage.
    """
    # The job's models cost time that a lint without a job does not pay.
    from launcher.jobs.checkpoint import CHECKPOINT_CHANNEL
    from launcher.jobs.inputs import RESERVED_CHANNEL

    job, program = subject.job, subject.program
    there = {_key(name) for name in (*job.inputs, RESERVED_CHANNEL, CHECKPOINT_CHANNEL)}
    there |= {name.removeprefix(VARIABLE) for name in job.environment if name.startswith(VARIABLE)}
    reads = list(_reads(program))
    for read in reads:
        option = _option_of(read.node)
        if read.key in there or not read.is_needed or (not read.by_variable and _is_given(subject, option)):
            continue
        meant = nearest(read.name, list(job.inputs))
        has = ", ".join(sorted(job.inputs)) or "none"
        what = "KeyError" if read.by_variable else "no such folder on the hosts"
        yield found(
            data.CHANNELS_DIFFER,
            read.node,
            f"the job has no channel `{read.name}` (it has {has}): {what}",
            severity=None if read.by_variable else Severity.WARNING,
            remedy=f"Did you mean the channel `{meant[0]}`?" if meant else None,
        )
    if reads and not _reads_any(program):
        texts = {text.lower() for text in _texts(subject)}
        for name in job.inputs:
            if _key(name) not in {read.key for read in reads} and not any(
                name.lower() in text for text in texts
            ):
                yield found(
                    data.CHANNELS_DIFFER,
                    reads[0].node,
                    f"the script reads other channels, and nowhere `{name}` of the job: every host downloads "
                    "it for nothing",
                    severity=Severity.WARNING,
                    remedy=f"Remove `inputs.{name}`, or read it from {VARIABLE}{_key(name)}.",
                )


def _key(name: str) -> str:
    return name.upper()


def _reads(program: Program) -> Iterator[ChannelRead]:
    for file in program.files:
        for node in ast.walk(file.tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            if node.value.startswith(VARIABLE) and len(node.value) > len(VARIABLE):
                yield from _by_variable(program, node, node.value)
            elif node.value.startswith(f"{FOLDER}/"):
                name = node.value[len(FOLDER) + 1 :].partition("/")[0]
                if name and not isinstance(parent_of(node), ast.JoinedStr | ast.Expr):
                    yield ChannelRead(node, _key(name), name, _is_sure(node), by_variable=False)


def _by_variable(program: Program, node: ast.Constant, variable: str) -> Iterator[ChannelRead]:
    """A read of SageMaker's variable of a channel; one that is set or deleted by the script is none."""
    key = variable.removeprefix(VARIABLE)
    parent = parent_of(node)
    if isinstance(parent, ast.Subscript) and program.value(parent.value) == External("os.environ"):
        needed = isinstance(parent.ctx, ast.Load) and _is_sure(parent)
        yield ChannelRead(parent, key, key.lower(), needed, by_variable=True)
    else:
        yield ChannelRead(node, key, key.lower(), False, by_variable=True)


def _is_sure(node: ast.AST) -> bool:
    """Whether an expression is surely evaluated, or meant, where its function runs."""
    inner = node
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return True
        if isinstance(outer, ast.If | ast.IfExp | ast.While):
            if inner is not outer.test and not _asks_for_main(outer.test):
                return False
            if inner is outer.test:
                return False
        if isinstance(outer, ast.Try | ast.BoolOp | ast.Compare | ast.ExceptHandler):
            return False
        if isinstance(outer, ast.Call) and last_name(outer.func) in ("exists", "isdir", "is_dir", "getenv"):
            return False
        if isinstance(outer, ast.Call) and last_name(outer.func) == "get" and inner is not outer.func:
            return False
        inner = outer
    return True


def _asks_for_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _option_of(node: ast.expr) -> str | None:
    """The option whose default an expression is."""
    for outer in ancestors(node):
        if isinstance(outer, ast.Call) and last_name(outer.func) == "add_argument":
            names = (each.value for each in outer.args if isinstance(each, ast.Constant))
            return next((as_attribute(str(each)) for each in names if str(each).startswith("-")), None)
        if isinstance(outer, ast.stmt):
            return None
    return None


def _is_given(subject: ScriptSubject, option: str | None) -> bool:
    return option is not None and is_given(subject.job, option)


def _reads_any(program: Program) -> bool:
    """Whether a script may read channels whose names it calculates."""
    for file in program.files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if (
                    text in _ANY
                    or text == VARIABLE
                    or text.rstrip("/") in (FOLDER, "/opt/ml/input", "/opt/ml")
                ):
                    return True
                if isinstance(parent_of(node), ast.JoinedStr) and (VARIABLE in text or FOLDER in text):
                    return True
    return False


def _texts(subject: ScriptSubject) -> Iterator[str]:
    """All that could name a channel: texts of the script, and what the job gives it."""
    for file in subject.program.files:
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    job = subject.job
    yield from map(str, (*job.hyperparameters.values(), *job.code.arguments, *job.environment.values()))

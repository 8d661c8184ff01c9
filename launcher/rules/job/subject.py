"""What the rules on a job judge."""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import NoReturn, Protocol

from launcher.cluster.instances import InstanceFacts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import Severity
from launcher.frozen import frozen
from launcher.jobs.job_sections import Code
from launcher.jobs.specification import JobSpec
from launcher.planning.training_plan import TrainingPlan
from launcher.program.program import Program
from launcher.program.surroundings.parsers import ScriptParser
from launcher.source.tree import NOTHING_SEEN, CommandLine, SourceTree
from launcher.text.values import nearest

SEARCHED_NAMES = frozenset(
    {
        "DistributedSampler",
        "FullyShardedDataParallel",
        "fully_shard",
        "deepspeed",
        "ZeroRedundancyOptimizer",
    }
)
"""The names in a script by which the rules see how it divides data and state."""


@frozen
class GivenVariable:
    """An environment variable that the user gave, and where: `path` leads to it in the job file, `line` is
    that of the shell script which the job starts."""

    name: str
    value: str
    path: tuple[str, ...]
    line: int | None = None


class RunPlace(StrEnum):
    """Where a job is to run: what is wrong in one place may be of no matter in another."""

    SAGEMAKER = "sagemaker"
    SLURM = "slurm"
    LOCAL = "local"


class SourceSubject(Protocol):
    """What the rules on the source judge by: a job, or what is readable of one whose file has errors."""

    @property
    def code(self) -> Code:
        """What the job file says of the code."""
        ...

    @property
    def source(self) -> SourceTree:
        """The code as it lies there."""
        ...


@frozen
class ReadableSource:
    """The source of a job whose file has errors elsewhere."""

    code: Code
    source: SourceTree


@frozen
class JobSubject:
    """A job with its plan and the facts about it; `facts` is None for an unknown instance type.

    What the plan has derived (processes, checkpoints, Debugger, who starts the script) is asked of `plan`.
    `cluster` is the manifest, None where there is none or it was not read yet. `names` are those of
    SEARCHED_NAMES that the source uses, `command_line` what the script's own parser is seen to take. `place`
    is where the job is to run, `starts_ranks` says that the script starts processes itself; `program` is the
    script with its modules, None where it is none of Python's or cannot be read.
    """

    job: JobSpec
    plan: TrainingPlan
    facts: InstanceFacts | None
    source: SourceTree
    cluster: Cluster | None = None
    names: frozenset[str] = frozenset()
    command_line: CommandLine = NOTHING_SEEN
    place: RunPlace = RunPlace.SAGEMAKER
    starts_ranks: bool = False
    program: Program | None = None

    @property
    def code(self) -> Code:
        """What the job file says of the code."""
        return self.job.code

    @property
    def here(self) -> bool:
        """Whether the job is to run on this machine."""
        return self.place is RunPlace.LOCAL

    @property
    def on_sagemaker(self) -> bool:
        """Whether it is to run on SageMaker, in a container of its image and with its service's options."""
        return self.place is RunPlace.SAGEMAKER

    @property
    def has_efa(self) -> bool:
        """Whether the instance type is known to have EFA; an unknown type is not."""
        return self.facts is not None and self.facts.has_efa

    @property
    def writes_to_lustre(self) -> bool:
        """Whether a Lustre directory is mounted writable as an input, where checkpoints may go as well."""
        return any(source.lustre is not None and source.access == "rw" for source in self.job.inputs.values())

    def variables(self) -> Iterator[GivenVariable]:
        """The user's environment, and what is exported with `-x NAME=VALUE` in the MPI options."""
        for name, value in self.job.environment.items():
            yield GivenVariable(name, value, ("environment", name))
        words = _words(str(self.job.distribution.options.get("mpi_options", "")))
        for flag, assignment in pairwise(words):
            name, equals, value = assignment.partition("=")
            if flag == "-x" and equals:
                yield GivenVariable(name, value, ("distribution", "options", "mpi_options"))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


@frozen
class SaidOfWords:
    """What is wrong with the words that a job gives, and where in the script; None is an error."""

    node: ast.AST
    message: str
    severity: Severity | None = None


WORDS_REMEDY = (
    "Give what the script requires, and correct what it does not take, in `hyperparameters` or "
    "`code.arguments`; or declare it in the script with add_argument."
)


def given_words(job: JobSpec) -> list[str]:
    """The words of the script's command line, in the order in which the container gives them."""
    style, named = job.code.argument_style, []
    for name, value in job.hyperparameters.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if style == "spaced":
            named += [f"-{name}" if len(name) == 1 else f"--{name}", str(text)]
        elif style == "equals":
            named.append(f"--{name}={ {'true': 'True', 'false': 'False'}.get(text, text) }")
    arguments = list(job.code.arguments)
    return [*named, *arguments] if style == "spaced" else [*arguments, *named]


def judge_words(
    parser: ScriptParser, words: list[str], script: str, giver: str = "the job"
) -> Iterator[SaidOfWords]:
    """What the parser says of these words: the first that argparse itself would stop at."""
    by_name = {name: each for each in parser.declared for name in each.names}
    try:
        _, left = _imitate(parser).parse_known_args(words)
    except (argparse.ArgumentError, _RefusedWords) as error:
        text = str(error)
        named = [name for name in by_name if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]
        if parser.knows_all or not text.startswith("ambiguous"):
            place = by_name[named[0]].node if named else parser.reading
            yield SaidOfWords(place, f"{script} would refuse the words of {giver} and exit: {text}")
        return
    unknown = [each.partition("=")[0] for each in left if each.startswith("-") and not _is_number(each)]
    unknown = [each for each in unknown if f"-{each}" not in by_name]  # Told by the rule on styles.
    if not parser.knows_all or not (parser.is_strict or parser.ignores):
        return
    for name in unknown:
        near = nearest(name, [each for each in by_name if each.startswith("--")])
        meant = f": did you mean {near[0]}?" if near else ""
        if parser.is_strict:
            yield SaidOfWords(
                parser.reading, f"{script} does not know {name}, which {giver} gives, and exits{meant}"
            )
        else:
            yield SaidOfWords(
                parser.reading,
                f"{script} ignores {name}, which {giver} gives{meant}",
                Severity.WARNING if near else Severity.INFO,
            )
    for option, value in pairwise(words):
        flag = by_name.get(option)
        if left and value in left and not unknown and flag is not None and "action" in flag.settings:
            if parser.is_strict:
                yield SaidOfWords(
                    flag.node, f"{option} takes no value, and {giver} gives it {value!r}: {script} exits"
                )
            elif value.lower() in ("false", "0", "no"):
                said = f"{option} {value} of {giver} switches {option} on: it takes no value"
                yield SaidOfWords(flag.node, said, Severity.WARNING)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


class _RefusedWords(Exception):
    """What argparse says before it exits."""


class _Imitation(argparse.ArgumentParser):
    """A parser that raises in place of exiting."""

    def error(self, message: str) -> NoReturn:
        raise _RefusedWords(message)


def _imitate(parser: ScriptParser) -> argparse.ArgumentParser:
    """argparse with the same words, whose conversions are those of Python's own types alone."""
    made = _Imitation(
        add_help=False,
        exit_on_error=False,
        conflict_handler="resolve",
        allow_abbrev=parser.abbreviates,
    )
    made.add_argument("-h", "--help", action="store_true")
    for number, each in enumerate(parser.declared):
        settings = dict(each.settings)
        if each.names[0].startswith("-"):
            made.add_argument(*each.names, dest=f"value{number}", **settings)
        else:
            required = settings.pop("required", True)
            if not required:
                settings.setdefault("nargs", "?")
            made.add_argument(each.names[0], **settings)
    return made

"""The rungs of a ladder: runs of a job from one process to all its hosts, each one thing more than the last.

Which of them there are depends on the job and on what can run here; what differs between two of them is what
the failure of the second points at. Each rung changes its job in the words of `--set`, so that its plan is
made as any other, and tells the script to make few steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from launcher.documents import dotted_keys
from launcher.failure_modes.model import Finding
from launcher.frozen import frozen
from launcher.jobs.specification import JobSpec, Strategy


class Where(StrEnum):
    """On which side a rung runs."""

    HERE = "here"
    AWS = "aws"
    SLURM = "slurm"


ONE_HERE = "1-here"
SEVERAL_HERE = "n-here"
ONE_HOST = "1-host"
TWO_HOSTS = "2-hosts"
ALL_HOSTS = "all-hosts"
ON_SYNTHETIC_DATA = "-synthetic"
"""The names of the rungs; one with data that the script makes up ends with the last."""

NAMES = (
    f"{ONE_HERE}{ON_SYNTHETIC_DATA}", ONE_HERE,
    f"{SEVERAL_HERE}{ON_SYNTHETIC_DATA}", SEVERAL_HERE,
    f"{ONE_HOST}{ON_SYNTHETIC_DATA}", ONE_HOST,
    TWO_HOSTS, ALL_HOSTS,
)  # fmt: skip
"""All that there can be, from the lowest up."""


@frozen
class Rung:
    """One run: so many processes on each of so many hosts, here or where the job runs, on its data or on
    made-up ones.

    `instance_type` is that of its hosts on AWS.
    """

    name: str
    place: Where
    hosts: int
    processes_per_host: int
    synthetic: bool = False
    instance_type: str = ""

    @property
    def ranks(self) -> int:
        """The processes of all its hosts."""
        return self.hosts * self.processes_per_host

    @property
    def in_words(self) -> str:
        """Such as `2 processes here` or `2 x ml.p4d.24xlarge, 16 processes, synthetic data`."""
        processes = f"{self.ranks} process{'' if self.ranks == 1 else 'es'}"
        data = ", synthetic data" if self.synthetic else ""
        if self.place is Where.AWS:
            return f"{self.hosts} × {self.instance_type}, {processes}{data}"
        if self.place is Where.SLURM:
            return f"{self.hosts} node{'' if self.hosts == 1 else 's'} of Slurm, {processes}{data}"
        hosts = f" as {self.hosts} hosts" if self.hosts > 1 else ""
        return f"{processes} here{hosts}{data}"


@frozen
class MissingRung:
    """A rung that there is not, and why."""

    name: str
    why: str


@frozen
class Footing:
    """What the rungs of a job depend on besides the job file.

    `processes_per_host` is the job's. `most_here` is how many processes this machine has room for, and
    `not_here` says why the job cannot run on it, if so; `data_missing` says what of its data is not here.
    `synthetic` is whether the script can be told to make up its data.
    """

    processes_per_host: int
    most_here: int
    not_here: str | None = None
    data_missing: str | None = None
    synthetic: bool = False


@frozen
class Rungs:
    """The rungs of a job from the lowest up, and those that it has not."""

    rungs: tuple[Rung, ...]
    left_out: tuple[MissingRung, ...]


def ladder_of(job: JobSpec, footing: Footing) -> Rungs:
    """The rungs of a job.

    Made-up data come before the first rung with the job's own, and all rungs on this machine before those
    on hosts, of AWS or of Slurm as the job says. A job with one host ends at it.
    """
    found = [*_here(job, footing), *_on_hosts(job, footing)]
    return Rungs(
        tuple(each for each in found if isinstance(each, Rung)),
        tuple(each for each in found if isinstance(each, MissingRung)),
    )


def why_not_here(job: JobSpec, *, with_boot: bool) -> str | None:
    """Why a job's processes cannot be started on this machine; None where they can."""
    strategy = job.distribution.strategy
    if strategy is Strategy.SMP:
        return "the library of smp is only in SageMaker's images"
    if not with_boot:
        return f"the training toolkit of the images starts the processes of {strategy.value}, and is not here"
    return None


def _here(job: JobSpec, footing: Footing) -> Iterator[Rung | MissingRung]:
    if footing.not_here is not None:
        yield MissingRung(ONE_HERE, footing.not_here)
        yield MissingRung(SEVERAL_HERE, footing.not_here)
        return
    one = Rung(ONE_HERE, Where.HERE, 1, 1)
    several = _several_here(job, footing)
    if footing.synthetic:
        yield _on_synthetic_data(one)
    if footing.data_missing is None:
        yield one
        yield from several
        return
    yield MissingRung(ONE_HERE, footing.data_missing)
    for rung in several:
        if isinstance(rung, Rung) and footing.synthetic:
            yield _on_synthetic_data(rung)
        else:
            yield MissingRung(SEVERAL_HERE, footing.data_missing)


def _several_here(job: JobSpec, footing: Footing) -> list[Rung | MissingRung]:
    """More than one process here: as the job has them on a host, or as many hosts with one each."""
    hosts, each = job.resources.instance_count, footing.processes_per_host
    if hosts * each == 1:
        return [MissingRung(SEVERAL_HERE, "the job is a single process")]
    if footing.most_here < 2:
        return [MissingRung(SEVERAL_HERE, "there is room for a single process here")]
    if each == 1:
        return [Rung(SEVERAL_HERE, Where.HERE, 2, 1)]
    return [Rung(SEVERAL_HERE, Where.HERE, 1, min(each, footing.most_here))]


def _on_hosts(job: JobSpec, footing: Footing) -> Iterator[Rung | MissingRung]:
    hosts, place = job.resources.instance_count, Where.SLURM if job.backend == "slurm" else Where.AWS
    on_hosts = {ONE_HOST: 1, TWO_HOSTS: 2, ALL_HOSTS: hosts}
    rungs = [
        Rung(name, place, count, footing.processes_per_host, False, job.resources.instance_type)
        for name, count in on_hosts.items()
        if count <= hosts and (name != ALL_HOSTS or hosts > 2)
    ]
    if footing.synthetic and (footing.not_here or footing.data_missing):
        yield _on_synthetic_data(rungs[0])
    yield from rungs


def _on_synthetic_data(rung: Rung) -> Rung:
    return Rung(
        f"{rung.name}{ON_SYNTHETIC_DATA}",
        rung.place,
        rung.hosts,
        rung.processes_per_host,
        True,
        rung.instance_type,
    )


BEFORE_THE_SCRIPT_SECONDS = 900
"""On top of a rung's own limit on hosts: image, data and packages come first, and their time counts."""

GRACE_SECONDS = 60
"""The same here, where nothing comes first: who follows the rung ends it, before the limit does."""


def settings_of(
    rung: Rung,
    job: JobSpec,
    processes_per_host: int,
    told: Words,
    seconds: int,
    written: Mapping[str, Any],
) -> list[str]:
    """The settings that make the job the rung's.

    `processes_per_host` is the job's, `told` what the script is told on this rung, `seconds` how long the
    script may run; `written` is the job file's data, in which references to variables stand as they are.

    A rung is not tried again, keeps no warm pool (SageMaker gives one only to as many hosts) and starts from
    the beginning: a job that resumes behind its last step would hold without having run one.
    """
    found = []
    if rung.hosts != job.resources.instance_count:
        found.append(f"resources.instance_count={rung.hosts}")
    if rung.processes_per_host != processes_per_host:
        found.append(f"distribution.processes_per_host={rung.processes_per_host}")
    limit = seconds + (GRACE_SECONDS if rung.place is Where.HERE else BEFORE_THE_SCRIPT_SECONDS)
    if limit < job.limits.max_runtime:
        field = "max_runtime_seconds" if "max_runtime_seconds" in written.get("limits", {}) else "max_runtime"
        found.append(f"limits.{field}={limit}")
    if job.limits.max_retries:
        found.append("limits.max_retries=0")
    if job.resources.keep_alive is not None:
        found.append("resources.keep_alive=null")
    if job.checkpoint is not None and job.checkpoint.resume_from is not None:
        found.append("checkpoint.resume_from=null")
    arguments = [str(word) for word in written.get("code", {}).get("arguments", ())]
    return [*found, *settings_for(told, arguments)]


# What a script is told so that a run is short, and so that it needs no data.
#
# Scripts have no common word for it. What the job file says in `ladder` counts; without it the words that
# training scripts mostly use are looked for among the job's hyperparameters and the options of the script's
# parser. Where none is found nothing is told, and whoever runs the job has to end it.


STEPS = (
    "max_steps", "max_train_steps", "num_train_steps", "train_steps", "num_steps", "n_steps", "total_steps",
    "training_steps", "train_iters", "max_iters", "max_iter", "num_iters", "iters", "iterations", "steps",
)  # fmt: skip
"""Options that limit the steps of a run: Transformers' TrainingArguments and Lightning's Trainer (max_steps),
the examples of accelerate and diffusers (max_train_steps), Megatron-LM (train_iters), nanoGPT (max_iters),
this project's example of FSDP (steps)."""

BATCHES = ("limit_train_batches", "fast_dev_run")
"""Options of Lightning's Trainer that limit the batches: of every epoch, and of one epoch alone."""

EPOCHS = ("max_epochs", "num_train_epochs", "num_epochs", "n_epochs", "epochs")
"""Options that limit the epochs; one of them is the least that these can say."""

SYNTHETIC = (
    "synthetic", "synthetic_data", "use_synthetic", "use_synthetic_data", "fake_data", "use_fake_data",
    "dummy_data", "use_dummy_data", "mock_data", "dummy", "random_data",
)  # fmt: skip
"""Options for data that the script makes up: PyTorch's ImageNet example (dummy), Megatron-LM (mock_data), and
what benchmarks call it mostly."""

_PLAIN = re.compile(r"-?[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
"""What means the same in YAML without quotes, where texts are kept as they are written."""


@frozen
class Words:
    """What a script is told: hyperparameters by name, and words behind its arguments."""

    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hyperparameters or self.arguments)

    @property
    def in_words(self) -> str:
        """Such as `max_steps=5 --synthetic`."""
        return " ".join(
            [*(f"{name}={value}" for name, value in self.hyperparameters.items()), *self.arguments]
        )


NOTHING = Words()
"""Of a script that offers nothing that is known."""


def words_for_few_steps(job: JobSpec, offered: Mapping[str, bool], steps: int) -> Words:
    """What limits a run of the job to so many steps, or to one epoch where nothing else does.

    `offered` are the options of the script and whether each is followed by a value
    (`launcher.source.tree.find_offered_options`).
    """
    if job.ladder is not None and job.ladder.few_steps is not None:
        return _words_of_file(job.ladder.few_steps)
    by_steps = _words_for(job, offered, STEPS, str(steps))
    if by_steps:
        return by_steps
    by_batches = _words_for(job, offered, BATCHES, str(steps))
    by_epochs = _words_for(job, offered, EPOCHS, "1")
    # A limit on the batches of each epoch is none on their number.
    return join_words(by_batches, by_epochs)


def words_for_synthetic_data(job: JobSpec, offered: Mapping[str, bool]) -> Words:
    """What has the script make up its data; NOTHING where it is not seen to do that, or does so anyway."""
    if job.ladder is not None and job.ladder.synthetic is not None:
        return _words_of_file(job.ladder.synthetic)
    told = _words_for(job, offered, SYNTHETIC, "true")
    given = {name: str(value).lower() for name, value in job.hyperparameters.items()}
    return NOTHING if told.hyperparameters.items() & given.items() else told


def join_words(*told: Words) -> Words:
    """All that is told at once."""
    return Words(
        {name: value for each in told for name, value in each.hyperparameters.items()},
        tuple(word for each in told for word in each.arguments),
    )


def settings_for(told: Words, arguments: Sequence[str]) -> list[str]:
    """What is told as `--set` takes it; `arguments` are the job's own, as its file writes them.

    An option that stands among the arguments is changed there: it would otherwise be given twice.
    """
    words, settings = list(arguments), []
    for name, value in told.hyperparameters.items():
        if not _changed(words, name, value):
            settings.append(f"hyperparameters.{dotted_keys([name])}={plain_yaml(value)}")
    words += [word for word in told.arguments if not word.startswith("-") or word not in words]
    if words != list(arguments):
        settings.append(f"code.arguments=[{', '.join(map(_quoted, words))}]")
    return settings


def plain_yaml(text: str) -> str:
    """A text as a value in YAML, in quotes only where it would mean something else without."""
    return text if _PLAIN.fullmatch(text) else _quoted(text)


def _words_of_file(told: dict[str, str] | list[str]) -> Words:
    if isinstance(told, list):
        return Words(arguments=tuple(told))
    return Words(hyperparameters=told)


def _words_for(job: JobSpec, offered: Mapping[str, bool], names: Iterable[str], value: str) -> Words:
    """The first of the names that the job or its script has, with the value; NOTHING without one."""
    options = {_plain(option): option for option in offered}
    given = {_plain(name): name for name in job.hyperparameters}
    for name in names:
        if name in given:
            return Words({given[name]: _least(job.hyperparameters[given[name]], value)})
        if name not in options:
            continue
        option = options[name]
        if not offered[option]:
            # A flag alone: only what passes arguments can give it.
            return Words(arguments=(option,))
        if job.code.argument_style == "none":
            return Words(arguments=(option, value))
        return Words({option.lstrip("-"): value})
    return NOTHING


def _least(given: object, value: str) -> str:
    """The value, unless both are numbers and the one that is given is less."""
    own = str(given)
    return own if own.isdecimal() and value.isdecimal() and 0 < int(own) < int(value) else value


def _plain(name: str) -> str:
    """`--max-steps`, `max_steps` and Hydra's `trainer.max_steps` are the same word."""
    return name.lstrip("-").replace("-", "_").rpartition(".")[2]


def _changed(words: list[str], name: str, value: str) -> bool:
    """Put the value behind the option where it stands among the words; False where it does not."""
    for index, word in enumerate(words):
        option, equals, _ = word.partition("=")
        if option.lstrip("-+").replace("-", "_") != name.replace("-", "_"):
            continue
        if equals:
            words[index] = f"{option}={value}"
            return True
        if word.startswith("--") and index + 1 < len(words):
            words[index + 1] = value
            return True
    return False


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# What came of the rungs, and what the first that broke says of the cause.


class Result(StrEnum):
    """What came of a rung."""

    HELD = "held"
    BROKE = "broke"
    UNDECIDED = "undecided"
    """It showed no steps, or stood still, or was stopped by somebody else."""
    REFUSED = "refused"
    """The look into the account found what would break it, before it cost anything."""
    DECLINED = "declined"
    """It was not started: the answer was no, or there was nobody to ask."""
    SKIPPED = "skipped"
    """Its plan has errors that the whole job's has not."""
    INTERRUPTED = "interrupted"

    @property
    def ends(self) -> bool:
        """Whether no rung comes after it."""
        return self not in (Result.HELD, Result.SKIPPED)


@frozen
class Climbed:
    """A rung and what came of it.

    `said` is that in a phrase, `step` the furthest step that the run has printed, `seconds` its time in all
    and `usd` what its hosts cost at most, each None where it is not known. `finding` is what broke it, first
    on the global rank `rank` and on `host`, as far as the evidence shows it.
    """

    rung: Rung
    result: Result
    said: str
    step: float | None = None
    seconds: float | None = None
    usd: float | None = None
    job_name: str | None = None
    finding: Finding | None = None
    rank: int | None = None
    host: str | None = None


def verdict(climbed: Sequence[Climbed]) -> str:
    """What the rungs together say: how far the job holds, or where its fault is to be looked for."""
    held = [each.rung for each in climbed if each.result is Result.HELD]
    last = climbed[-1] if climbed else None
    if last is None or last.result not in (Result.BROKE, Result.UNDECIDED):
        tried = any(each.result not in (Result.DECLINED, Result.SKIPPED) for each in climbed)
        nothing = "No rung has held." if tried else "No rung was tried."
        far = f"It holds up to {held[-1].name}: {held[-1].in_words}." if held else nothing
        if last is None or last.result is not Result.REFUSED:
            return far
        return f"{far} What is in the account would break {last.rung.name}: {last.said}."
    below, rung = (held[-1] if held else None), last.rung
    found = "broke with" if last.result is Result.BROKE else "showed no progress with"
    if below is None:
        start = f"It {found} {rung.in_words}, the first rung that was tried"
    else:
        start = f"It held with {below.in_words}, and {found} {rung.in_words}"
    return f"{start}: {_describe_cause(below, rung)}."


def _describe_cause(held: Rung | None, broke: Rung) -> str:
    not_it = [f"not {each}" for each in _ruled_out(held, broke)]
    suspects = list(_suspects(held, broke))
    if not suspects:
        return "the two differ in nothing, so that it may be a failure that comes and goes"
    looked_at = "; or ".join(suspects)
    return f"{', '.join(not_it)}, but {looked_at}" if not_it else looked_at


def _ruled_out(held: Rung | None, broke: Rung) -> Iterator[str]:
    """What the rung that broke does without, or what held as well."""
    if held is not None:
        yield "the script by itself"
    if broke.hosts == 1 or broke.place is Where.HERE:
        yield "the network between hosts"
    if broke.synthetic or (held is not None and not held.synthetic and held.place is broke.place):
        yield "the data"
    if broke.ranks == 1 and held is None:
        yield "anything between ranks"


def _suspects(held: Rung | None, broke: Rung) -> Iterator[str]:
    """What the rung that broke has and the one that held has not: where the cause is to be looked for."""
    if held is None:
        yield "the script, its packages or its settings"
    on_hosts = broke.place is not Where.HERE
    if on_hosts and (held is None or held.place is Where.HERE):
        yield _what_hosts_have(broke)
    if not broke.synthetic and (held is None or held.synthetic):
        yield "the data, or the code that reads them"
    before = held.ranks if held is not None else 1
    if before == 1 and broke.ranks > 1:
        yield (
            "something between ranks: a collective that not all of them reach, or a port, a file or a device "
            "that two of them take"
        )
    elif held is not None and held.hosts == broke.hosts and before != broke.ranks:
        yield f"{broke.ranks} ranks on a host instead of {before}"
    hosts = held.hosts if held is not None and held.place is broke.place else 1
    if on_hosts and hosts == 1 and broke.hosts > 1:
        yield (
            "the network between hosts (security group, EFA, name of the interface), or code that takes "
            "LOCAL_RANK for RANK or one host's files for everybody's"
        )
    elif on_hosts and broke.hosts > hosts:
        yield (
            f"what grows from {hosts} to {broke.hosts} hosts: memory for each rank, time-outs, connections, "
            "the share of data that a rank gets, or one bad host among them"
        )


def _what_hosts_have(rung: Rung) -> str:
    if rung.place is Where.SLURM:
        return (
            "what the nodes have and this machine has not: the Python or image with its packages, the "
            "devices, the shared folder and the folders of the inputs"
        )
    return (
        f"what {rung.instance_type} has and this machine has not: the image and its packages, the devices, "
        "the role, the channels from S3"
    )

"""What a script is told so that a run is short, and so that it needs no data.

Scripts have no common word for it. What the job file says in `ladder` counts; without it the words that
training scripts mostly use are looked for among the job's hyperparameters and the options of the script's
parser. Where none is found nothing is told, and whoever runs the job has to end it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.documents.document import dotted_keys
from launcher.jobs.specification import JobSpec

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


@dataclass(frozen=True, slots=True)
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


def few_steps(job: JobSpec, offered: Mapping[str, bool], steps: int) -> Words:
    """What limits a run of the job to so many steps, or to one epoch where nothing else does.

    `offered` are the options of the script and whether each is followed by a value
    (`launcher.source.arguments.offered_options`).
    """
    if job.ladder is not None and job.ladder.few_steps is not None:
        return _of_file(job.ladder.few_steps)
    by_steps = _told(job, offered, STEPS, str(steps))
    if by_steps:
        return by_steps
    by_batches = _told(job, offered, BATCHES, str(steps))
    by_epochs = _told(job, offered, EPOCHS, "1")
    # A limit on the batches of each epoch is none on their number.
    return both_told(by_batches, by_epochs)


def synthetic_data(job: JobSpec, offered: Mapping[str, bool]) -> Words:
    """What has the script make up its data; NOTHING where it is not seen to do that, or does so anyway."""
    if job.ladder is not None and job.ladder.synthetic is not None:
        return _of_file(job.ladder.synthetic)
    told = _told(job, offered, SYNTHETIC, "true")
    given = {name: str(value).lower() for name, value in job.hyperparameters.items()}
    return NOTHING if told.hyperparameters.items() & given.items() else told


def both_told(*told: Words) -> Words:
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


def _of_file(told: dict[str, str] | list[str]) -> Words:
    if isinstance(told, list):
        return Words(arguments=tuple(told))
    return Words(hyperparameters=told)


def _told(job: JobSpec, offered: Mapping[str, bool], names: Iterable[str], value: str) -> Words:
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

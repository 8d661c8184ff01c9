"""What the boot is asked to start: the container arguments, and the words that the script is given."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipway.gate.verdict import MODES
from slipway.watchdog.beats import StallLimits

STYLES = ("spaced", "equals", "hydra", "none")
"""How hyperparameters become words: `--lr 0.1`, `--lr=0.1`, `lr=0.1`, or not at all."""

_LIBRARY = "mp_parameters"
"""The configuration of SageMaker's model parallel library, which comes among the hyperparameters."""

_PYTHONS_WORDS = {"true": "True", "false": "False"}


@dataclass(frozen=True)
class Task:
    """What the job's container arguments ask for: one of `entry_point` and `module` is given.

    `requirements` is the file to install, if any. `gate` is one of the health gate's MODES. `watchdog` says
    when the ranks stand still, None for never. `restarts` is how often they may be started again.
    """

    strategy: str
    processes_per_host: int
    arguments: tuple[str, ...] = ()
    entry_point: str | None = None
    module: str | None = None
    argument_style: str = "spaced"
    requirements: str | None = None
    watchdog: StallLimits | None = None
    gate: str = "off"
    restarts: int = 0
    copies_checkpoints: bool = False
    """Whether the boot copies checkpoints to SLIPWAY_CHECKPOINT_URI (slipway/uploads)."""

    @property
    def name(self) -> str:
        """What is started, as people and SageMaker's toolkit write it: `train.py` or `-m package.train`."""
        return self.entry_point or f"-m {self.module}"


def parse_task(arguments: Sequence[str]) -> Task:
    """Read the container arguments; what follows `--` belongs to the script."""
    own, script = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, script = own[:cut], own[cut + 1 :]
    parser = argparse.ArgumentParser(
        prog="slipway.pyz", description="Starts a training job in its container."
    )
    parser.add_argument("--strategy", choices=["torchrun", "none"], required=True)
    parser.add_argument("--processes-per-host", type=int, default=1)
    program = parser.add_mutually_exclusive_group(required=True)
    program.add_argument("--entry-point")
    program.add_argument("--module")
    parser.add_argument("--argument-style", choices=STYLES, default="spaced")
    parser.add_argument("--requirements")
    parser.add_argument("--watchdog-stall", default="off", help="off, auto, or seconds without a step")
    parser.add_argument("--watchdog-first-step", type=float, default=1800, help="seconds before the first")
    parser.add_argument("--gate", choices=MODES, default="off")
    parser.add_argument("--checkpoint-sync", choices=["slipway"])
    parser.add_argument("--restarts", type=int, default=0, help="starts of the ranks after the first")
    options = parser.parse_args(own)
    return Task(
        strategy=options.strategy,
        processes_per_host=options.processes_per_host,
        arguments=tuple(script),
        entry_point=options.entry_point,
        module=options.module,
        argument_style=options.argument_style,
        requirements=options.requirements,
        watchdog=_limits(options.watchdog_stall, options.watchdog_first_step),
        gate=options.gate,
        copies_checkpoints=options.checkpoint_sync == "slipway",
        restarts=options.restarts,
    )


def _limits(stall: str, first_step: float) -> StallLimits | None:
    if stall == "off":
        return None
    return StallLimits(None if stall == "auto" else float(stall), first_step)


def script_words(task: Task, hyperparameters: Mapping[str, str]) -> list[str]:
    """All words that the script is given, in the order that its style asks for.

    `spaced` has the hyperparameters first. In the other styles they come last: after a subcommand (`fit`),
    whose options they are, and after a file of settings, which they override. So they do for a shell script,
    which takes its own arguments by their place (`$1`) and passes on the rest.
    """
    named = hyperparameter_arguments(hyperparameters, task.argument_style)
    by_place = (task.entry_point or "").endswith(".sh")
    named_first = task.argument_style == "spaced" and not by_place
    return [*named, *task.arguments] if named_first else [*task.arguments, *named]


def hyperparameter_arguments(hyperparameters: Mapping[str, str], style: str = "spaced") -> list[str]:
    """The words for the hyperparameters, in one of STYLES.

    `spaced` is what SageMaker's toolkit passes (mapping.py, to_cmd_args): `-e 5` where the name has one
    letter. `equals` writes true and false as Python does: scripts of that style evaluate what they are
    given (nanoGPT, Fire), and those that parse it take both.
    """
    if style == "none":
        return []
    if style == "spaced":
        return [word for name, value in hyperparameters.items() for word in (_option(name), str(value))]
    # Not the user's, and no script that takes these styles declares it: it is in SM_HP_MP_PARAMETERS.
    own = {name: value for name, value in hyperparameters.items() if name != _LIBRARY}
    if style == "hydra":
        return [f"{name}={value}" for name, value in own.items()]
    return [f"--{name}={_PYTHONS_WORDS.get(value, value)}" for name, value in own.items()]


def _option(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"

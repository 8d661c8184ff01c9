"""Hyperparameters in the words that the script's own parser takes."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject

_STYLE = ("code", "argument_style")


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def hyperparameters_are_in_the_scripts_style(subject: JobSubject) -> Iterator[Finding]:
    """A parser that is given words of another style exits with code 2, on every host at once."""
    job, script = subject.job, subject.command_line
    names = [*job.hyperparameters, *(job.tuning.ranges if job.tuning else ())]
    style, program = job.code.argument_style, job.code.program
    if not names or style == "none":
        return
    if script.hydra_line is not None and style != "hydra":
        word = f"--{names[0]} ..." if style == "spaced" else f"--{names[0]}=..."
        yield training_script.ENTRY_POINT_MISSING.at(
            _STYLE,
            f"{program} takes {names[0]}=... (@hydra.main, line {script.hydra_line}) and would refuse {word}",
            remedy="Write `argument_style: hydra`."
            if job.tuning is None and subject.plan.with_boot
            else "Use another way than hydra to read them (SM_HPS): the images' toolkit, which starts the "
            "script here, passes `--name value` alone.",
        )
    elif script.options is not None and script.hydra_line is None and style == "hydra":
        yield training_script.ENTRY_POINT_MISSING.at(
            _STYLE,
            f"{program} reads its options with argparse and would refuse {names[0]}=...",
            remedy="Leave `argument_style` out, or write `argument_style: equals`.",
        )
    elif script.options is not None and style == "spaced":
        for name in names:
            if len(name) == 1 and f"--{name}" in script.options and f"-{name}" not in script.options:
                yield training_script.ENTRY_POINT_MISSING.at(
                    ("hyperparameters", name),
                    f"a name of one letter is passed as -{name}, and {program} declares --{name} alone",
                    remedy=f"Declare both in the script: add_argument('-{name}', '--{name}')"
                    + (", or write `argument_style: equals`." if subject.plan.with_boot else "."),
                )

"""What `launch JOB.yaml --local` asks and says before it starts processes on this machine."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.cli.attendance import confirmed, must_ask, screen_for
from launcher.cli.output import OutputFormat, message
from launcher.documents.files import file_mode
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.backends.local.backend import LocalBackend
    from launcher.backends.local.machine import Machine
    from launcher.session.preflight import Preflight


@dataclass(frozen=True, slots=True)
class Here:
    """What the command line says of a run on this machine.

    `inputs` are folders for channels, `python` the Python to run it with, `processes` how many on each
    host, and with `yes` nothing is asked; `allow_env` names the only variables of the environment that
    secrets may be taken from.
    """

    inputs: Mapping[str, Path]
    python: str | None
    processes: int | None
    yes: bool
    allow_env: Sequence[str] | None


def fewer_processes(
    processes: int, overrides: Sequence[str] | None, ignore: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The overrides and accepted codes with so many processes on each host, whatever accelerators it has.

    Raises Refusal for less than one.
    """
    from launcher.failure_modes import distribution

    if processes < 1:
        raise Refusal(f"--processes {processes} is not a number of processes.", "Give 1 or more.")
    count = f"distribution.processes_per_host={processes}"
    accepted = distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.code
    return [*(overrides or ()), count], [*(ignore or ()), accepted]


def cleared(found: Preflight, output: OutputFormat, *, yes: bool) -> bool:
    """Say what this machine lacks, and ask where it would be crowded; False where the answer is no.

    Raises Refusal where it would be crowded and there is nobody to ask.
    """
    from rich.text import Text

    screen = screen_for(output)
    for note in found.notes:
        screen.print(Text(f"here: {note}", "yellow"))
    if found.crowd is None or yes:
        return True
    if must_ask(yes, output):
        message(f"{found.crowd.what}: {found.crowd.consequence}.")
        return confirmed("Start them all?")
    raise Refusal(f"{found.crowd.what}: {found.crowd.consequence}.", found.crowd.remedy)


def backend_here(
    machine: Machine, inputs: Mapping[str, Path], allow_env: Sequence[str] | None
) -> LocalBackend:
    """What runs jobs on this machine, with folders for their channels; to be closed.

    Raises Refusal for a name in `allow_env` that is none, BackendError where runs cannot be kept here.
    """
    from launcher.backends.local.backend import LocalBackend
    from launcher.session.home import made_home
    from launcher.session.preparation import variables_of

    return LocalBackend(made_home(), inputs, python=machine.python.path, variables=variables_of(allow_env))


def folders_of_channels(inputs: Sequence[str]) -> dict[str, Path]:
    """The folders of `--input CHANNEL=FOLDER`, by channel. Raises Refusal for what names none."""
    folders = {}
    for text in inputs:
        name, equals, folder = text.partition("=")
        if not equals or not stat.S_ISDIR(file_mode(Path(folder))):
            raise Refusal(f"--input {text} does not name a folder.", "Write it as --input CHANNEL=FOLDER.")
        folders[name] = Path(folder).resolve()
    return folders

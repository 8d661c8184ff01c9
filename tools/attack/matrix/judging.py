"""What is demanded of a command whatever AWS and the network do, held against one run of it."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes.model import AwsRefusal
from tools.attack.matrix.commands import LOOKS, Command
from tools.attack.matrix.running import Attack, Run

EXIT_AWS = AwsRefusal.exit_code


def complaints(command: Command, attack: Attack, healthy: Run, run: Run) -> Iterator[str]:
    """What is wrong with a run under attack, beside the healthy run of the same command."""
    if "Traceback" in run.printed:
        yield "a traceback was shown"
    if "This is a fault of the launcher" in run.printed:
        line = next(line for line in run.printed.splitlines() if line.startswith("error: "))
        yield f"crashed with {line.removeprefix('error: ').partition(':')[0]}"
    elif run.exit_code not in (healthy.exit_code, EXIT_AWS):
        yield f"ended with {run.exit_code}, neither {healthy.exit_code} as without the fault nor {EXIT_AWS}"
    if run.exit_code == EXIT_AWS and ("error: " not in run.printed or "→ " not in run.printed):
        yield "did not say what is wrong and what to do"
    if attack.call.partition(".")[0] in command.beside and run.exit_code != healthy.exit_code:
        yield "ended for a service that it does not need"
    seconds = run.seconds if command.bound == LOOKS else run.seconds_of_threads
    if seconds > command.bound:
        yield f"took {seconds:.0f} s, with a bound of {command.bound:.0f} s"
    yield from _jobs(command, healthy, run)


def _jobs(command: Command, healthy: Run, run: Run) -> Iterator[str]:
    """What is wrong with the jobs that are there afterwards."""
    if len(run.created) > max(1, command.creates):
        yield f"created {len(run.created)} jobs"
    if run.created and not command.creates:
        yield "created a job"
    unnamed = [name for name in run.created if name not in run.printed]
    if unnamed:
        yield "created a job without naming it"
    if run.exit_code == healthy.exit_code == 0 and len(run.created) < command.creates:
        yield f"ended with 0 and created {len(run.created) or 'no'} job"
    if healthy.stops and run.exit_code == 0 and not run.stops:
        yield "ended with 0 and stopped nothing"

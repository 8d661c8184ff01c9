"""The commands of the matrix, and what is promised of each."""

from __future__ import annotations

from dataclasses import dataclass

from tools.attack.matrix.account import ENDED, FAILED, RUNNING, WAITING

LOOKS = 60.0
"""Seconds in which a command that only looks ends, whatever the network does (the command line's page)."""

WORKS = 3 * 3600.0
"""Seconds for commands whose calls are repeated patiently, one after the other; not promised, but an end. A
drip at each call of `resume` that describes a job takes 80 minutes."""

FOLLOWS = 2 * WORKS
"""Seconds for those that wait out an outage, in which every call may hang until its time-out."""

SIDES = ("--set", "hyperparameters.lr=0.1", "--set", "hyperparameters.lr=0.2")
"""What the two jobs of a pair differ in."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command line with its bound in seconds; `creates` is how many jobs it creates.

    What becomes of calls to the services `beside` the job's own way must not change how the command ends.
    Calls that it makes as the command of the name `repeats` does, in the same code, are attacked only there.
    """

    name: str
    words: tuple[str, ...]
    bound: float
    creates: int = 0
    beside: tuple[str, ...] = ()
    repeats: str | None = None


COMMANDS: tuple[Command, ...] = (
    Command("launch --detach", ("job.yaml", "--yes", "--detach"), WORKS, creates=1),
    Command("launch", ("job.yaml", "--yes"), FOLLOWS, creates=1, repeats="launch --detach"),
    Command(
        "launch --queue",
        ("job.yaml", "--yes", "--queue", "--detach"),
        WORKS,
        creates=1,
        repeats="launch --detach",
    ),
    Command("pair", ("pair", "job.yaml", *SIDES, "--yes"), FOLLOWS, creates=2),
    Command("pair of jobs", ("pair", ENDED, FAILED), WORKS, beside=("batch",)),
    Command("ladder", ("ladder", "job.yaml", "--from", "1-host", "--yes"), 2 * FOLLOWS, creates=2),
    Command("check --live", ("check", "job.yaml", "--live"), LOOKS),
    Command("plan", ("plan", "job.yaml"), LOOKS),
    Command("find --live", ("find", "--gpu", "H100", "--live"), LOOKS),
    Command("list", ("list",), LOOKS),
    Command("status", ("status", RUNNING), LOOKS, beside=("batch",)),
    Command("logs", ("logs", ENDED), LOOKS, beside=("batch",)),
    Command("logs --follow", ("logs", RUNNING, "--follow"), FOLLOWS, beside=("batch",)),
    Command("stop", ("stop", RUNNING), WORKS, beside=("batch",)),
    Command("status of a queued job", ("status", WAITING), LOOKS),
    Command("stop of a queued job", ("stop", WAITING), WORKS),
    Command("diagnose", ("diagnose", FAILED), WORKS, beside=("batch",)),
    Command("resume", ("resume", ENDED, "--yes", "--detach"), WORKS, creates=1, beside=("batch",)),
)

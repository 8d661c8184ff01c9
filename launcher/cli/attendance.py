"""A job followed at the terminal: until its end, or until the user leaves it alone or stops it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from launcher.cli.output import OutputFormat, console, message

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.backends.interface import Backend
    from launcher.cli.followed_lines import Choose
    from launcher.session.diagnosis import Check
    from launcher.session.following.monitor import LineChoice, Screen
    from launcher.session.outcome import Outcome
    from launcher.session.run import Interrupted

SECONDS_FOR_A_SECOND_THOUGHT = 3.0
"""For so long after Ctrl-C, another one asks to stop the job."""

_YES = ("y", "yes")

Ended = TypeVar("Ended")
"""What following a job to its end gives."""


def attend(
    backend: Backend,
    name: str,
    output: OutputFormat,
    choose: Choose | None = None,
    check: Check | None = None,
) -> Outcome | None:
    """Follow a job that runs elsewhere; None where the user left it with Ctrl-C.

    `choose` makes what chooses the lines to show, all without it; it is given how to say that some are not.
    `check` holds the diagnosis of a job that failed against its account.
    """
    from launcher.session.run import follow

    return attended(backend, output, choose, partial(follow, backend, name, check=check))


def attended(
    backend: Backend,
    output: OutputFormat,
    choose: Choose | None,
    follow: Callable[[Screen, LineChoice | None], Ended],
) -> Ended | None:
    """What `follow` returns of a job that runs elsewhere; None where the user left it with Ctrl-C."""
    from launcher.cli.followed_lines import HIDDEN
    from launcher.cli.job_view import JobView
    from launcher.session.run import Interrupted

    try:
        with JobView(screen_for(output)) as view:
            return follow(view, choose(lambda: view.note(HIDDEN)) if choose is not None else None)
    except Interrupted as interrupted:
        leave(backend, interrupted)
        return None


def leave(backend: Backend, interrupted: Interrupted, pause: Callable[[float], None] = time.sleep) -> None:
    """Say that the job goes on and how to come back; on a terminal a second Ctrl-C asks to stop it."""
    leave_all([(backend, interrupted)], pause)


def leave_all(
    left: Sequence[tuple[Backend, Interrupted]], pause: Callable[[float], None] = time.sleep
) -> None:
    """The same for several jobs, which a second Ctrl-C asks to stop together."""
    going = []
    for backend, interrupted in left:
        status = interrupted.status
        if status is not None and status.state.is_final:
            message(f"{interrupted.name} is {status.state}. {interrupted.remedy}")
        else:
            message(f"{interrupted.name} goes on. {interrupted.remedy}")
            going.append((backend, interrupted.name))
    if not going or not sys.stdin.isatty():
        return
    what = "the job" if len(going) == 1 else "them"
    message(f"Press Ctrl-C again within {SECONDS_FOR_A_SECOND_THOUGHT:.0f} seconds to stop {what}.")
    try:
        pause(SECONDS_FOR_A_SECOND_THOUGHT)
    except KeyboardInterrupt:
        if confirmed(f"Stop {' and '.join(name for _, name in going)}?"):
            for backend, name in going:
                backend.stop(name)
                message(f"{name} was asked to stop")


def confirmed(question: str) -> bool:
    """Ask on the terminal; anything but a yes is a no."""
    try:
        answer = console(stderr=True).input(f"{question} [y/N] ", markup=False)
    except (KeyboardInterrupt, EOFError):
        message("")
        return False
    return answer.strip().lower() in _YES


def must_ask(yes: bool, output: OutputFormat) -> bool:
    """Whether there is somebody to ask, and nothing that makes it needless."""
    return not yes and output is OutputFormat.TEXT and sys.stdin.isatty()


def screen_for(output: OutputFormat) -> Console:
    """Where a job is shown: stdout belongs to the JSON document if one was asked for."""
    return console(stderr=output is OutputFormat.JSON)

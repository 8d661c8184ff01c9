"""How commands speak with people and programs: their shared options, what they print and ask, a job followed.

Results go to stdout, as text or as JSON; everything else to stderr. Everything that is printed comes through
here, and leaves without control characters that would act on a terminal (see `without_controls`). How the
code of a job is read and described, how far the look into the account is, and what `--fix` would add is the
same for all commands.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.failure_modes.model import Refusal
from launcher.text.values import size_in_words, without_controls

if TYPE_CHECKING:
    from rich.console import Console

    from launcher.account.facts import FileSystem
    from launcher.aws.clients import Clients
    from launcher.backends.interface import Backend
    from launcher.jobs.load_job import LoadedJob
    from launcher.planning.request_view import RequestView
    from launcher.planning.training_plan import TrainingPlan
    from launcher.rules.live.check import MissingRule
    from launcher.session.runs.follow_job import Interrupted, LineChoice
    from launcher.source.tree import LeftOut, SourceTree

EXIT_USAGE = 2
"""The exit code of a command that was called wrongly."""

EXIT_INTERRUPTED = 130
"""The exit code of a command that was interrupted by the user, as shells give it: 128 and SIGINT's number."""

PLAIN_WIDTH = 140
"""Columns where there is no terminal to ask how many it has, and COLUMNS does not say it."""


class OutputFormat(StrEnum):
    """What a command prints on stdout: text for a person, JSON for a program."""

    TEXT = "text"
    JSON = "json"


def as_json(value: Any, indent: int | None = 2) -> str:
    """A value as the JSON text that commands print; on one line with `indent` None.

    Characters that stdout cannot encode are escaped as JSON demands: the stream's own escapes are not JSON.
    """
    text = without_controls(json.dumps(value, indent=indent, ensure_ascii=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print one JSON document on stdout, on one line with `indent` None."""
    sys.stdout.write(as_json(value, indent) + "\n")


def console(*, stderr: bool = False) -> Console:
    """The terminal. Rich is imported here, so that `--help` does not pay for it."""
    screen = _terminal_class()(highlight=False, emoji=False, stderr=stderr)
    if not screen.is_terminal:
        # Logs and pipes are no 80 columns wide; a narrow guess would break paths and URIs.
        asked = os.environ.get("COLUMNS", "")
        screen.width = int(asked) if asked.isdecimal() and len(asked) in (2, 3) else PLAIN_WIDTH
    return screen


@cache
def _terminal_class() -> type[Console]:
    """Rich's console, on which text from elsewhere (names, reasons, lines of files) cannot act.

    Rich keeps its own colours and cursor movements apart from the text until it writes, so that whatever
    control characters the text holds at this point came with it. Columns are measured before: a cell that
    grows by what is written out is cut at its end. What is laid out in columns is filled up with blanks to
    its width, which only a terminal needs; a text, such as a line of a log, stays as it is.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    class Terminal(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(without_controls(segment.text), segment.style)

        def print(self, *objects: Any, **how: Any) -> None:
            if self.is_terminal or all(isinstance(each, str | Text) for each in objects):
                super().print(*objects, **how)
                return
            with self.capture() as captured:
                super().print(*objects, **how)
            self.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
            self.file.flush()

    return Terminal


class _Stderr:
    """What is known of stderr: whether its last line is one that the next `passing` replaces."""

    open_line = False


def message(text: str) -> None:
    """Print one line about the progress or a mistake on stderr, below whatever `passing` left there."""
    if _Stderr.open_line:
        _Stderr.open_line = False
        print(file=sys.stderr)
    print(without_controls(text), file=sys.stderr, flush=True)


def passing(text: str, *, last: bool = False) -> None:
    """Show on a terminal's stderr how far something is, in place of the text before; `last` ends the line."""
    _Stderr.open_line = not last
    print(f"\r{without_controls(text)}", end="\n" if last else "", file=sys.stderr, flush=True)


# The code of a job as people see it: what is packed and what is not, and how far the reading of it is.


_SHOWN = 5
"""So many names of what a file leaves out; the JSON has twenty."""

_LISTED = 20
_QUIET_SECONDS = 2.0
"""So long nobody wonders whether anything happens."""


class ReadingView:
    """Tells how far the reading of a source is, once it takes long; a log gets one line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._shown = -1

    def __call__(self, read: int, total: int) -> None:
        """So many bytes of all have been read."""
        if self._shown < 0 and self._clock() - self._begun < _QUIET_SECONDS:
            return
        percent = 100 * read // total if total else 100
        text = f"reading {size_in_words(total)} of code"
        if not sys.stderr.isatty():
            if self._shown < 0:
                message(text)
        elif percent != self._shown:
            passing(f"{text}: {percent}%", last=read >= total)
        self._shown = percent


def read_code(loaded: LoadedJob) -> SourceTree | None:
    """The code of a job as it lies there; None where the job file does not say which."""
    from launcher.session.prepare_plan import code_of

    return code_of(loaded, ReadingView())


def source_rows(source: SourceTree) -> dict[str, str]:
    """The lines of a summary: how much is packed and of what most, and what is left out by which file."""
    from launcher.source.folder_walk import largest_entries, sizes_in_words
    from launcher.source.tree import group_left_out

    if source.is_unread:
        return {"code": f"{source.place}, not looked at"}
    count = len(source.files)
    packed = f"{count:,} {'file' if count == 1 else 'files'}, {size_in_words(source.size_bytes)}"
    most = f", most in {sizes_in_words(largest_entries(source.files))}" if count > 1 else ""
    left_out = [_left_out(source.folder, each) for each in group_left_out(source.ignored)]
    left_out += [f"{pattern} in {file.name} brings nothing back" for pattern, file in source.idle]
    if source.dangling:
        left_out.append(f"links to what is not there: {_first(source.dangling)}")
    return {
        "code": f"{packed} of {source.place}{most}",
        **({"left out": "\n".join(left_out)} if left_out else {}),
    }


def source_json(source: SourceTree, shown: Callable[[str], str]) -> dict[str, Any]:
    """The same as data, paths as they are `shown`; of what a file leaves out the first twenty names."""
    from launcher.source.folder_walk import largest_entries
    from launcher.source.tree import group_left_out

    return {
        "place": shown(source.place),
        "files": None if source.is_unread else len(source.files),
        "size_bytes": None if source.is_unread else source.size_bytes,
        "largest": [{"name": name, "size_bytes": size} for name, size in largest_entries(source.files)],
        "left_out": [
            {
                "by": None if each.ignore_file is None else shown(str(each.ignore_file)),
                "count": len(each.names),
                "first": list(each.names[:_LISTED]),
            }
            for each in group_left_out(source.ignored)
        ],
        "sha256": source.digest,
    }


def _left_out(folder: Path, each: LeftOut) -> str:
    if each.ignore_file is None:
        return f"always: {_first(each.names)}"
    file = each.ignore_file
    by = file.relative_to(folder) if file.is_relative_to(folder) else file
    return f"by {by}: {_first(each.names)}"


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


JobFile = Annotated[Path, Parameter(help="The job file.")]
ClusterOption = Annotated[
    str | None, Parameter(name="--cluster", help="Cluster to use instead of the job file's.")
]
SetOption = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="Change a field: --set resources.instance_count=4"),
]
RunIdOption = Annotated[
    str | None,
    Parameter(
        help="The run that this launch belongs to: the same job in the same run is launched once, from "
        'whatever machine. In CI its own run by default; "" for none.'
    ),
]
AllowEnvOption = Annotated[
    list[str] | None,
    Parameter(
        name="--allow-env",
        negative="",
        help="A variable that ${NAME} may stand for, and no others. Without it all; in CI none.",
    ),
]
IgnoreOption = Annotated[
    list[str] | None, Parameter(name="--ignore", negative="", help="Accept the findings of a code.")
]
OutputOption = Annotated[OutputFormat, Parameter(name="--output", help="What stdout gets.")]


def read(
    job_file: Path,
    cluster: str | None,
    overrides: Sequence[str] | None,
    allow_env: Sequence[str] | None,
    text: str | None = None,
) -> LoadedJob:
    """The job file with what the options change; `text` is what it holds where it has not been written."""
    from launcher.session.prepare_plan import JobSource, read_job

    return read_job(JobSource(job_file, cluster, overrides or (), allow_env, text))


def plan_offline(loaded: LoadedJob, ignore: Sequence[str] | None, *, here: bool = False) -> TrainingPlan:
    """The judged plan of a job, made without a call to AWS; `here` says that it is to run on this machine."""
    from launcher.aws.session import session_region
    from launcher.session.prepare_plan import prepare

    code = read_code(loaded)
    return prepare(loaded, session_region=session_region(), ignore=ignore or (), source=code, here=here)


# Which lines of a followed job are shown: `--rank` and `--grep`, and what is shown without them.


FollowedRank = Annotated[
    str | None,
    Parameter(
        name="--rank", help="Follow this global rank, or all; by default rank 0 and the errors of every rank."
    ),
]
FollowedPattern = Annotated[
    str | None,
    Parameter(name="--grep", help="Follow the lines that match a regular expression, of every rank."),
]

_MOST_DIGITS = 8
HIDDEN = "other ranks are hidden but for their errors: --rank all shows them, `launch logs` has all"


def choose_lines(
    view: RequestView | None, rank: str | None, grep: str | None, tell: Callable[[], None]
) -> LineChoice | None:
    """What chooses the lines of a job; None shows all. `tell` is called when other ranks are first hidden.

    Raises Refusal for a rank that the job does not have, and for what is no regular expression.
    """
    from launcher.session.runs.read_job_lines import Digest, LogFilter, check_rank, compile_pattern

    processes, hosts = (view.processes_per_host, view.hosts) if view is not None else (None, None)
    if rank is None and grep is None:
        return Digest(processes, processes * hosts if processes and hosts else None, tell)
    pattern = compile_pattern(grep) if grep else None
    number = _number(rank) if rank is not None and rank != "all" else None
    if number is None and pattern is None:
        return None
    if number is not None:
        check_rank(number, processes, hosts)
    return LogFilter(rank=number, pattern=pattern, processes_per_host=processes)


def _number(rank: str) -> int:
    if not rank.isdecimal() or len(rank) > _MOST_DIGITS:
        shown = rank if len(rank) <= _MOST_DIGITS else f"{rank[:_MOST_DIGITS]}…"
        raise Refusal(f"--rank {shown} is not the number of a rank.", "Give a number from 0 on, or all.")
    return int(rank)


# A followed job is left alone, or stopped.


SECONDS_FOR_A_SECOND_THOUGHT = 3.0
"""For so long after Ctrl-C, another one asks to stop the job."""

_YES = ("y", "yes")


def leave(backend: Backend, interrupted: Interrupted, pause: Callable[[float], None] = time.sleep) -> None:
    """Say that the job goes on and how to come back; on a terminal a second Ctrl-C asks to stop it."""
    leave_all([(backend, interrupted)], pause)


def leave_all(
    left: Sequence[tuple[Backend, Interrupted]], pause: Callable[[float], None] = time.sleep
) -> None:
    """Say of each job that it goes on; on a terminal a second Ctrl-C asks to stop them together."""
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
        if confirm(f"Stop {' and '.join(name for _, name in going)}?"):
            for backend, name in going:
                backend.stop(name)
                message(f"{name} was asked to stop")


def confirm(question: str) -> bool:
    """Ask on the terminal; anything but a yes is a no."""
    try:
        answer = console(stderr=True).input(f"{question} [y/N] ", markup=False)
    except (KeyboardInterrupt, EOFError):
        message("")
        return False
    return answer.strip().lower() in _YES


def is_asking_possible(yes: bool, output: OutputFormat) -> bool:
    """Whether there is somebody to ask, and nothing that makes it needless."""
    return not yes and output is OutputFormat.TEXT and sys.stdin.isatty()


def console_for_output(output: OutputFormat) -> Console:
    """Where a job is shown: stdout belongs to the JSON document if one was asked for."""
    return console(stderr=output is OutputFormat.JSON)


# The live stage on a terminal, all on stderr: how far it is, and what `--fix` would add.


_LINE_EVERY_SECONDS = 60


class LiveView:
    """Shows how far the look into the account is: a status that changes, or lines where none can.

    Rich draws only on a terminal; a log gets one line at the start, and one a minute while waiting.
    """

    def __init__(self) -> None:
        self._screen = console(stderr=True)
        self._status = self._screen.status("looking at the account")
        self._stack = ExitStack()
        self._next_line = 0.0

    def __enter__(self) -> LiveView:
        if self._screen.is_terminal:
            self._stack.enter_context(self._status)
        else:
            message("looking at the account")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def progress(self, answered: int, asked: int, waiting_for: str) -> None:
        """Called after each answer of AWS."""
        if self._screen.is_terminal:
            waiting = f", waiting for {waiting_for}" if waiting_for else ""
            self._status.update(f"looking at the account: {answered} of {asked} answers{waiting}")

    def waiting(self, file_system: FileSystem, seconds: float) -> None:
        """Called at each look at a file system that is being created."""
        text = f"{file_system.id} is {file_system.lifecycle}, waiting for AVAILABLE ({seconds / 60:.0f} min)"
        if self._screen.is_terminal:
            self._status.update(text)
        elif seconds >= self._next_line:
            self._next_line = seconds + _LINE_EVERY_SECONDS
            message(text)


def offer_repairs(
    rules: Mapping[str, Sequence[MissingRule]], region: str, clients: Clients, *, yes: bool
) -> bool:
    """Show the rules, group by group, ask, and add them; says whether any were.

    Raises Refusal where there is nobody to ask, AwsRefusal where AWS refuses.
    """
    from launcher.session.account_checks import add_rules

    if not rules:
        message("--fix: no security group rule is missing")
        return False
    # All are shown before the first is added, so that a refusal leaves no half repair unseen.
    for group_id, missing in rules.items():
        message("\n".join([f"{group_id} lacks:", *(f"  {rule} ({rule.code})" for rule in missing)]))
    if not yes and not sys.stdin.isatty():
        raise Refusal(
            "--fix asks before it changes a security group, and there is no terminal to ask on.",
            "Add --yes to add the rules above, or run it in a terminal.",
        )
    chosen = [missing for group_id, missing in rules.items() if yes or _agreed(group_id, len(missing))]
    for missing in chosen:
        for rule, added in add_rules(missing, region, clients):
            message(f"{rule.group_id}: {'added' if added else 'was there already'}: {rule}")
    return bool(chosen)


def _agreed(group_id: str, count: int) -> bool:
    return confirm(f"Add {count} rule{'s' if count > 1 else ''} to {group_id}?")

"""Jobs on the terminal: a running one, its attempts, diagnosis and ranks, and many in a table."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from launcher.backends.interface import JobState, JobStatus, JobSummary, LogLine
from launcher.cli.interaction import (
    HIDDEN,
    OutputFormat,
    console,
    console_for_output,
    leave,
    message,
    passing,
    print_json,
)
from launcher.diagnosis.logs.lines import redacted, shown
from launcher.diagnosis.model import Stop, StopCause
from launcher.session.runs.read_job_lines import Moving
from launcher.text.log_lines import origin_of
from launcher.text.values import duration_in_words, elapsed_time, size_in_words, without_controls

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from launcher.backends.interface import Backend, Progress
    from launcher.diagnosis.model import CollectiveCall, Diagnosis, RankState
    from launcher.failure_modes.model import Finding
    from launcher.planning.next_attempt import GiveUp, TryAgain
    from launcher.session.managed.show_run import ManagedRun
    from launcher.session.runs.diagnose_job import Check, Outcome
    from launcher.session.runs.follow_job import Interrupted, LineChoice, Notice, Screen
    from launcher.session.runs.read_job_lines import TrainingProgress
    from launcher.session.submit_job import Started

_REFRESHES_PER_SECOND = 4


class LivePanel(ABC):
    """A panel that is drawn again and again on a terminal, until it is left, and nowhere else."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    @abstractmethod
    def _panel(self) -> Table:
        """What is to be seen now."""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._panel,
                console=self._console,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red")
STATE_STYLES = {JobState.COMPLETED: "bold green", JobState.FAILED: "bold red"}
_CURVE_WIDTH = 48


class JobView(LivePanel):
    """Shows a followed job: log lines as they come, and on a terminal a live panel with its state, its
    metrics and a curve; without a terminal, plain lines alone."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._status: JobStatus | None = None
        self._seen_at = time.monotonic()
        self._progress: TrainingProgress | None = None
        self._trouble: str | None = None

    def status(self, status: JobStatus) -> None:
        """Renew the live line; without a terminal print a line when the phase changes."""
        changed = self._status is None or status.phase != self._status.phase
        self._status, self._seen_at = status, time.monotonic()
        if self._live is None and changed:
            after = f" after {elapsed_time(status.seconds)}" if status.seconds else ""
            self._console.print(f"[{status.phase}]{after}", style="dim", markup=False)

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Print log lines, each with its host; control characters of the job do not reach the terminal."""
        self._console.print(_Lines(lines), soft_wrap=True, end="")

    def note(self, text: str) -> None:
        """Print a remark of the launcher's own among the lines."""
        self._console.print(text, style="dim", markup=False)

    def trouble(self, text: str | None) -> None:
        """Say what keeps the job from being seen: in the live line, else once."""
        if self._live is None and (text is None) != (self._trouble is None):
            message(text or "connected again")
        self._trouble = text

    def progress(self, progress: TrainingProgress) -> None:
        """Show the newest metrics in the panel; without a terminal nothing is printed."""
        self._progress = progress

    def notice(self, notice: Notice) -> None:
        """Print a warning above the log's end, or that it is over."""
        if isinstance(notice, Moving):
            self._console.print(f"{notice.job_name} moves again", style="green", markup=False)
            return
        self._console.print(f"warning: {notice.message}", style="yellow", markup=False)
        self._console.print(f"  → {notice.remedy}", style="yellow", markup=False)

    def _panel(self) -> Table:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        if self._status is None:
            grid.add_row(Spinner("dots"), "waiting for the job")
            return grid
        grid.add_row(Spinner("dots"), self._status_line(self._status))
        if self._trouble:
            grid.add_row("", Text(self._trouble, style="yellow"))
        if self._progress is not None:
            grid.add_row("", metrics_line(self._progress))
        return grid

    def _status_line(self, status: JobStatus) -> Any:
        from rich.text import Text

        since = time.monotonic() - self._seen_at
        parts = [status.name]
        if status.seconds is not None:
            parts.append(elapsed_time(status.seconds + since))
        if status.explanation:
            parts.append(status.explanation)
        return Text.assemble((status.phase, "bold"), (f" {' · '.join(parts)}", "dim"))


class _Lines:
    """Log lines as rich prints them, without the cost of laying out each: jobs print very many."""

    def __init__(self, lines: Sequence[LogLine]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        if console.color_system is None:
            yield Segment("".join([f"{host} {_harmless(text)}\n" for _, host, text in self._lines]))
            return
        styles = [console.get_style(colour) for colour in COLOURS]

        @cache
        def coloured(text: str, number: int) -> Segment:
            return Segment(text, styles[number % len(styles)])

        for _, host, text in self._lines:
            yield coloured(f"{host} ", _number_of(host))
            text = _harmless(text)
            origin = origin_of(text)
            if origin.mark is not None:
                start, end = origin.mark
                if start:
                    yield Segment(text[:start])
                rank = origin.local_rank if origin.rank is None else origin.rank
                yield coloured(text[start:end], rank or 0)
                text = text[end:]
            yield Segment(f"{text}\n")


def _harmless(text: str) -> str:
    """A line without control characters and without its end; most have neither."""
    return text if text.isprintable() else without_controls(text).rstrip("\n")


def metrics_line(progress: TrainingProgress) -> Any:
    """Step, metrics, the curve of the one that is drawn, and when the training ends."""
    from rich.text import Text

    from launcher.session.runs.read_job_lines import curve_in_blocks

    text = Text()
    for name, value in progress.values.items():
        text.append(f"{name} ", "dim")
        text.append(f"{value:.6g}  ", "bold")
    if progress.drawn and len(progress.curve) > 1:
        text.append(f"{progress.drawn} ", "dim")
        text.append(curve_in_blocks(progress.curve, _CURVE_WIDTH), "cyan")
    if progress.remaining is not None:
        text.append(f"  done in about {duration_in_words(progress.remaining)}", "dim")
    return text


def conclude(outcome: Outcome, output: OutputFormat, more: Mapping[str, Any]) -> int:
    """Print how a job ended, in JSON with `more` beside it; the exit code: 0 done, 1 failed or stopped."""
    if output is OutputFormat.JSON:
        print_json({**outcome_json(outcome), **more})
    else:
        show_outcome(console(), outcome)
    return 0 if outcome.succeeded else 1


def conclude_interrupted(interrupted: Interrupted, output: OutputFormat, more: Mapping[str, Any]) -> int:
    """Print how a job ended that ran here and was interrupted, as `conclude`; the exit code of the signal."""
    if interrupted.outcome is None:
        message(f"stopped. {interrupted.remedy}")
    else:
        conclude(interrupted.outcome, output, more)
    return interrupted.exit_code


def show_outcome(console: Console, outcome: Outcome) -> None:
    """Print how the job ended: the cause of a failure or a stop and what to do, and where its results are."""
    from rich.text import Text

    from launcher.session.runs.diagnose_job import places_of

    status = outcome.status
    style = STATE_STYLES.get(status.state, "bold yellow")
    took = f" after {elapsed_time(status.seconds)}" if status.seconds is not None else ""
    console.print(Text.assemble((str(status.state), style), f" {status.name}{took}"))
    if outcome.diagnosis is not None and outcome.cause is not None:
        show_cause(console, outcome.diagnosis)
        console.print(Text(f"launch explain {outcome.cause.code}", "cyan"))
    elif status.failure_reason:
        console.print(redacted(status.failure_reason), markup=False)
    for warning in outcome.warnings or ():
        show_warning(console, warning)
    for label, place in (*bill_rows(status), *places_of(status)):
        console.print(Text.assemble((f"{label:<11} ", "dim"), place), soft_wrap=True)
    console.print(Text(f"launch report {status.name}", "cyan"))


def bill_rows(status: JobStatus) -> Iterator[tuple[str, str]]:
    """The line of what a job has cost; none where it costs nothing, or no price is known."""
    from launcher.planning.job_cost import bill_in_words

    if status.request is None or not status.billable_seconds:
        return
    words = bill_in_words(status.request, status.request.region, status.billable_seconds)
    if words is not None:
        yield "cost", words


def _usd(status: JobStatus) -> float | None:
    from launcher.planning.job_cost import spent_usd

    if status.request is None or status.billable_seconds is None:
        return None
    usd = spent_usd(status.request, status.request.region, status.billable_seconds)
    return None if usd is None else round(usd, 2)


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """How a job ended, in the shape that `--output json` prints."""
    status = outcome.status
    failure, stop = outcome.failure, outcome.stop
    return {
        "name": status.name,
        "state": status.state.value,
        "verdict": outcome.verdict.value if outcome.verdict else None,
        "failure": failure.to_json() if failure else None,
        "stop": {**stop.finding.to_json(), **_stop_json(status.stop)} if stop else None,
        "failure_reason": redacted(status.failure_reason) if status.failure_reason else None,
        "checkpoints": status.checkpoints,
        "output": status.output,
        "seconds": status.seconds,
        "billable_seconds": status.billable_seconds,
        "usd": _usd(status),
        "warnings": None if outcome.warnings is None else [warning.to_json() for warning in outcome.warnings],
    }


def _stop_json(stop: Stop | None) -> dict[str, Any]:
    """What ended the job, who in words, when in seconds since the epoch, and the limit in seconds."""
    stop = stop or Stop(StopCause.ASKED)
    return {"cause": stop.cause.value, "who": stop.who, "at": stop.at, "limit": stop.limit}


@cache
def _number_of(host: str) -> int:
    """The digits of a host's name as one number, 0 where it has none: hosts side by side differ in colour."""
    return int("".join(filter(str.isdecimal, host)) or 0)


# How far a submission is, and what becomes of its attempts: a line for each step.


def show_progress(progress: Progress) -> None:
    """Print a step on stderr when it is done; on a terminal also how far it is."""
    if not progress.total:
        message(progress.step)
        return
    share = f"{progress.step}: {100 * progress.done // progress.total}% of {size_in_words(progress.total)}"
    done = progress.done >= progress.total
    if sys.stderr.isatty():
        passing(share, last=done)
    elif done:
        message(share)


def show_started(job: Started, output: OutputFormat, **more: Any) -> None:
    """A job that nobody follows, as JSON with `more`; as text its progress has told of it already."""
    if output is OutputFormat.JSON:
        state = JobState.IN_PROGRESS if job.begun is None else job.begun.state
        before = {} if job.begun is None else {"launched_before": True}
        print_json({"name": job.name, "state": state.value, **before, **more})


def show_run(screen: Console, run: ManagedRun, newest: JobStatus) -> None:
    """The attempts of a managed run, as a table, and what it has cost."""
    from rich.table import Table
    from rich.text import Text

    from launcher.session.managed.show_run import HEADINGS, rows_of_run, totals_of_run

    table = Table(title=f"managed run {run.first}", title_justify="left", box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold", style="dim" if heading == "decision" else "")
    for row in rows_of_run(run, newest):
        table.add_row(*(Text(each) for each in row))
    screen.print(table)
    for label, text in totals_of_run(run).items():
        screen.print(f"{label}: {text}", style="dim", markup=False)


def run_line(run: ManagedRun) -> Text:
    """A managed run in a line: its name, how it is, how many attempts there were, what ended the last one."""
    from rich.text import Text

    causes = ", ".join(each.cause for each in run.attempts if each.cause)
    usd = "" if run.usd is None else f"{run.usd:,.2f} USD"
    style = {"completed": "green", "failed": "red", "running": "bold"}.get(run.state, "yellow")
    attempts = f"{run.newest} attempt{'s' if run.newest > 1 else ''}"
    rest = "  ".join(each for each in (attempts, causes, usd) if each)
    return Text.assemble(f"{run.first}  ", (f"{run.state:<10}", style), f"  {rest}")


class AttemptsView:
    """Tells of the attempts of a job; `names` are those submitted so far."""

    def __init__(self, screen: Console) -> None:
        self.names: list[str] = []
        self._screen = screen

    def started(self, job: Started) -> None:
        """Keep the name, which its progress has told; from the second attempt on say which it is."""
        self.names.append(job.name)
        if len(self.names) > 1:
            message(f"{job.name} is attempt {len(self.names)}")

    def decided(self, outcome: Outcome, decision: TryAgain | GiveUp) -> None:
        """Before another attempt, show how the last one ended and why and when the next one comes."""
        from launcher.failure_modes.model import Retry
        from launcher.planning.next_attempt import GiveUp
        from launcher.text.values import elapsed_time

        if isinstance(decision, GiveUp):
            if len(self.names) > 1 or (outcome.diagnosis and outcome.diagnosis.retry is not Retry.NEVER):
                message(f"not tried again: {decision.why}")
            return
        show_outcome(self._screen, outcome)
        wait = f" in {elapsed_time(decision.wait_seconds)}" if decision.wait_seconds else ""
        message(f"trying again{wait} on {decision.instance_type}: {decision.why}")


# A diagnosis on a terminal: the root cause, the lines that show it, and what to do.


_ADVICE = {
    "never": "as it is, it would fail again",
    "same": "the same job may well succeed",
    "other-hosts": "a new job gets other hosts; the same warm pool does not",
    "later": "submit it again in a while",
}


def show_verdict(terminal: Console, diagnosis: Diagnosis) -> None:
    """Print whether a job without a root cause is well; where nobody knows, what was read and is unusual."""
    from rich.padding import Padding
    from rich.text import Text

    if not diagnosis.verdict.is_bad:
        terminal.print(Text("No failure found.", "bold green"))
        return
    terminal.print(Text(f"Unknown: {diagnosis.summary}.", "bold yellow"))
    for line in diagnosis.unusual:
        terminal.print(Padding(Text(f"│ {line}", "dim", overflow="ellipsis", no_wrap=True), (0, 0, 0, 2)))


def show_cause(terminal: Console, diagnosis: Diagnosis) -> None:
    """Print the root cause with its evidence, the remedy and whether to run again, where one is known."""
    from rich.padding import Padding
    from rich.text import Text

    from launcher.diagnosis.model import CheckOutcome, Confidence

    cause = diagnosis.root_cause
    if cause is None:
        return
    finding, retry, bad = cause.finding, diagnosis.retry.value, diagnosis.verdict.is_bad
    terminal.print(
        Text.assemble((finding.code, f"bold {'red' if bad else 'yellow'}"), " ", (finding.message, "bold"))
    )
    for line in cause.evidence:
        if line not in finding.message:
            shown = Text(f"│ {line}", "dim", overflow="ellipsis", no_wrap=True)
            terminal.print(Padding(shown, (0, 0, 0, 2)))
    terminal.print(Text(f"→ {finding.remedy}"))
    for check in diagnosis.checked:
        colour = {CheckOutcome.WRONG: "bold red", CheckOutcome.RIGHT: "green"}.get(check.outcome, "yellow")
        terminal.print(Text.assemble(("Checked: ", colour), check.message))
        if check.outcome is CheckOutcome.WRONG:
            terminal.print(Text(f"→ {check.remedy}"))
    if bad and diagnosis.retry_known:
        terminal.print(Text(f"→ Retry {retry}: {_ADVICE[retry]}."))
    sureness = cause.sureness
    if bad and sureness.confidence is not Confidence.SURE:
        terminal.print(Text(f"This is {sureness.confidence.value}: {sureness.why}.", "dim"))
    if bad and diagnosis.runner_up is not None:
        other = f"It may as well be {diagnosis.runner_up.code}: {diagnosis.runner_up.message}"
        terminal.print(Text(other, "dim", overflow="ellipsis", no_wrap=True))


def show_warning(terminal: Console, finding: Finding) -> None:
    """Print what was found against a job's success, and what to do."""
    from rich.text import Text

    terminal.print(Text.assemble((f"warning {finding.code}", "bold yellow"), " ", (finding.message, "bold")))
    terminal.print(Text(f"→ {finding.remedy}"))
    terminal.print(Text(f"launch explain {finding.code}", "cyan"))


def show_consequences(terminal: Console, diagnosis: Diagnosis) -> None:
    """Print what followed from the root cause and what else was found, a line each."""
    from rich.text import Text

    followed = {id(finding) for finding in diagnosis.consequences}
    for finding in diagnosis.findings[1 if diagnosis.root_cause else 0 :]:
        label = "followed" if id(finding) in followed else "also"
        line = f"{label}  {finding.code}  {finding.message}"
        terminal.print(Text(line, "dim", overflow="ellipsis", no_wrap=True))


# The table of ranks on a terminal: those that differ from the rest first, the rest in one line.


_MOST_ROWS = 20
"""As many as a screen of 24 lines shows with the heading and what is left out."""


def ranks_table(ranks: Sequence[RankState]) -> Table:
    """A row for each group of ranks that are alike in all but host and time, the smallest groups first."""
    from rich.table import Table
    from rich.text import Text

    groups: dict[tuple[object, ...], list[RankState]] = {}
    for row in ranks:
        groups.setdefault(
            (row.is_silent, row.step, row.enqueued, row.completed, row.exit, row.state, row.frame), []
        ).append(row)
    order = sorted(groups.values(), key=lambda group: (len(group), group[0].rank))
    kept, left = order[:_MOST_ROWS], order[_MOST_ROWS:]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("RANKS", "HOST", "LAST OUTPUT", "STEP", "CALLED", "ENDED", "PROCESS", "AT"):
        table.add_column(heading, overflow="fold")
    for group in kept:
        table.add_row(*_cells(group))
    if left:
        rest = [row.rank for group in left for row in group]
        table.add_row(Text(f"{len(rest)} more", "dim"), *[Text("")] * 7)
    return table


def _cells(group: Sequence[RankState]) -> list[Text]:
    from rich.text import Text

    from launcher.diagnosis.verdict.findings import ranks_in_words

    first = group[0]
    hosts = sorted({row.host for row in group if row.host})
    times = [row.last_output for row in group if row.last_output is not None]
    cells = [
        ranks_in_words([row.rank for row in group]).partition(" ")[2],
        hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts" if hosts else "",
        _time(max(times)) if times else "",
        "" if first.step is None else str(first.step),
        _collective(first.enqueued),
        _collective(first.completed),
        "never reported"
        if first.is_silent
        else ", ".join(each for each in (first.exit, first.state) if each),
        first.frame or "",
    ]
    return [Text(shown(cell)) for cell in cells]


def _collective(collective: CollectiveCall | None) -> str:
    if collective is None:
        return ""
    number = "" if collective.sequence is None else f" #{collective.sequence}"
    group = f" ({collective.group})" if collective.group else ""
    return f"{collective.name}{number}{group}"


def _time(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return ""


# Jobs as a table that fits the terminal: what may be left out goes first, and a name is never cut.


_GAP = "  "
Column = tuple[str, "Callable[[JobSummary], Text]"]
"""A heading, and what stands below it for a job."""


def job_lines(jobs: Sequence[JobSummary], width: int) -> Iterator[Text]:
    """A line of headings and one for each job, within so many columns where the names leave room for that."""
    from rich.text import Text

    cells = _fitting(jobs, width)
    widths = [max(len(row[index]) for row in cells) for index in range(len(cells[0]))]
    for number, row in enumerate(cells):
        line = Text()
        for index, (cell, wide) in enumerate(zip(row, widths, strict=True)):
            padding = " " * (wide - len(cell))
            right = row is not cells[0] and cells[0][index].plain == "TOOK"
            line.append_text(Text(padding) + cell if right else cell + Text(padding))
            line.append(_GAP)
        line.rstrip()
        if number == 0:
            line.stylize("dim")
        yield line


def _fitting(jobs: Sequence[JobSummary], width: int) -> list[list[Text]]:
    """The cells of the fullest layout that fits, else of the barest."""
    from rich.text import Text

    for columns in _LAYOUTS:
        heads = [Text(head) for head, _ in columns]
        cells = [heads, *([of(job) for _, of in columns] for job in jobs)]
        wide = sum(max(len(row[index]) for row in cells) for index in range(len(columns)))
        if wide + len(_GAP) * (len(columns) - 1) <= width:
            break
    return cells


def _name(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(job.name)


def _state(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(job.state.value, STATE_STYLES.get(job.state, ""))


def _state_and_phase(job: JobSummary) -> Text:
    text = _state(job)
    return text if job.phase == job.state.value else text.append(f" ({job.phase})", "dim")


def _created(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(f"{job.created.astimezone():%Y-%m-%d %H:%M}")


def _created_briefly(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(f"{job.created.astimezone():%m-%d %H:%M}")


def _took(job: JobSummary) -> Text:
    from rich.text import Text

    return Text(elapsed_time((job.ended - job.created).total_seconds()) if job.ended else "")


_LAYOUTS: Sequence[Sequence[Column]] = (
    (("NAME", _name), ("STATE", _state_and_phase), ("CREATED", _created), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state_and_phase), ("CREATED", _created_briefly), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state), ("CREATED", _created), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state), ("CREATED", _created_briefly), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state), ("TOOK", _took)),
    (("NAME", _name), ("STATE", _state)),
)
"""From the fullest to the barest."""


# A job followed at the terminal until its end, or until the user leaves it alone or stops it.


if TYPE_CHECKING:
    Choose = Callable[[Callable[[], None]], LineChoice | None]

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
    from launcher.session.runs.follow_job import follow

    return attend_with(backend, output, choose, partial(follow, backend, name, check=check))


def attend_with(
    backend: Backend,
    output: OutputFormat,
    choose: Choose | None,
    follow: Callable[[Screen, LineChoice | None], Ended],
) -> Ended | None:
    """Show a job that runs elsewhere until `follow` returns; None where the user left it with Ctrl-C."""
    from launcher.session.runs.follow_job import Interrupted

    try:
        with JobView(console_for_output(output)) as view:
            return follow(view, choose(lambda: view.note(HIDDEN)) if choose is not None else None)
    except Interrupted as interrupted:
        leave(backend, interrupted)
        return None

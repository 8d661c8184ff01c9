"""`launch diagnose`, `launch report`, `launch explain`: why a job failed, and what is known of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.interaction import EXIT_USAGE, OutputFormat, OutputOption, console, message, print_json
from launcher.cli.plan import STYLES
from launcher.failure_modes.model import FailureMode, Figure, Refusal, Stage
from launcher.failure_modes.registry import CATALOGUE, FAMILIES, IN_WORDS, blind_examples, stages_covered
from launcher.text.values import nearest

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from launcher.backends.interface import FoundJob
    from launcher.diagnosis.model import Diagnosis
    from launcher.session.runs.diagnose_job import Check


def diagnose(
    *name: Annotated[str, Parameter(help="The job's name, of a local run or on SageMaker.")],
    log: Annotated[
        list[Path] | None,
        # What follows the first path comes as `name`: the option alone may take `-`, but only one value.
        Parameter(
            name="--log",
            negative="",
            allow_leading_hyphen=True,
            help="Log files, folders or archives, in most formats; - is stdin.",
        ),
    ] = None,
    ranks: Annotated[
        bool, Parameter(name="--ranks", negative="", help="Show what is known of each rank as well.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Say why a job failed: the root cause, what followed from it, and whether to run it again.

    Exits with 1 where it failed, or nothing shows that it did not; with 0 where all is well or it was only
    stopped.
    """
    if not log and len(name) != 1:
        message("error: give one job's name, or log files with --log.\nSee `launch diagnose --help`.")
        return EXIT_USAGE
    if not log and Path(name[0]).is_file():
        raise Refusal(
            f"{name[0]} is a file, not the name of a job.", f"For a log: launch diagnose --log {name[0]}"
        )
    diagnosis = _diagnose_logs([*log, *map(Path, name)]) if log else _diagnose_job(name[0])
    if output is OutputFormat.JSON:
        print_json(diagnosis.to_json())
    else:
        _show_diagnosis(console(), diagnosis)
        if ranks:
            _show_ranks(console(), diagnosis)
    return 1 if diagnosis.verdict.is_bad else 0


def _diagnose_logs(paths: list[Path]) -> Diagnosis:
    from launcher.diagnosis.diagnose import diagnose as diagnose_lines
    from launcher.session.log_files import logs_in

    files = logs_in(paths)
    for text in files.unread:
        message(f"warning: not read: {text}")
    return diagnose_lines(files.records, streams=files.streams, evidence=files.evidence)


def _diagnose_job(name: str) -> Diagnosis:
    import time

    from launcher.session.runs.diagnose_job import diagnose_job

    found, check = _find_job(name)
    return diagnose_job(found.backend, found.name, check, time.time())


def _find_job(name: str) -> tuple[FoundJob, Check]:
    """A job by its name, and what holds its diagnosis against the account."""
    from launcher.aws.clients import Clients
    from launcher.aws.session import session_region
    from launcher.session.account_checks import account_check
    from launcher.session.find_jobs import find_job

    clients = Clients()
    found = find_job(name, clients, session_region())
    if found.news:
        message(found.news)
    return found, account_check(clients)


def _show_diagnosis(terminal: Console, diagnosis: Diagnosis) -> None:
    from rich.text import Text

    from launcher.cli.job_view import show_cause, show_consequences, show_verdict

    cause = diagnosis.root_cause
    if cause is None:
        show_verdict(terminal, diagnosis)
    show_cause(terminal, diagnosis)
    show_consequences(terminal, diagnosis)
    if cause is not None:
        terminal.print(Text(f"launch explain {cause.finding.code}", "cyan"))


def _show_ranks(terminal: Console, diagnosis: Diagnosis) -> None:
    from launcher.cli.job_view import ranks_table

    if diagnosis.ranks:
        terminal.print(ranks_table(diagnosis.ranks))
    else:
        terminal.print("No line tells which rank printed it, so there is no table of ranks.")


# `launch report NAME | --log PATH...`: one HTML page that tells a run.


def report(
    *name: Annotated[str, Parameter(help="The job's name, of a local run or on SageMaker.")],
    log: Annotated[
        list[Path] | None,
        # As for `launch diagnose`: what follows the first path comes as `name`.
        Parameter(
            name="--log", negative="", allow_leading_hyphen=True, help="Log files or folders; - is stdin."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        Parameter(help="Where the page goes. Default: NAME-report.html here, log-report.html of log files."),
    ] = None,
    force: Annotated[
        bool, Parameter(negative="", help="Write over a file that is no page of a run.")
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Write one HTML page that tells a run: what happened, the ranks, a timeline, loss, cost and plan.

    It needs no network, neither to be made from log files nor to be read. Exits with 0 where the page was
    written, however the run ended.
    """
    from launcher.session.runs.report_runs import (
        check_place,
        page_file,
        report_of_job,
        report_of_logs,
        write_page,
    )

    if not log and len(name) != 1:
        message("error: give one job's name, or log files with --log.\nSee `launch report --help`.")
        return EXIT_USAGE
    place = file or page_file(None if log else name[0], Path())
    # Before all lines are read.
    check_place(place, force=force)
    made = report_of_logs([*log, *map(Path, name)]) if log else report_of_job(*_find_job(name[0]))
    write_page(made, place, force=force)
    if output is OutputFormat.JSON:
        print_json({"file": str(place), "name": made.name, "verdict": made.diagnosis.verdict.value})
    else:
        console().print(str(place), markup=False, soft_wrap=True)
    return 0


# `launch explain`: the catalogue of failure modes, one of them or all.


def explain(
    *code: Annotated[
        str, Parameter(help="A code such as EFA002, in capitals or not; or words to look for, such as hang.")
    ],
    all_: Annotated[
        bool,
        Parameter(name="--all", negative="", show_default=False, help="Every failure mode: the default."),
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Explain a failure mode: why it happens, what to do, where it is caught; or list those that have a word
    in their titles, else in their causes and remedies.
    """
    text = " ".join(code)
    if not code:
        _explain_all(output)
        return 0
    if all_:
        message(f"error: both {text} and --all were given; give one of them.")
        return EXIT_USAGE
    mode = CATALOGUE.get(text.upper())
    found = [] if mode is not None else _search(text)
    if mode is None and not found:
        message(_unknown(text))
        return EXIT_USAGE
    if mode is None:
        if output is OutputFormat.JSON:
            print_json([_shape(each) for each in found])
        else:
            _show_modes(console(), found)
        message(f"`launch explain {found[0].code}` explains the first of them")
    elif output is OutputFormat.JSON:
        print_json(_shape(mode))
    else:
        _show_mode(console(), mode)
    return 0


def _explain_all(output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json([_shape(mode) for mode in CATALOGUE.values()])
    else:
        _show_all_modes(console())


def _search(text: str) -> list[FailureMode]:
    """The modes with words that begin with all of those, in their titles, else in what is said of them."""
    words = [re.compile(rf"\b{re.escape(word)}", re.IGNORECASE) for word in text.split()]
    if not words:
        return []

    def having(said: Callable[[FailureMode], str]) -> list[FailureMode]:
        return [mode for mode in CATALOGUE.values() if all(word.search(said(mode)) for word in words)]

    return having(lambda mode: mode.title) or having(lambda mode: f"{mode.cause} {mode.remedy}")


def _shape(mode: FailureMode) -> dict[str, Any]:
    """A mode in the shape that `--output json` prints; keys and their order are a contract."""
    return {
        "code": mode.code,
        "title": mode.title,
        "cause": mode.cause,
        "remedy": mode.remedy,
        "sources": [source.title for source in mode.sources],
        "stages": [stage.value for stage in stages_covered(mode.code)],
        "notices": [
            {
                "text": notice.text,
                "since": None if notice.since is None else notice.since.isoformat(),
                "source": notice.source.title,
                "as_of": notice.source.as_of.isoformat(),
            }
            for notice in mode.notices
        ],
        "figures": [
            {"figure": each.number, "what": each.what, "source": each.source and each.source.title}
            for each in mode.figures
        ],
        "as_of": min(source.as_of for source in mode.sources).isoformat(),
        "blind_examples": {stage.value: [*count] for stage, count in blind_examples(mode.code).items()},
    }


def _unknown(code: str) -> str:
    near = nearest(code.upper(), CATALOGUE, most=3, likeness=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `launch explain --all` for all of them."
    return f"error: {code} is not a failure mode; {hint}"


def _show_mode(terminal: Console, mode: FailureMode) -> None:
    from rich.text import Text

    stages = stages_covered(mode.code)
    blind = {stage: f"; {count}" for stage, count in blind_examples(mode.code).items()}
    caught = [f"{stage.value}: {IN_WORDS[stage]}{blind.get(stage, '')}" for stage in stages] or [
        "nowhere yet"
    ]
    _line(terminal, Text.assemble((mode.code, "bold"), "  ", (mode.severity.value, STYLES[mode.severity])))
    _line(terminal, Text(mode.title, "bold"))
    announced = [f"- {each.text} ({each.source}; read {each.source.when_read})." for each in mode.notices]
    for heading, paragraphs in (
        ("Announced", announced),
        ("Cause", [mode.cause]),
        ("Remedy", [mode.remedy]),
        ("Caught", [f"- {line}" for line in caught]),
        ("In a script", _in_scripts(mode) if Stage.SCRIPT in stages else []),
        ("Figures", [f"- {each.number}: {each.what}{_said_by(each)}" for each in mode.figures]),
        ("Sources", [f"- {source} (read {source.when_read})" for source in mode.sources]),
    ):
        if not paragraphs:
            continue
        _line(terminal, Text(f"\n{heading}", "bold"))
        for paragraph in paragraphs:
            for line in _wrapped(paragraph, min(terminal.width, _PROSE_WIDTH) - len(_INDENT)):
                prose = Text(_INDENT + line)
                prose.highlight_regex(r"`[^`]+`", "cyan")
                _line(terminal, prose)


def _in_scripts(mode: FailureMode) -> list[str]:
    """What the rules on scripts find of a mode, with a line that is wrong and one that is right."""
    from launcher.rules.script.check import descriptions_of

    paragraphs = []
    for rule in descriptions_of(mode.code):
        paragraphs.append(f"- {rule.finds}{' (With a job.)' if rule.with_job else ''}")
        paragraphs += [f"  Bad: {rule.bad}", f"  Good: {rule.good}"]
    return paragraphs


def _show_all_modes(terminal: Console) -> None:
    from rich.text import Text

    for family, modes in FAMILIES.items():
        _line(terminal, Text(family, "bold underline"))
        _show_modes(terminal, modes)
        terminal.print()
    _line(terminal, Text("Caught at: " + ", ".join(f"{stage.letter} {stage}" for stage in Stage), "dim"))


def _show_modes(terminal: Console, modes: Iterable[FailureMode]) -> None:
    from rich.text import Text

    for mode in modes:
        head = Text.assemble(
            (f"{mode.code:<9}", "bold"),
            (f"{mode.severity.value:<9}", STYLES[mode.severity]),
            (f"{_letters(stages_covered(mode.code))}  ", "dim"),
        )
        # What is piped is not wrapped: one line for each mode, so that grep finds it whole.
        width = terminal.width - len(head) if terminal.is_terminal else len(mode.title)
        for line in _wrapped(mode.title, width):
            _line(terminal, head + Text(line))
            head = Text(" " * len(head))


_INDENT = "  "
_PROSE_WIDTH = 100


def _letters(stages: tuple[Stage, ...]) -> str:
    """The stages in fixed places, as `P . . L D .`."""
    return " ".join(stage.letter if stage in stages else "." for stage in Stage)


def _wrapped(text: str, width: int) -> list[str]:
    hang = "  " if text.startswith(("- ", "  ")) else ""
    return wrap(text, max(width, 20), subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


def _line(terminal: Console, text: Text) -> None:
    terminal.print(text, soft_wrap=True)


def _said_by(figure: Figure) -> str:
    return "" if figure.source is None else f" ({figure.source})"

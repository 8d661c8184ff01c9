"""`launch explain`: the catalogue of failure modes, one of them or all."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.findings_view import STYLES
from launcher.cli.job_options import OutputOption
from launcher.cli.output import EXIT_USAGE, OutputFormat, console, message, print_json
from launcher.failure_modes.catalogue import CATALOGUE, FAMILIES
from launcher.failure_modes.coverage import IN_WORDS, stages_covered
from launcher.failure_modes.model import FailureMode, Figure, Stage
from launcher.text.nearest import nearest

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def explain(
    code: Annotated[str | None, Parameter(help="A code such as EFA002, in capitals or not.")] = None,
    *,
    all_: Annotated[
        bool,
        Parameter(name="--all", negative="", show_default=False, help="Every failure mode: the default."),
    ] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Explain a failure mode: why it happens, what to do, where it is caught."""
    if code is None:
        _explain_all(output)
        return 0
    if all_:
        message(f"error: both {code} and --all were given; give one of them.")
        return EXIT_USAGE
    mode = CATALOGUE.get(code.upper())
    if mode is None:
        message(_unknown(code))
        return EXIT_USAGE
    if output is OutputFormat.JSON:
        print_json(_shape(mode))
    else:
        _show(console(), mode)
    return 0


def _explain_all(output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json([_shape(mode) for mode in CATALOGUE.values()])
    else:
        _show_all(console())


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
    }


def _unknown(code: str) -> str:
    near = nearest(code.upper(), CATALOGUE, most=3, likeness=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `launch explain --all` for all of them."
    return f"error: {code} is not a failure mode; {hint}"


def _show(terminal: Console, mode: FailureMode) -> None:
    from rich.text import Text

    stages = stages_covered(mode.code)
    caught = [f"{stage.value}: {IN_WORDS[stage]}" for stage in stages] or ["nowhere yet"]
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
    from launcher.rules.script.descriptions import descriptions_of

    paragraphs = []
    for rule in descriptions_of(mode.code):
        paragraphs.append(f"- {rule.finds}{' (With a job.)' if rule.with_job else ''}")
        paragraphs += [f"  Bad: {rule.bad}", f"  Good: {rule.good}"]
    return paragraphs


def _show_all(terminal: Console) -> None:
    from rich.text import Text

    for family, modes in FAMILIES.items():
        _line(terminal, Text(family, "bold underline"))
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
        terminal.print()
    _line(terminal, Text("Caught at: " + ", ".join(f"{stage.letter} {stage}" for stage in Stage), "dim"))


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

"""What a program takes on its command line, and what a job or the shell script beside it gives it there.

Options that do not do what they look like, and words that the script's own parser refuses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Edit, Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of, constant_argument, has_star_arguments
from launcher.program.index import file_of
from launcher.program.program import Program
from launcher.program.ranks.reachability import surely_runs
from launcher.program.records import declaring_calls
from launcher.program.surroundings.shell_starts import ShellStart, ShellStarts
from launcher.program.values import UNKNOWN, External, Instance, alternatives
from launcher.rules.script.configuration_files import ConfigurationFiles, reads_entry, words_of
from launcher.rules.script.findings import Places, ScriptSubject, finding_at, finding_in_shell

# Options of the command line that do not do what they look like.
from launcher.text.values import nearest

if TYPE_CHECKING:
    from launcher.program.surroundings.parsers import DeclaredWords

_OTHER_PARSERS = frozenset({"jsonargparse", "tap", "simple_parsing", "click", "typer"})
"""Libraries whose parsers may understand `type=bool`, or that are no argparse at all.

Not configargparse, which hands what stands in a file to argparse as words of the command line (its
`convert_item_to_command_line_arg`).
"""

_PARSERS = ("argparse.", "configargparse.")


@finds(Stage.SCRIPT, training_script.ENTRY_POINT_MISSING)
def switches_can_be_switched_off(program: Program) -> Iterator[Finding]:
    """`type=bool` of an argparse option: `--amp False` is True, as every text but the empty one is.

    A job's hyperparameters come as words, so `use_amp: false` switches it on, and nothing says so.

    Silent where another library's parser may be meant, and where an action is given: BooleanOptionalAction
    and an action of the script's own need not look at the type.

    Bad: `parser.add_argument("--amp", type=bool, default=True)`. Good:
    `parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)`.
    Source: Python documentation: argparse ("The bool() function is not recommended as a type converter").
    """
    if any(
        (each.module or "").partition(".")[0] in _OTHER_PARSERS
        for file in program.files
        for each in file.imports
    ):
        return
    for file in program.files:
        for call in declaring_calls(file):
            kind = argument_of(call, "type")
            if kind is None or program.value(kind) != External("bool") or not _is_argparse(program, call):
                continue
            if argument_of(call, "action") is not None:
                continue
            words = [each.value for each in call.args if isinstance(each, ast.Constant)]
            option = next((each for each in words if isinstance(each, str)), "the option")
            yield finding_at(
                training_script.ENTRY_POINT_MISSING,
                call,
                f"{option}{_AS_SWITCH} for which every text but the empty one is True: `{option} False` "
                "switches it on",
                remedy="Write action=argparse.BooleanOptionalAction, or action='store_true'.",
                severity=Severity.WARNING,
                fix=_fix(program, call, kind),
            )


_AS_SWITCH = " has type=bool,"


def switch_of(finding: Finding) -> str:
    """The option that a finding says to be a switch that cannot be switched off, an empty text of others."""
    option, _, rest = finding.message.partition(_AS_SWITCH)
    return option.lstrip("-") if rest else ""


def _is_argparse(program: Program, call: ast.Call) -> bool:
    """Whether the parser is argparse's: known to be, or unknown in a program that uses no other."""
    if not isinstance(call.func, ast.Attribute):
        return False
    parser = program.value(call.func.value)
    if parser is UNKNOWN:
        return any(each.module == "argparse" for file in program.files for each in file.imports)
    return all(isinstance(each, Instance) and each.name.startswith(_PARSERS) for each in alternatives(parser))


def _fix(program: Program, call: ast.Call, kind: ast.expr) -> Fix | None:
    """Another action in place of the type, where argparse takes it: a long option with a plain default."""
    file = file_of(call)
    if any(
        each.arg in ("nargs", "const", "choices", "metavar") for each in call.keywords
    ) or has_star_arguments(call):
        return None
    names = [each.value for each in call.args if isinstance(each, ast.Constant)]
    if not any(isinstance(each, str) and each.startswith("--") for each in names):
        return None
    default = constant_argument(program, argument_of(call, "default"))
    if default is None or not isinstance(default.value, bool):
        return None
    module = next((each.name for each in file.imports if each.module == "argparse"), None)
    keyword = next(each for each in call.keywords if each.value is kind)
    if module is None:
        return None
    start, end = Places(file).span(keyword)
    edit = Edit(str(file.path), start, end, f"action={module}.BooleanOptionalAction")
    return Fix(safe=True, edits=(edit,))


@finds(Stage.SCRIPT, training_script.ENTRY_POINT_MISSING)
def script_takes_the_shells_words(program: Program) -> Iterator[Finding]:
    """A word that the shell script beside a program gives it, and its parser refuses.

    Every rank exits with code 2 as soon as it starts.

    Silent where several shell scripts start the program, about words that only a run of the shell would tell,
    and of what is required where whoever starts the shell script may add words.

    Bad: `add_argument("--learning-rate")` and `torchrun train.py --learning_rate 0.1`. Good: one spelling.

    Source: Python documentation: argparse.
    """
    starts = program.analysis(ShellStarts).starts
    if not starts or program.unread:
        return
    from launcher.program.surroundings.parsers import script_parsers
    from launcher.rules.job.subject import judge_words

    for parser in script_parsers(program):
        for start in starts:
            words, is_open = _words_of_shell(start)
            read = replace(parser, declared=[*map(_any_value, parser.declared)]) if is_open else parser
            for said in judge_words(read, words, program.entry.path.name, start.file.name):
                if is_open and said.node is not parser.reading:
                    continue  # About a value, which is not known.
                if said.severity is None:
                    yield finding_in_shell(
                        training_script.ENTRY_POINT_MISSING,
                        start,
                        said.message,
                        remedy="Correct the word in the shell script, or declare it in the script with "
                        "add_argument.",
                    )


def _words_of_shell(start: ShellStart) -> tuple[list[str], bool]:
    """The words of a line, and whether some of them are open: values that only a run of the shell would tell,
    or variables that may be any number of words."""
    words, is_open = list[str](), False
    for word in start.words:
        option, sign, _ = word.text.partition("=")
        if not word.is_open and "$" not in word.text:
            words.append(word.text)
            continue
        is_open = True
        if sign and option.startswith("-") and "$" not in option:
            words.append(f"{option}=x")
        elif words and words[-1].startswith("-") and "=" not in words[-1] and "@" not in word.text:
            words.append("x")
    return words, is_open


def _any_value(declared: DeclaredWords) -> DeclaredWords:
    """An option as it is declared, which may be left out, and takes any value."""
    kept = {key: each for key, each in declared.settings.items() if key in ("action", "nargs")}
    if not declared.names[0].startswith("-"):
        kept["required"] = False
    return replace(declared, settings=kept)


OPTION_RULES = (switches_can_be_switched_off, script_takes_the_shells_words)
"""The rules of this family."""


# The words that a job gives, as the script's own parser would read them.


@finds(Stage.SCRIPT, training_script.ENTRY_POINT_MISSING)
def script_takes_the_jobs_words(subject: ScriptSubject) -> Iterator[Finding]:
    """A hyperparameter or argument that the script's parser refuses, or a required one that nobody gives.

    Every rank exits with code 2 as soon as it starts. What a parser that lets others pass does not know has
    no effect, which is a warning where a similar name is known.

    Parsers of argparse, HfArgumentParser with its dataclasses, click and typer; silent where something that
    is not read here may add to the parser, or changes sys.argv, and where only some runs come to it.

    Bad: `add_argument("--learning-rate")` and `hyperparameters: {learning_rate: 0.1}`. Good: one spelling.

    Source: Python documentation: argparse.
    """
    from launcher.program.surroundings.parsers import script_parsers
    from launcher.rules.job.subject import WORDS_REMEDY, given_words, judge_words

    program, job = subject.program, subject.job
    if job.tuning is not None or program.unread:
        return
    if job.code.argument_style == "hydra":
        yield from _words_for_hydra(subject)
        return
    words, script = given_words(job), program.entry.path.name
    for parser in script_parsers(program):
        for said in judge_words(parser, words, script):
            yield finding_at(
                training_script.ENTRY_POINT_MISSING,
                said.node,
                said.message,
                remedy=WORDS_REMEDY,
                severity=said.severity,
            )


def _words_for_hydra(subject: ScriptSubject) -> Iterator[Finding]:
    """Words that hydra's files have no entry for, and entries that they leave to the words (`???`), which the
    job does not give and the program reads."""
    program, words = subject.program, words_of(subject.job)
    mains = [call for call, _ in program.calls("hydra.main")]
    keys = program.analysis(ConfigurationFiles).hydra_keys(words) if len(mains) == 1 else None
    if keys is None:
        return
    for word in words:
        name, sign, _ = word.removeprefix("--").partition("=")
        last = name.rpartition(".")[2]
        if not sign or not name.replace(".", "").isidentifier() or name.startswith("hydra."):
            continue  # `+name=1` adds an entry, `~name` takes one away, `name@package=1` is a group's.
        if last not in keys.known:
            near = nearest(last, sorted(keys.known))
            meant = f": did you mean {near[0]}?" if near else ""
            yield finding_at(
                training_script.ENTRY_POINT_MISSING,
                mains[0],
                f"hydra finds no entry {name} in {keys.file.name} or what it includes, and exits{meant}",
                remedy=f"Correct it, or write +{name} to add an entry.",
            )
    for path in sorted(keys.lacking):
        last = path[-1]
        is_set = any(file.set_attributes.get(last) or file.set_items.get(last) for file in program.files)
        asked = any("is_missing" in file.text or "merge" in file.text for file in program.files)
        uses = (use for file in program.files for use in file.attributes.get(last, ()))
        read = [use for use in uses if reads_entry(use, path)]
        if read and not is_set and not asked and any(surely_runs(program, use) for use in read):
            yield finding_at(
                training_script.ENTRY_POINT_MISSING,
                mains[0],
                f"{keys.file.name} leaves {'.'.join(path)} to the words (???), the job does not give it, and "
                "the program ends where it reads it (MissingMandatoryValue)",
                remedy=f"Give {'.'.join(path)} in `hyperparameters` or `code.arguments`.",
            )


WORDS_JOB_RULES = (script_takes_the_jobs_words,)
"""Those that need a job."""

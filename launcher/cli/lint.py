"""`launch lint`: the distributed mistakes of training scripts, found by their syntax trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.cli.output import EXIT_USAGE, message
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.session.linting import Lint, Selection
    from launcher.session.repairing import Repair


class LintOutput(StrEnum):
    """What `launch lint` prints on stdout."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def lint(
    *scripts: Annotated[Path, Parameter(help="Python scripts, or folders in which to look for them.")],
    job: Annotated[
        Path | None,
        Parameter(help="Judge the scripts together with this job file; without a script its own."),
    ] = None,
    select: Annotated[
        list[str] | None,
        Parameter(negative="", help="Look only for this code, or for those of a family, such as DDP."),
    ] = None,
    ignore: Annotated[
        list[str] | None, Parameter(negative="", help="Accept the findings of a code, or of a family.")
    ] = None,
    fix: Annotated[
        bool, Parameter(negative="", show_default=False, help="Make the safe fixes, and show what is left.")
    ] = False,
    unsafe_fixes: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="With --fix, --diff: also those that change what the script does.",
        ),
    ] = False,
    diff: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show the fixes as a diff; write nothing.")
    ] = False,
    verbose: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show informational findings, too.")
    ] = False,
    output: Annotated[LintOutput, Parameter(help="What stdout gets.")] = LintOutput.TEXT,
) -> int:
    """Find the distributed mistakes of training scripts. Exits with 1 where there are errors.

    Reads the scripts and what they import from their project; runs and imports nothing of them.
    """
    from launcher.cli.lint_view import print_lint

    if not scripts and job is None:
        message("error: give at least one script or folder.\nSee `launch lint --help`.")
        return EXIT_USAGE
    if unsafe_fixes and not (fix or diff):
        raise Refusal("--unsafe-fixes says which fixes are made, and none are.", "Add --fix or --diff.")
    if diff and output is not LintOutput.TEXT:
        raise Refusal(f"--diff prints a diff, not {output}.", "Leave out --output.")
    selection = _selection(select, ignore)
    judge = _judge_of(scripts, job, selection)
    if fix or diff:
        from launcher.session.repairing import repair

        done = repair(judge, unsafe=unsafe_fixes)
        _show_repair(done, None if diff else output, verbose=verbose)
        return exit_code(done.lint)
    result = judge({})
    print_lint(result, output, verbose=verbose, fixable=True)
    return exit_code(result)


def exit_code(result: Lint) -> int:
    """1 where an error was found that nobody accepts, else 0."""
    return 1 if any(finding.blocks for finding in result.findings) else 0


def _selection(select: Sequence[str] | None, ignore: Sequence[str] | None) -> Selection:
    from launcher.session.linting import Selection

    return Selection(_codes("--select", select), _codes("--ignore", ignore))


def _codes(option: str, given: Sequence[str] | None) -> tuple[str, ...]:
    """The codes of an option, in capitals. Raises Refusal for one that does not exist."""
    from launcher.scripts.configuration import is_known, meant_instead

    codes = tuple(each.strip().upper() for word in given or () for each in word.split(","))
    for code in codes:
        if not is_known(code):
            raise Refusal(f"{option} {code}: there is no such code.", meant_instead(code))
    return codes


def _judge_of(
    scripts: Sequence[Path], job: Path | None, selection: Selection
) -> Callable[[Mapping[str, bytes]], Lint]:
    """The lint that was asked for, of files some of which may have changed."""
    from launcher.session.linting import lint as lint_scripts

    if job is None:
        return lambda changed: lint_scripts(scripts, selection, changed=changed)
    from launcher.cli.job_options import plan_offline, read
    from launcher.session.linting_jobs import lint_with_job

    loaded = read(job, None, None, None)
    with loaded.substitutions.refusals():
        plan = plan_offline(loaded, selection.ignore)

    def together(changed: Mapping[str, bytes]) -> Lint:
        with loaded.substitutions.refusals():
            return lint_with_job(loaded, plan, scripts, selection, changed=changed)

    return together


def _show_repair(done: Repair, output: LintOutput | None, *, verbose: bool) -> None:
    """Write what was repaired and show what is left; without an output show the diff, and write nothing."""
    from launcher.cli.lint_view import print_diff, print_lint, repair_summary

    if output is None:
        print_diff(done)
    else:
        done.write()
        print_lint(done.lint, output, verbose=verbose, fixable=False)
    message(repair_summary(done, written=output is not None))

"""`launch clean`: delete old local runs, after showing which, and asking."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from launcher.cli.attendance import confirmed, must_ask
from launcher.cli.job_options import OutputOption
from launcher.cli.output import OutputFormat, console, message, print_json
from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.session.cleaning import Cleaning, Old

KEPT_RUNS = 10


def clean(
    *,
    keep: Annotated[int, Parameter(help="How many of the newest runs stay.")] = KEPT_RUNS,
    all_: Annotated[bool, Parameter(name="--all", negative="", help="Keep none.")] = False,
    yes: Annotated[bool, Parameter(negative="", help="Delete without asking.")] = False,
    output: OutputOption = OutputFormat.TEXT,
) -> int:
    """Delete the project's old local runs with their checkpoints. Exit code 1 where one cannot be deleted."""
    from launcher.session.cleaning import plan_cleaning
    from launcher.session.home import local_home
    from launcher.text.sizes import size_in_words

    if keep < 0:
        raise Refusal(f"--keep {keep} is not a number of runs.", "Give 0 or more.")
    home = local_home()
    found = plan_cleaning(home, 0 if all_ else keep)
    if output is OutputFormat.TEXT:
        _show(found)
    if not found.goes:
        message(f"nothing to delete in {home}; {_staying(found)}")
    elif not yes:
        if not must_ask(yes, output):
            raise Refusal("there is nobody to ask whether that is to be deleted; nothing was.", "Add --yes.")
        if not confirmed(f"Delete {_counted(found)}, {size_in_words(found.size)}? {_staying(found)}"):
            message("nothing was deleted")
            return 0
    failed = _delete(found)
    deleted = [each for each in found.goes if each.folder not in failed]
    if output is OutputFormat.JSON:
        print_json(_json(found, deleted, failed))
    elif deleted:
        freed = size_in_words(sum(each.size for each in deleted))
        console().print(f"deleted {len(deleted)}, {freed}", markup=False)
    return 1 if failed else 0


def _delete(found: Cleaning) -> dict[Any, str]:
    from launcher.session.cleaning import delete

    failed = {}
    for old in found.goes:
        try:
            delete(old)
        except OSError as error:
            failed[old.folder] = error.strerror or str(error)
            message(f"not deleted: {old.folder}: {failed[old.folder]}")
    return failed


def _show(found: Cleaning) -> None:
    from rich.table import Table
    from rich.text import Text

    from launcher.text.sizes import size_in_words

    if not found.goes:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("NAME", no_wrap=True, overflow="ignore")
    table.add_column("STATE", no_wrap=True)
    table.add_column("CREATED", no_wrap=True)
    table.add_column("SIZE", no_wrap=True, justify="right")
    for old in found.goes:
        created = f"{datetime.fromtimestamp(old.created).astimezone():%Y-%m-%d %H:%M}"
        table.add_row(Text(old.name), _state(old), created, size_in_words(old.size))
    console().print(table, soft_wrap=True)


def _state(old: Old) -> str:
    if old.state is not None:
        return old.state
    return "unreadable" if old.kind == "run" else str(old.kind)


def _counted(found: Cleaning) -> str:
    runs = sum(each.kind == "run" for each in found.goes)
    others = len(found.goes) - runs
    words = [f"{runs} run{'s' * (runs != 1)}"] if runs else []
    words += [f"{others} other folder{'s' * (others != 1)}"] if others else []
    return " and ".join(words)


def _staying(found: Cleaning) -> str:
    running = f", and {len(found.running)} that run{'s' * (len(found.running) == 1)}" if found.running else ""
    return f"{found.kept} ended run{'s' * (found.kept != 1)} stay{'s' * (found.kept == 1)}{running}."


def _json(found: Cleaning, deleted: list[Old], failed: dict[Any, str]) -> dict[str, Any]:
    return {
        "deleted": [
            {
                "name": each.name,
                "kind": each.kind.value,
                "state": each.state,
                "created": datetime.fromtimestamp(each.created).astimezone().isoformat(),
                "bytes": each.size,
            }
            for each in deleted
        ],
        "failed": [{"folder": str(folder), "problem": problem} for folder, problem in failed.items()],
        "kept": found.kept,
        "running": list(found.running),
    }

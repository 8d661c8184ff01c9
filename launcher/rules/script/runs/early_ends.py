"""What ends every rank of a job early: names that the image's libraries no longer have, variables that nobody
sets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.interpreter import READ_UNSET
from launcher.program.values import LIBRARY_TABLES
from launcher.rules.script.findings import finding_at
from launcher.rules.script.runs.rank_runs import RankRuns

_REMOVED: dict[str, tuple[str, str]] = LIBRARY_TABLES["removed_names"]
"""By its name, the package that lost something and the version from which on it is gone."""
_OF_MPI = re.compile(r"(HOROVOD|OMPI|DMLC|PMI|PMIX)_")
"""The variables of another launcher, of which DIST005 says that the job has the wrong one."""


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def names_are_still_there(runs: RankRuns) -> Iterator[Finding]:
    """A name that every rank reads and that the image's version of its library no longer has.

    Each rank ends there, with an ImportError or AttributeError. Silent within a `try`, where a test of the
    version passes over it, and where the code's requirements bring another version of the library.

    Bad: `from torch._six import inf` with PyTorch 2. Good: `from math import inf`. Source: the release
    notes of torch, torchvision, numpy, scipy, Pillow and Python.
    """
    told: set[str] = set()
    for event in (each for run in runs.runs[:1] for each in run.calls(*_REMOVED)):
        package, since = _REMOVED[event.name]
        has = runs.versions.get(package)
        if has is None or _parts(has) < _parts(since) or event.name in told or not event.is_sure:
            continue
        if package.lower() in runs.required:
            continue
        told.add(event.name)
        version = has if package in ("torch", "torchvision", "Python") else f"{since} and newer"
        yield finding_at(
            training_script.SCRIPT_RAISED,
            event.node,
            f"{package} {version} has no {event.name}, which is gone since {since}: every rank ends here",
            remedy=f"Use what {package} has in its place, or name an older image (`framework.version`).",
        )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in version.split(".") if each.isdecimal())


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def variables_are_set(runs: RankRuns) -> Iterator[Finding]:
    """A variable of the environment that a rank reads by its name and that neither job nor launcher sets.

    The rank ends there with a KeyError, and the others wait for it. A warning, as an image may set it. Silent
    within a `try`, about variables that images often set, and where a file of them is read.

    Bad: `os.environ["ENTITY"]`. Good: the same with `environment: {ENTITY: ...}` in the job file, or
    `os.environ.get("ENTITY")`. Source: Python's os.environ.
    """
    if next(runs.calls("*.load_dotenv", "*.read_env", "os.environ.update"), None) is not None:
        return
    told: set[str] = set()
    for run in runs.runs:
        for event in run.calls(READ_UNSET):
            (name,) = event.args
            if not event.is_sure or name in told or _OF_MPI.match(name):
                continue
            told.add(name)
            ranks = [
                one.world.rank
                for one in runs.runs
                if any(name in each.args for each in one.calls(READ_UNSET))
            ]
            who = "every rank" if len(ranks) == len(runs.runs) else f"rank {ranks[0]}"
            yield finding_at(
                training_script.SCRIPT_RAISED,
                event.node,
                f"{name} is set neither by the job nor by its launcher: {who} ends here with a KeyError, "
                "unless the image sets it",
                severity=Severity.WARNING,
                remedy=f"Set it in the job file (`environment: {{{name}: ...}}`), or read it with a default.",
            )


ENDING_RUN_RULES = (names_are_still_there, variables_are_set)

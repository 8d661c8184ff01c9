"""What of a program only older versions of Python read."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of
from launcher.program.program import OLD_ASYNC, Program
from launcher.rules.script.findings import finding_at

_WORD_SINCE = "3.7"
"""Source: "What's New In Python 3.7"."""
_RENAMED_SINCE = "0.4.1"
"""Source: the release notes of torch 0.4.1."""


@finds(Stage.SCRIPT, training_script.SCRIPT_RAISED)
def words_are_those_of_python(program: Program) -> Iterator[Finding]:
    """An argument that is called `async`, a word of Python's own since version 3.7.

    Every rank ends with a SyntaxError when it reads the file. The rest of it is judged all the same. A
    warning in a file that is only imported, as that may be caught.

    Bad: `images.cuda(async=True)`. Good: `images.cuda(non_blocking=True)`.

    Source: "What's New In Python 3.7"; the release notes of torch 0.4.1, which renamed it.
    """
    for file in program.files:
        calls = [each for each in file.calls_giving(OLD_ASYNC) if argument_of(each, OLD_ASYNC)]
        if calls:
            yield finding_at(
                training_script.SCRIPT_RAISED,
                min(calls, key=lambda each: each.lineno),
                f"`async` is a word of Python since {_WORD_SINCE} and can't name an argument: every rank "
                "ends with a SyntaxError here",
                severity=None if file is program.entry else Severity.WARNING,
                remedy=f"Write `non_blocking=True`, as torch calls it since {_RENAMED_SINCE}.",
            )

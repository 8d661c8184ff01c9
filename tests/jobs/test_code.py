"""What of the code is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.load import load_job

WriteJob = Callable[..., Path]


@pytest.mark.parametrize(
    ("code", "program"),
    [({"entry_point": "run/train.sh"}, "run/train.sh"), ({"module": "pkg.train"}, "-m pkg.train")],
)
def test_a_script_or_a_module_is_started(write_job: WriteJob, code: dict[str, str], program: str) -> None:
    loaded = load_job(write_job(code=code))
    assert loaded.spec is not None, loaded.findings
    assert loaded.spec.code.program == program
    assert loaded.spec.code.argument_style == "spaced"


@pytest.mark.parametrize(
    ("code", "subject", "says"),
    [
        ({"entry_point": "a.py", "module": "a"}, "code.module", "only one program"),
        ({"source_dir": "src"}, "code", "neither entry_point nor module"),
        ({"module": "pkg/train.py"}, "code.module", "does not have the form"),
        ({"module": "pkg..train"}, "code.module", "does not have the form"),
        ({"module": "-m"}, "code.module", "does not have the form"),
        ({"entry_point": "a.py", "argument_style": "dashes"}, "code.argument_style", "spaced"),
    ],
)
def test_what_names_no_program_is_refused_where_it_stands(
    write_job: WriteJob, code: dict[str, str], subject: str, says: str
) -> None:
    (finding,) = load_job(write_job(code=code)).findings
    assert (finding.code, finding.subject) == ("SPEC003", subject)
    assert says in finding.message
    assert finding.location is not None and finding.location.line >= 1

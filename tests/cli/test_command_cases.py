"""What commands print and how they end: the sentences and tables of `cases/*.yaml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.case_files import look_up
from tests.cli.command_cases import Group, complaints, read_groups, words_of
from tests.cli.conftest import RunLaunch, WriteJob
from tests.program import trial_rules

GROUPS = list(read_groups())


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_commands_print_what_their_table_says(
    group: Group,
    request: pytest.FixtureRequest,
    run_launch: RunLaunch,
    write_job: WriteJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found: list[str] = []
    for run in group.runs:
        if "job" in run:
            write_job(**run["job"])
        for name, text in run.get("files", {}).items():
            (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / name).write_text(text, "utf-8")
        for name, value in run.get("env", {}).items():
            monkeypatch.setenv(name, value)
        if run.get("rules") == "trial":
            trial_rules.use(monkeypatch)
        script = request.getfixturevalue("account") if "account" in run else None
        for name, value in (run.get("account") or {}).items():
            setattr(script, name, value)
        code, out, err = run_launch(*words_of(run))
        if "keep" in run:
            (tmp_path / run["keep"]).write_text(out)
        found += [f"{run['launch']}: {complaint}" for complaint in complaints(run, code, out, err)]
        for path, value in run.get("sent", {}).items():
            if (sent := look_up(script.requests, path)) != value:
                found.append(f"{run['launch']}: sent {path} {sent!r}, not {value!r}")
    assert not found, "\n".join(found)

"""Fixes are made where they hold what they promise, and only there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from launcher.failure_modes.model import Refusal
from launcher.session.lint_scripts import Lint, Repair, lint, repair
from tests.program import trial_rules


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trial_rules.use(monkeypatch)


def repaired(text: str, *, unsafe: bool = False) -> Repair:
    Path("train.py").write_text(text, "utf-8")

    def judge(changed: Mapping[str, bytes]) -> Lint:
        return lint([Path("train.py")], changed=changed)

    return repair(judge, unsafe=unsafe)


def result_of(done: Repair) -> str:
    done.write()
    return Path("train.py").read_text("utf-8")


def test_a_safe_fix_is_made_and_its_finding_is_gone() -> None:
    done = repaired('e["A"] = 4  # devices\nbarrier()\n')
    assert [each.code for each in done.fixed] == ["CODE003"]
    assert [each.code for each in done.lint.findings] == ["DDP004"]
    assert Path("train.py").read_text("utf-8").startswith('e["A"] = 4'), (
        "nothing is written before it is asked"
    )
    assert result_of(done) == 'e["A"] = "4"  # devices\nbarrier()\n'


def test_all_fixes_of_a_file_are_made_at_once_and_a_second_run_changes_nothing() -> None:
    fixed = result_of(repaired('e["A"] = 4\ne["B"] = 5\n'))
    assert fixed == 'e["A"] = "4"\ne["B"] = "5"\n'
    again = repaired(fixed)
    assert (again.changed, again.fixed, again.refused) == ({}, [], [])


def test_an_unsafe_fix_is_made_only_where_it_is_asked_for() -> None:
    text = 'e["A"] = 60\n'
    assert repaired(text).changed == {}
    assert result_of(repaired(text, unsafe=True)) == 'e["A"] = "60"\n'
    # An accepted finding is not fixed at all.
    assert repaired('e["A"] = 4  # slipway: ignore[CODE003] a list\n').changed == {}


def test_a_fix_that_leaves_its_finding_is_not_made_and_the_others_are() -> None:
    # The trial rule's fix of large numbers puts another number in their place.
    done = repaired('e["A"] = 100\ne["B"] = 5\ne["C"] = 6\n', unsafe=True)
    assert [str(each.location) for each in done.refused] == ["train.py:1:10"]
    assert len(done.fixed) == 2
    assert result_of(done) == 'e["A"] = 100\ne["B"] = "5"\ne["C"] = "6"\n'


def test_the_permissions_of_a_file_stay(tmp_path: Path) -> None:
    done = repaired('e["A"] = 4\n')
    Path("train.py").chmod(0o750)
    done.write()
    assert Path("train.py").stat().st_mode & 0o777 == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_what_a_link_leads_to_is_fixed() -> None:
    Path("real.py").write_text('e["A"] = 4\n', "utf-8")
    Path("link.py").symlink_to("real.py")
    repair(lambda changed: lint([Path("link.py")], changed=changed), unsafe=False).write()
    assert Path("link.py").is_symlink()
    assert Path("real.py").read_text("utf-8") == 'e["A"] = "4"\n'


@pytest.mark.parametrize("call", ["chmod", "replace"])
@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), KeyboardInterrupt()])
def test_a_write_that_does_not_come_to_its_end_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    done = repaired('e["A"] = 4\n')

    def ended(*arguments: object) -> None:
        raise error

    with monkeypatch.context() as patched, pytest.raises((Refusal, KeyboardInterrupt)) as told:
        patched.setattr(Path, call, ended)
        done.write()
    if isinstance(error, OSError):
        assert "train.py cannot be written: Permission denied" in str(told.value)
    assert {each.name: each.read_text("utf-8") for each in tmp_path.iterdir()} == {"train.py": 'e["A"] = 4\n'}


def test_a_link_where_a_temporary_file_could_be_is_not_written_through() -> None:
    Path("precious").write_text("precious", "utf-8")
    Path(".train.py.slipway-fix").symlink_to("precious")
    assert result_of(repaired('e["A"] = 4\n')) == 'e["A"] = "4"\n'
    assert Path("precious").read_text("utf-8") == "precious"

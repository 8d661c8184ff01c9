"""What the fixes of a lint make of the files, tried before anything is written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

from launcher.failure_modes.model import Edit, Finding, Fix
from launcher.failure_modes.refusal import Refusal
from launcher.scripts.edits import EditError, compatible, edited
from launcher.session.linting import Lint

MOST_ROUNDS = 50
"""So often files are judged again: fixes of one place wait for one another."""

Changed = Mapping[str, bytes]
"""The bytes of files as they would be, by their real paths."""


@dataclass(slots=True)
class Repair:
    """What the fixes come to: the files as they would be, by real path, and what is found in those then.

    `fixed` are the findings that are gone. `refused` are those whose fix was not made, as it would not have
    done what it should.
    """

    lint: Lint
    changed: dict[str, bytes] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """The files as findings name them, by real path."""
    fixed: list[Finding] = field(default_factory=list)
    refused: list[Finding] = field(default_factory=list)

    def write(self) -> None:
        """Write the changed files; each is whole at any time. Raises Refusal where one cannot be written."""
        for real, data in self.changed.items():
            _write(Path(real), data)


def repair(judge: Callable[[Changed], Lint], *, unsafe: bool) -> Repair:
    """Make the fixes of all findings, as many at once as can be, until none is left.

    `judge` is the lint of files some of which have changed. A fix is kept only where afterwards its finding
    is gone, no code is found more often, and the file is valid Python.
    """
    done = Repair(judge({}))
    given_up: set[tuple[str, ...]] = set()
    for _ in range(MOST_ROUNDS):
        fixable = [
            each
            for each in done.lint.findings
            if each.fix is not None
            and not each.ignored
            and (each.fix.safe or unsafe)
            and _identity(each) not in given_up
        ]
        at_once = set(compatible(each.fix for each in fixable if each.fix is not None))
        chosen = [each for each in fixable if each.fix in at_once]
        if not chosen:
            break
        if not _made(done, chosen, judge):
            _one_at_least(done, chosen, judge, given_up)
    return done


def _one_at_least(
    done: Repair,
    chosen: Sequence[Finding],
    judge: Callable[[Changed], Lint],
    given_up: set[tuple[str, ...]],
) -> None:
    """Make one of the fixes that do not go together; give up those before it that go wrong by themselves."""
    for each in chosen:
        if len(chosen) > 1 and _made(done, [each], judge):
            return  # What stands behind it in the file has moved.
        given_up.add(_identity(each))
        done.refused.append(each)


def _identity(finding: Finding) -> tuple[str, ...]:
    """What a finding stays while lines move."""
    file = finding.location.file if finding.location else ""
    return finding.code, file, finding.subject or "", finding.message


def _made(done: Repair, chosen: Sequence[Finding], judge: Callable[[Changed], Lint]) -> bool:
    """Make the fixes of these findings where they hold what they promise; else leave all as it is."""
    changed, names = dict(done.changed), dict(done.names)
    try:
        for file, edits in _by_file(each.fix for each in chosen if each.fix is not None).items():
            real = os.path.realpath(file)
            names.setdefault(real, file)
            changed[real] = edited(changed[real] if real in changed else Path(real).read_bytes(), edits)
    except (EditError, OSError):
        return False
    after = judge(changed)
    before, now = _counted(done.lint), _counted(after)
    gone = Counter(each.code for each in chosen)
    if any(now[code] > before[code] - gone[code] for code in now.keys() | before.keys()):
        return False
    done.lint, done.changed, done.names = after, changed, names
    done.fixed.extend(chosen)
    return True


def _by_file(fixes: Iterable[Fix]) -> dict[str, list[Edit]]:
    files: dict[str, list[Edit]] = {}
    for fix in fixes:
        for edit in fix.edits:
            files.setdefault(edit.file, []).append(edit)
    return files


def _counted(lint: Lint) -> Counter[str]:
    return Counter(finding.code for finding in lint.findings)


def _write(path: Path, data: bytes) -> None:
    try:
        mode = path.stat().st_mode & 0o7777
        # A new name: one that could be known beforehand might be a link that leads elsewhere.
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:100]}.", delete=False) as file:
            beside = Path(file.name)
            try:
                file.write(data)
                file.flush()
                beside.chmod(mode)
                beside.replace(path)
            except BaseException:
                beside.unlink()
                raise
    except OSError as error:
        raise Refusal(
            f"{path} cannot be written: {error.strerror}.", "Fix it by hand, or make it writable."
        ) from error

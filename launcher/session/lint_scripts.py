"""A lint: which programs there are below what was given, their findings, and the fixes of these.

Nothing is imported here that a script without a job does not need: a lint runs before each commit.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType
from typing import TYPE_CHECKING

from launcher.failure_modes.model import Edit, Finding, Fix, Refusal
from launcher.frozen import frozen
from launcher.program.index import Unread
from launcher.program.program import (
    NO_CHANGED_FILES,
    FileCache,
    Program,
    collection_paused,
    has_main_guard,
    may_be_started,
    python_files_below,
    read_program,
    trains_distributed,
)
from launcher.program.surroundings.shell_starts import ShellStarts
from launcher.rules.script.acceptance import (
    Acceptance,
    Configurations,
    IgnoreComment,
    ignore_comments,
    judge_comments,
    shell_comments,
)
from launcher.rules.script.check import (
    check_program,
    check_runs,
    check_script,
    codes_found,
    unfinished_finding,
    unread_finding,
)
from launcher.rules.script.findings import EditError, apply_edits, compatible_fixes
from launcher.text.values import nearest

if TYPE_CHECKING:
    from launcher.rules.script.findings import ScriptSubject

FEW_FILES = 16
"""So many scripts are judged sooner than other processes are started."""

GIVE_SCRIPTS = "Give Python scripts, or folders in which to look for them."

MOST_SECONDS = 5.0
"""So much CPU time the rules may take for one program, and as much again for every hundred files of it."""

PROJECT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
"""What lies in the folder of a project."""


@frozen
class Selection:
    """What the command line asks of a lint: codes or families that are looked for (all where there are
    none), and those whose findings are accepted besides what comments and configuration accept."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


ALL_FINDINGS = Selection()


@frozen
class Lint:
    """What came of a lint: its findings, accepted ones among them, in the order of files and lines.

    `programs` is how many scripts were judged, `files` how many files they are made of.
    """

    findings: tuple[Finding, ...]
    programs: int
    files: int


@frozen
class _Script:
    """A script to judge. One that was `given` by its name is judged whatever it is."""

    path: Path
    root: Path
    given: bool


@dataclass(slots=True)
class _Judged:
    """What was found in some scripts, and the comments of all files that they are made of."""

    findings: list[Finding] = field(default_factory=list)
    comments: dict[str, tuple[IgnoreComment, ...]] = field(default_factory=dict)
    programs: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)

    def add(self, program: Program, findings: Iterable[Finding]) -> None:
        self.programs.add(str(program.entry.path))
        self.findings.extend(findings)
        for file in program.files:
            name = str(file.path)
            if name not in self.files:
                self.files.add(name)
                self.comments[name] = ignore_comments(file)
        if (shell := program.analysis(ShellStarts).script) is not None:
            self.comments[str(shell.file)] = shell_comments(shell.text)

    def join(self, other: _Judged) -> None:
        self.findings.extend(other.findings)
        self.comments.update(other.comments)
        self.programs |= other.programs
        self.files |= other.files


def lint(
    paths: Sequence[Path],
    selection: Selection = ALL_FINDINGS,
    *,
    changed: Mapping[str, bytes] = NO_CHANGED_FILES,
    processes: int | None = None,
) -> Lint:
    """Judge scripts, and those of folders that start distributed training, without a job.

    `changed` holds bytes that are taken for those of files, by their real paths. `processes` is how many may
    judge at once, as many as there are CPUs unless given. Raises Refusal for a path that is not there.
    """
    configurations = Configurations()
    scripts = list(_scripts(paths, configurations))
    judged = _Judged()
    for part in _judge_all(scripts, changed, processes or os.cpu_count() or 1):
        judged.join(part)
    return _accepted(judged, selection, configurations, with_job=False)


def lint_subjects(
    subjects: Iterable[ScriptSubject | Program | Unread], selection: Selection = ALL_FINDINGS
) -> Lint:
    """Judge programs with the job that starts them; one that a shell script of the job starts as it is."""
    judged = _Judged()
    with collection_paused():
        for subject in subjects:
            if isinstance(subject, Unread):
                judged.findings.append(unread_finding(subject, imported=False))
            elif isinstance(subject, Program):
                judged.add(subject, _in_time(subject, partial(check_program, subject)))
            else:
                program = subject.program
                findings = _in_time(program, partial(check_script, subject))
                judged.add(program, _in_time(program, partial(check_runs, subject, findings)))
    return _accepted(judged, selection, Configurations(), with_job=True)


def _accepted(
    judged: _Judged, selection: Selection, configurations: Configurations, *, with_job: bool
) -> Lint:
    acceptance = Acceptance(judged.comments, selection.select, selection.ignore)
    found: dict[object, Finding] = {}
    for each in judged.findings:
        # Two programs that share a helper find the same there.
        found.setdefault((each.code, each.location, each.message), each)
    findings = []
    for each in found.values():
        configuration = configurations.configuration_for(_place(each))
        if acceptance.wanted(each, configuration):
            findings.append(acceptance.judged(each, configuration))
    for program in judged.programs:
        configurations.configuration_for(Path(program))
    codes = {code for code in codes_found(with_job) if not selection.select or code in selection.select}
    findings.extend(judge_comments(judged.comments, judged.findings, judged.programs, codes))
    findings.extend(configurations.findings())
    return Lint(tuple(sorted(findings, key=_order)), len(judged.programs), len(judged.files))


def _place(finding: Finding) -> Path:
    return Path(finding.location.file if finding.location else ".")


def _order(finding: Finding) -> tuple[str, int, int, str, str]:
    location = finding.location
    place = (location.file, location.line, location.column) if location else ("", 0, 0)
    return (*place, finding.code, finding.message)


def _scripts(paths: Sequence[Path], configurations: Configurations) -> Iterator[_Script]:
    """The scripts to judge, each once, in the order of what was given."""
    seen: set[str] = set()
    for path in paths:
        if _is_folder(path):
            candidates = python_files_below(
                path, lambda each: configurations.configuration_for(each).excludes(each)
            )
            found = [each for each in candidates if may_be_started(each)]
        elif path.exists() or path.is_symlink():
            found = [_no_notebook(path)]
        else:
            raise Refusal(f"{path} is not there.", _meant_instead(path))
        for each in found:
            real = os.path.realpath(each)
            if real not in seen:
                seen.add(real)
                yield _Script(each, project_root(each), given=not path.is_dir())


def _no_notebook(path: Path) -> Path:
    """Raises Refusal for a notebook, whose JSON may well be Python, too: that of an expression."""
    if path.suffix == ".ipynb":
        raise Refusal(
            f"{path} is a notebook, and the lint reads Python scripts.",
            f"Export it with `jupyter nbconvert --to script {path}`, and give the file that comes of it.",
        )
    return path


def _meant_instead(path: Path) -> str:
    """What to do about a path that is not there: a name beside it that is alike, or what can be given."""
    folder = path.parent
    readable = folder.is_dir() and os.access(folder, os.R_OK)
    names = [each.name for each in folder.iterdir()] if readable else []
    near = nearest(path.name, names)
    return f"Did you mean {folder / near[0]}?" if near else GIVE_SCRIPTS


def _is_folder(path: Path) -> bool:
    """Raises Refusal for a path that cannot be asked, such as one that is too long, or cannot be listed."""
    try:
        folder = path.is_dir()
        if folder:
            os.scandir(path).close()
        return folder
    except OSError as error:
        raise Refusal(
            f"{path} cannot be looked at: {error.strerror}.", "Give a path that is there."
        ) from error


def project_root(script: Path) -> Path:
    """The folder of the project that a script belongs to, by what lies in such folders; else its own.

    Relative for a relative path, so that findings name files as the user does.
    """
    own = script.absolute().parent
    for folder in (own, *own.parents):
        if any((folder / mark).exists() for mark in PROJECT_MARKS):
            return folder if script.is_absolute() else Path(os.path.relpath(folder))
    return script.parent


def _judge_all(scripts: list[_Script], changed: Mapping[str, bytes], processes: int) -> Iterator[_Judged]:
    if len(scripts) <= FEW_FILES or processes < 2:
        yield _judge(scripts, changed)
        return
    from concurrent.futures import ProcessPoolExecutor

    # Neighbours share helpers, and so go to one process.
    share = -(-len(scripts) // processes)
    shares = [scripts[at : at + share] for at in range(0, len(scripts), share)]
    with ProcessPoolExecutor(len(shares), initializer=_leave_interrupts) as pool:
        yield from pool.map(_judge, shares, repeat(dict(changed)))


def _in_time(program: Program, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """The findings of a check; where it came to no end, those until then and a warning.

    A mistake of ours keeps nobody from starting a job: it is told with its place.
    """
    remedy = "Split it where it is that long. Where it was generated, leave it out (`exclude`)."
    findings: list[Finding] = []
    most_seconds = MOST_SECONDS * (1 + len(program.files) // 100)
    try:
        with at_most(most_seconds):
            for each in check():
                findings.append(each)
        return findings
    except TakesTooLongError:
        reason = f"after {most_seconds:.3g} s of computing the rules were not done with it"
    except RecursionError:
        reason = "its expressions or calls are nested too deeply for the rules to follow"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__} in {Path(last.filename).name}, line {last.lineno}, ended the rules"
        remedy = "This is a fault of the launcher: report it, if you can with the script."
    return [*findings, unfinished_finding(program.entry.path, reason, remedy)]


def _leave_interrupts() -> None:
    """Ctrl-C ends the command; its processes end with it, without a traceback each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _judge(scripts: Sequence[_Script], changed: Mapping[str, bytes]) -> _Judged:
    """Judge some scripts one after the other; what they import in common is read once."""
    judged, cache = _Judged(), FileCache(changed)
    with collection_paused():
        for script in scripts:
            program = read_program(script.path, script.root, cache)
            if isinstance(program, Unread):
                judged.findings.append(unread_finding(program, imported=not script.given))
            elif script.given or (has_main_guard(program.entry) and trains_distributed(program)):
                judged.add(program, _in_time(program, partial(check_program, program)))
            cache.forget(script.path)
            del program
            cache.collect()
    return judged


# An end to what takes too long, in CPU time: a busy machine changes nothing.


class TakesTooLongError(Exception):
    """The time is up."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TakesTooLongError in the block once this process has worked so long on it.

    Only in a process's main thread, where Python can interrupt it; elsewhere the block takes its time.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise TakesTooLongError

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# What the fixes of a lint make of the files, tried before anything is written.


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
            write_whole(Path(real), data)


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
        at_once = set(compatible_fixes(each.fix for each in fixable if each.fix is not None))
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
            changed[real] = apply_edits(changed[real] if real in changed else Path(real).read_bytes(), edits)
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


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, new or in place of what it holds, so that it is whole at any time.

    Raises Refusal where it cannot be written.
    """
    try:
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o644
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

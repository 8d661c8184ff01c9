"""An attack made: in a folder, home and place for temporary files of its own, and judged by what it left."""

from __future__ import annotations

import fnmatch
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from launcher.source.packaging import build_boot
from tools import ROOT
from tools.attack.edges.attacks import Attack

MOST_OUTPUT = 400_000
_LAYING_SECONDS = 60.0
_LEFT_SECONDS = 8.0
"""For which what was started may outlive its command: a keeper ends it."""

_OURS = re.compile(r'File "[^"]*/(launcher|slipway)/[^"]*"')
_IDLE = 3
"""For how many times its bound on the processor an attack may take by the clock, beside other work."""

_RUN = re.compile(r"-[0-9][0-9a-z]{16}\b")
"""The end of a job's name, another for each."""

_FAULTS = ("This is a fault of the launcher", "Exception ignored in")


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of an attack: what is wrong, if anything, seconds of the processor, and what was seen."""

    attack: Attack
    wrong: tuple[str, ...]
    code: int | None
    seconds: float
    printed: str


@dataclass(slots=True)
class Field:
    """Where attacks are made: the commands, the folders that are copied, and the healthy answers."""

    place: Path
    _laid: dict[str, Path] = field(default_factory=dict)
    _healthy: dict[tuple[str, ...], tuple[int | None, str]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        commands = self.place / "bin"
        commands.mkdir()
        # As an installed command has it: neither the working directory nor the environment says where it is.
        start = f"import sys\nsys.path.insert(1, {str(ROOT)!r})\nfrom launcher.cli.app import main\nmain()\n"
        build_boot(self.place / "slipway.pyz")
        boot = f'#!/bin/sh\nexec {sys.executable} "{self.place}/slipway.pyz" "$@"\n'
        python = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
        written = {"launch": f"#!{sys.executable}\n{start}", "boot": boot, "python": python}
        for name, text in written.items():
            (commands / name).write_text(text)
            (commands / name).chmod(0o755)

    def try_attack(self, attack: Attack) -> Tried:
        """Make the attack, judge it, take everything of it away."""
        healthy = None
        if attack.expected.as_healthy:
            with self._lock:
                key = (attack.once, *attack.words)
                if key not in self._healthy:
                    self._healthy[key] = self._run(attack, "", '"$@"')[1:3]
            healthy = self._healthy[key]
        wrong, code, printed, seconds = self._run(attack, attack.lay, attack.run)
        if healthy is not None and (code, printed) != healthy:
            wrong.append(f"was not as it is in health: {healthy[0]} and {_short(healthy[1])}")
        elif healthy is None:
            wrong += _wrong_answer(attack, code, printed)
        return Tried(attack, tuple(wrong), code, seconds, printed)

    def _laid_out(self, once: str) -> Path:
        with self._lock:
            if once not in self._laid:
                box = Path(tempfile.mkdtemp(prefix="once-", dir=self.place))
                _make_box(box)
                self._lay(box, once, (), self._environment(box, {}))
                self._laid[once] = box
            return self._laid[once]

    def _lay(self, box: Path, text: str, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        code, said, _ = _shell(box, f"set -e\n{text}", words, environment, _LAYING_SECONDS)
        if code:
            raise AssertionError(f"cannot be laid out: {text}\n{said}")

    def _run(self, attack: Attack, lay: str, run: str) -> tuple[list[str], int | None, str, float]:
        template, box = self._laid_out(attack.once), Path(tempfile.mkdtemp(prefix="box-", dir=self.place))
        _make_box(box, template)
        environment, work = self._environment(box, attack.environment), box / "work"
        wrong: list[str] = []
        try:
            try:
                self._lay(box, lay, attack.words, environment)
            except AssertionError as error:
                return [str(error)], None, "", 0.0
            before = _pictured(work)
            bound = attack.expected.seconds
            code, printed, seconds = _shell(box, run, attack.words, environment, bound)
            if code is None or seconds > bound:
                wrong.append(f"not ended after {bound:g} s")
            wrong += _wrong_rest(attack, box, before)
            if attack.expected.then:
                (box / "printed").write_text(printed)
                ended, said, _ = _shell(box, attack.expected.then, (), environment, _LAYING_SECONDS)
                if ended or said:
                    wrong.append(f"afterwards: {_short(said) or ended}")
            return wrong, code, _RUN.sub("-RUN", printed.replace(str(box), "BOX")), seconds
        finally:
            for process in _left(box):
                process.kill()
            _remove(box)

    def _environment(self, box: Path, more: Mapping[str, str]) -> dict[str, str]:
        here = {
            "PATH": f"{self.place}/bin:{os.environ['PATH']}",
            "HOME": f"{box}/home",
            "TMPDIR": f"{box}/tmp",
            "BOX": str(box),
            "LANG": "C.UTF-8",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        return {**here, **{name: value.replace("$BOX", str(box)) for name, value in more.items()}}


def try_all(attacks: Iterable[Attack], at_once: int = 2) -> Iterator[Tried]:
    """Make the attacks, so many at the same time; what came of each, as they end."""
    place = Path(tempfile.mkdtemp(prefix="slipway-attack-"))
    try:
        ground = Field(place)
        with ThreadPoolExecutor(at_once) as pool:
            yield from pool.map(ground.try_attack, attacks)
    finally:
        _remove(place)


def _make_box(box: Path, template: Path | None = None) -> None:
    if template is not None:
        subprocess.run(["cp", "-a", *(str(template / name) for name in ("work", "home")), box], check=True)
    for name in ("work", "home", "tmp"):
        (box / name).mkdir(exist_ok=True)


def _shell(
    box: Path, text: str, words: tuple[str, ...], environment: Mapping[str, str], seconds: float
) -> tuple[int | None, str, float]:
    """A text for bash: its exit code, None where it had to be killed, what was printed, seconds of CPU."""
    if not text.strip():
        return 0, "", 0.0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["bash", "-c", text, "bash", *words],
            cwd=box / "work",
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + _IDLE * seconds
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            late = time.monotonic() > deadline
            if ended or late:
                break
            time.sleep(0.02)
        if not ended:
            os.killpg(process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read(MOST_OUTPUT).decode("utf-8", "surrogateescape")
        return process.returncode if ended else None, printed, usage.ru_utime + usage.ru_stime


def _wrong_answer(attack: Attack, code: int | None, printed: str) -> Iterator[str]:
    expected = attack.expected
    if code is not None and code not in expected.code:
        yield f"ended with {code} instead of {' or '.join(map(str, expected.code))}"
    for fault in _FAULTS:
        if fault in printed:
            yield f"said {fault!r}"
    shown = "Traceback (most recent call last)" in printed
    if shown and (not expected.tracebacks or _OURS.search(printed)):
        yield "showed a traceback"
    yield from (f"did not say {wanted!r}" for wanted in expected.says if not re.search(wanted, printed))
    yield from (f"said {unwanted!r}" for unwanted in expected.never if re.search(unwanted, printed))


def _wrong_rest(attack: Attack, box: Path, before: Mapping[str, object]) -> Iterator[str]:
    """What of an attack is left that may not be: files, or processes."""
    deadline = time.monotonic() + _LEFT_SECONDS
    while (left := _left(box)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in left:
        yield f"left a process: {_short(' '.join(_words(process)))}"
    after = _pictured(box / "work")
    for path in sorted(name for name in {*before, *after} if before.get(name) != after.get(name)):
        if not any(fnmatch.fnmatch(path, pattern) for pattern in attack.expected.writes):
            yield f"wrote, changed or deleted {path!r}"
    for scrap in (box / "tmp").iterdir():
        if not any(fnmatch.fnmatch(f"TMPDIR/{scrap.name}", each) for each in attack.expected.writes):
            yield f"left {scrap.name!r} in TMPDIR"


def _pictured(folder: Path) -> dict[str, object]:
    """Of each path below a folder what tells that it was changed."""
    found: dict[str, object] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            seen = path.lstat()
            is_folder = name in folders and not path.is_symlink()
            found[os.path.relpath(path, folder)] = seen.st_mode if is_folder else (*seen[:2], *seen[6:9:2])
        if len(found) > 20_000:
            break
    return found


def _left(box: Path) -> list[psutil.Process]:
    """The processes that work in the box, or have it from their environment."""
    marks, found = f"{box}/".encode(), []
    for process in psutil.process_iter():
        place = Path("/proc", str(process.pid))
        try:
            inside = (place / "cwd").readlink().is_relative_to(box)
            if inside or marks in (place / "environ").read_bytes():
                found.append(process)
        except OSError:
            continue
    return [each for each in found if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _short(text: str) -> str:
    return text if len(text) < 300 else f"{text[:150]}…{text[-140:]}"


def _remove(folder: Path) -> None:
    # Python's own removal of folders recurses.
    subprocess.run(["chmod", "-R", "u+rwx", folder], stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", folder], stderr=subprocess.DEVNULL)

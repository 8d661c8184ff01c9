"""Files and folders that nobody means well: each handed to the real command line, with bounds on it.

A case says what it does; every one must end in time, in little memory, and without a crash.
"""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools import ROOT

SECONDS = 60.0
MEMORY_BYTES = 3 * 1024**3
"""Of address space, beyond which a command is refused more."""

MANY_FILES = 60_000
JOB = {
    "name": "digits",
    "code": {"source_dir": "src", "entry_point": "train.py"},
    "framework": {"name": "pytorch", "version": "2.8.0", "python": "py312"},
    "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "distribution": {"strategy": "torchrun"},
}


@dataclass(frozen=True, slots=True)
class Case:
    """One hostile thing: `prepare` lays it into the folder of a good job and says which words to launch with.

    `heavy` ones take seconds to lay out.
    """

    name: str
    prepare: Callable[[Path], tuple[str, ...]]
    heavy: bool = False


@dataclass(frozen=True, slots=True)
class Tried:
    """How a command took a case: what is `wrong`, if anything, how long it took, and how large it got."""

    case: Case
    wrong: str | None
    exit_code: int | None
    seconds: float
    megabytes: int
    printed: str


def try_case(case: Case) -> Tried:
    """Lay the case out in a folder of its own, run the command on it, and take everything away again."""
    folder = Path(tempfile.mkdtemp(prefix="slipway-attack-"))
    try:
        write_good_job(folder)
        words = case.prepare(folder)
        return _run(case, folder, words)
    finally:
        # Python's own removal of folders recurses, and follows what it may read.
        subprocess.run(["chmod", "-R", "u+rwx", folder], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", folder], check=True)


def write_good_job(folder: Path) -> None:
    """A job that has no findings, for a case to spoil."""
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text("print('trained')\n")
    (folder / "job.yaml").write_text(yaml.safe_dump(JOB))


def _run(case: Case, folder: Path, words: tuple[str, ...]) -> Tried:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    began = time.monotonic()
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "launcher.cli.app", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
        )
        code, usage = _wait(process.pid, began)
        process.returncode = 0 if code is None else code
        printed.seek(0)
        said = printed.read(100_000).decode("utf-8", "replace")
    seconds = time.monotonic() - began
    return Tried(case, _wrong(code, said), code, seconds, usage // 1024, said)


def _wait(process: int, began: float) -> tuple[int | None, int]:
    """Exit code, None where it had to be killed, and the most memory in KiB."""
    while True:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss
        if time.monotonic() - began > SECONDS:
            os.kill(process, 9)
            _, _, usage = os.wait4(process, 0)
            return None, usage.ru_maxrss
        time.sleep(0.02)


def _wrong(code: int | None, said: str) -> str | None:
    if code is None:
        return f"not ended after {SECONDS:.0f} s"
    if code < 0:
        return f"died of signal {-code}"
    if "This is a fault of the launcher" in said or "Traceback" in said:
        return "crashed"
    return None if code in (0, 1, 2) else f"ended with {code}"


CHECK, DIAGNOSE = ("check", "job.yaml"), ("diagnose", "--log", "x.log")
DIFF = ("plan", "job.yaml", "--diff", "r.json")


Preparation = Callable[[Path], tuple[str, ...]]


def _at(
    name: str, lay: Callable[[Path], object], words: tuple[str, ...] = CHECK, **job: object
) -> Preparation:
    """Something at a place in the folder, in the stead of a file there; `job` are fields of the job file."""

    def prepare(folder: Path) -> tuple[str, ...]:
        if (folder / name).is_file():
            (folder / name).unlink()
        lay(folder / name)
        if job:
            (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, **job}))
        return words

    return prepare


def _holds(content: Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content())


def _link_to(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def _job(content: Callable[[], bytes]) -> Preparation:
    return _at("job.yaml", _holds(content))


def _fields(**job: object) -> Preparation:
    return _at("src", lambda source: None, **job)


def _manifest(lay: Callable[[Path], object]) -> Preparation:
    return _at("m.json", lay, cluster="./m.json")


def _socket(path: Path) -> None:
    here = Path.cwd()
    # The address of a socket may have no more than 107 bytes.
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _deep_folder(source: Path) -> None:
    here = Path.cwd()
    os.chdir(source)
    try:
        for _ in range(1_100):
            Path("d").mkdir()
            os.chdir("d")
        Path("deep.py").write_text("x = 1\n")
    finally:
        os.chdir(here)


def _many_files(source: Path) -> None:
    for number in range(MANY_FILES):
        if number % 1_000 == 0:
            (source / f"d{number // 1_000}").mkdir()
        (source / f"d{number // 1_000}" / f"f{number}").touch()


def _loop(source: Path) -> None:
    (source / "a").mkdir()
    (source / "a" / "loop").symlink_to("..", target_is_directory=True)


def _unreadable(source: Path) -> None:
    (source / "locked").mkdir()
    for path in (source / "locked" / "x.py", source / "own.py"):
        path.write_text("")
    (source / "own.py").chmod(0)
    (source / "locked").chmod(0)


def _alias_bomb() -> bytes:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(levels).encode()


def _merge_bomb() -> bytes:
    levels = ["a0: &a0 {x0: 1}"]
    levels += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 20)}], x{n}: 1}}" for n in range(1, 12)]
    return "\n".join(levels).encode()


def _ignored_fifo(source: Path) -> None:
    os.mkfifo(source / "data.py")
    (source / ".slipwayignore").write_text("data.py\n")


CASES: tuple[Case, ...] = (
    Case("40,000 open brackets", _job(lambda: b"name: " + b"[" * 40_000)),
    Case("40,000 open braces", _job(lambda: b"{a: " * 40_000)),
    Case("900,000 open brackets", _job(lambda: b"[" * 900_000)),
    Case("1,300 nested blocks", _job(lambda: b"".join(b" " * n + b"a:\n" for n in range(1_300)))),
    Case("nested sequences in one line", _job(lambda: b"- " * 400_000)),
    Case("100,000 question marks", _job(lambda: b"? " * 100_000)),
    Case("an alias bomb", _job(_alias_bomb)),
    Case("a merge bomb", _job(_merge_bomb)),
    Case("an alias to itself", _job(lambda: b"name: &a [*a]\n")),
    Case("100 MB of text", _job(lambda: b"name: " + b"x" * 100_000_000), heavy=True),
    Case("100,000 keys", _job(lambda: b"".join(b"k%d: 1\n" % n for n in range(100_000)))),
    Case("a key of 500,000 letters", _job(lambda: b"k" * 500_000 + b": 1\n")),
    Case("a number of 500,000 digits", _job(lambda: b"name: " + b"9" * 500_000)),
    Case("NUL in a job file", _job(lambda: b"name: a\x00b\n")),
    Case("an empty job file", _job(lambda: b"")),
    Case("a job file of random bytes", _job(lambda: bytes(range(256)) * 100)),
    Case("a cluster named by 10,000 letters", _fields(cluster="x" * 10_000)),
    Case("a cluster's path with NUL", _fields(cluster="./a\x00b.json")),
    Case("source_dir that is /proc/self", _fields(code={"source_dir": "/proc/self", "entry_point": "maps"})),
    Case("an entry point that is a device", _fields(code={"source_dir": "/dev", "entry_point": "zero"})),
    Case("a manifest of 40,000 brackets", _manifest(_holds(lambda: b"[" * 40_000))),
    Case("a manifest that is an alias bomb", _manifest(_holds(_alias_bomb))),
    Case("a manifest that is empty", _manifest(_holds(lambda: b""))),
    Case("a manifest that is a pipe", _manifest(os.mkfifo)),
    Case("a manifest that is /dev/zero", _manifest(_link_to("/dev/zero"))),
    Case("a manifest that is a folder", _manifest(Path.mkdir)),
    Case("a manifest that links to itself", _manifest(lambda path: path.symlink_to(path.name))),
    Case("a job file that is /dev/zero", lambda folder: ("check", "/dev/zero")),
    Case("a job file that is a folder", lambda folder: ("check", "src")),
    Case("a job file that is a pipe", _at("p.yaml", os.mkfifo, ("check", "p.yaml"))),
    Case("a pipe in the source", _at("src/data.py", os.mkfifo)),
    Case("a pipe in the source that is ignored", _at("src", _ignored_fifo)),
    Case("a link to /dev/zero", _at("src/z.py", _link_to("/dev/zero"))),
    Case(
        "a link to a pipe", _at("src", lambda s: (os.mkfifo(s.parent / "p"), (s / "z.py").symlink_to("../p")))
    ),
    Case("a socket", _at("src/s.py", _socket)),
    Case("an ignore file that is a pipe", _at("src/.gitignore", os.mkfifo)),
    Case(
        "an ignore file of 20 MB",
        _at("src/.gitignore", _holds(lambda: b"*a*b*c\n" * 3_000_000)),
        heavy=True,
    ),
    Case("requirements.txt that is a pipe", _at("src/requirements.txt", os.mkfifo)),
    Case("an entry point that is a pipe", _at("src/train.py", os.mkfifo)),
    Case("an entry point that is a folder", _at("src/train.py", Path.mkdir)),
    Case("an entry point that links to /dev/zero", _at("src/train.py", _link_to("/dev/zero"))),
    Case("a loop of links", _at("src", _loop)),
    Case("a dangling link", _at("src/x.py", _link_to("nowhere"))),
    Case("1,100 nested folders", _at("src", _deep_folder)),
    Case("a name with a line feed", _at("src/a\nb.py", _holds(lambda: b"x = 1\n"))),
    Case(
        "a name that is not UTF-8",
        _at("src", lambda s: Path(os.fsdecode(bytes(s) + b"/\xff\xfe.py")).write_text("x")),
    ),
    Case(
        "a program of 5 MB in one expression",
        _at("src/x.py", lambda path: path.write_text("x = 1" + "+1" * 2_500_000)),
    ),
    Case("a program of 100,000 brackets", _at("src/x.py", lambda path: path.write_text("(" * 100_000))),
    Case("a program with NUL", _at("src/x.py", _holds(lambda: b"x = '\x00'\n"))),
    Case("a sparse program of 8 GB", _at("src/x.py", lambda path: _sparse(path, 8 * 1024**3))),
    Case("what may not be read", _at("src", _unreadable)),
    Case(f"{MANY_FILES:,} files", _at("src", _many_files), heavy=True),
    Case("--set with 100,000 brackets", lambda folder: (*CHECK, "--set", f"name={'[' * 100_000}")),
    Case("--diff with a pipe", _at("r.json", os.mkfifo, DIFF)),
    Case("--diff with 40,000 brackets", _at("r.json", _holds(lambda: b"[" * 40_000), DIFF)),
    Case("a log that is a pipe", _at("x.log", os.mkfifo, ("diagnose", "--log", "."))),
    Case(
        "a log of one line of 50 MB", _at("x.log", _holds(lambda: b"step=1 loss 0.5 " * 3_200_000), DIAGNOSE)
    ),
    Case("a log of random bytes", _at("x.log", _holds(lambda: os.urandom(2_000_000)), DIAGNOSE)),
)


def _sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def cases(*, heavy: bool) -> Iterator[Case]:
    """The cases, without those that are heavy where they are not wanted."""
    return (case for case in CASES if heavy or not case.heavy)

"""An environment over a Python with what a job requires: made once on a machine, by whoever comes first.

A program, for runs outside of SageMaker: `python -m slipway.environment ORDER` makes what the file ORDER asks
for (`EnvironmentOrder`), run by the Python below, on the machine that the environment is to lie on. Beside
ORDER lie this package as an archive, and the files to install in a folder. It prints lines of JSON with a
`state`: `progress`, and at last `made` or why it was not.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

COMPLETE = "complete"
"""The file in an environment that says that nothing is missing in it."""

ARCHIVE, SOURCE = "slipway.pyz", "source"
"""What lies beside an order, and then in the environment: this package, and the files to install."""

_NOT_FOR_PIP = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SLIPWAY_LOG")
_LEFT_BEHIND_SECONDS = 86_400.0
"""For so long nobody's installation takes: what is older was left by one that was cut off."""

# The copy of the source is the working directory, whose modules would come before Python's own.
_INSTALL = """\
import sys
sys.path[:] = [place for place in sys.path if place]
from slipway.requirements import main
sys.exit(main())
"""

# A first line that names the Python may be too long for the system, or hold spaces: so a shell calls it.
_COMMAND = """\
#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys
from {module} import {first}
sys.exit({function}())
"""


class EnvironmentOrder(NamedTuple):
    """What is to be made.

    `python` is the Python below, `packages` the folders of its packages, `commands` what these install to be
    called, each with `module:function`; `has_pip` says whether pip is among them. The environment is made in
    `folder`, under the lock of the file `lock`; `log` keeps what pip says. `requirements` is the file that is
    installed, `step` says in words that it is. pip gets `settings`, and no variable that is `withheld`. Where
    `passing` is true, the order's own folder goes at the end.
    """

    python: str
    folder: str
    lock: str
    log: str
    requirements: str
    step: str
    packages: Sequence[str]
    commands: Mapping[str, str]
    has_pip: bool
    settings: Mapping[str, str]
    withheld: Sequence[str]
    passing: bool = False


class _Unmade(Exception):
    """It was not made: the `state` that tells why, and what was said last."""

    def __init__(self, state: str, said: str) -> None:
        super().__init__(said)
        self.state = state


def main() -> int:
    """Make what the order named by the only argument asks for; 1 where that cannot be done.

    The descriptor in SLIPWAY_LIFELINE is at its end when whoever asked is gone: nothing goes on then.
    """
    # Who starts this may ignore it, and nothing below would have an exit status.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    file = Path(sys.argv[1])
    order = EnvironmentOrder(**json.loads(file.read_text(encoding="utf-8")))
    # Not as the input of what is started here.
    lifeline = os.dup(int(os.environ["SLIPWAY_LIFELINE"]))
    state, said = "made", ""
    try:
        Path(order.folder).parent.mkdir(parents=True, exist_ok=True)
        with _locked(Path(order.lock)) as lock:
            if _is_gone(lifeline):
                raise _Unmade("given-up", "who asked for it is gone")
            if not Path(order.folder, COMPLETE).is_file():
                _tell("progress", order.step)
                _make(order, file.parent, lifeline, lock)
            os.utime(order.folder)  # When it was used last.
    except _Unmade as problem:
        state, said = problem.state, str(problem)
    except OSError as error:
        state, said = "no-room", error.strerror or str(error)
    if order.passing:
        _remove_passing(file.parent)
    _tell(state, said)
    return 0 if state == "made" else 1


def _make(order: EnvironmentOrder, beside: Path, lifeline: int, lock: IO[str]) -> None:
    folder = Path(order.folder)
    shutil.rmtree(folder, ignore_errors=True)
    _make_empty(order, folder)
    shutil.copytree(beside / SOURCE, folder / SOURCE, symlinks=True)
    shutil.copyfile(beside / ARCHIVE, folder / ARCHIVE)
    _install(order, folder, lifeline, lock)
    _add_commands(order, folder)
    (folder / COMPLETE).touch()


def _make_empty(order: EnvironmentOrder, folder: Path) -> None:
    """A virtual environment behind whose packages come those of the Python that it is made of.

    Not by --system-site-packages: of a Python that is in a virtual environment itself, that would show the
    packages of the one below.
    """
    # -I: no module of the working directory, such as a types.py beside a job file, is imported.
    words = [order.python, "-I", "-m", "venv", *(["--without-pip"] if order.has_pip else []), str(folder)]
    run = subprocess.run(
        words,
        env=_for_pip(order),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    packages = next((folder / "lib").glob("python*/site-packages"), None)
    if run.returncode != 0 or packages is None:
        raise _Unmade("no-environment", (run.stderr or run.stdout).strip().rpartition("\n")[2][:300])
    # Not the paths alone: files of this kind in these folders, as of editable installations, count as well.
    lines = (f"import site; site.addsitedir({path!r})\n" for path in order.packages)
    (packages / "slipway.pth").write_text("".join(lines), encoding="utf-8")


def _install(order: EnvironmentOrder, folder: Path, lifeline: int, lock: IO[str]) -> None:
    """Run pip in the environment as the boot runs it in a container, on the copy of the files."""
    with Path(order.log).open("w", encoding="utf-8") as output:
        ended = subprocess.run(
            [str(folder / "bin" / "python"), "-c", _INSTALL, order.requirements],
            cwd=str(folder / SOURCE),
            env={
                **_for_pip(order),
                "PYTHONPATH": str(folder / ARCHIVE),
                "SLIPWAY_LIFELINE": str(lifeline),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # It stops when who asked is gone, and until it has stopped nobody makes the folder anew.
            pass_fds=(lifeline, lock.fileno()),
            check=False,
        )
    if ended.returncode != 0:
        said = Path(order.log).read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise _Unmade("not-installed", said)


def _add_commands(order: EnvironmentOrder, folder: Path) -> None:
    """The commands of the Python below, such as torchrun, as commands of this environment's Python.

    Those that lie beside that Python would start it, without what is installed here.
    """
    for name, value in order.commands.items():
        module, _, rest = value.partition(":")
        function = rest.partition("[")[0].strip()
        target = folder / "bin" / name
        words = [*module.strip().split("."), *function.split(".")]
        if target.exists() or Path(name).name != name or not all(map(str.isidentifier, words)):
            continue
        content = _COMMAND.format(
            python=folder / "bin" / "python",
            module=module.strip(),
            first=function.partition(".")[0],
            function=function,
        )
        target.write_text(content, encoding="utf-8")
        target.chmod(0o755)


def _for_pip(order: EnvironmentOrder) -> dict[str, str]:
    """pip installs as the user's pip does, with proxies and indexes: it is no part of the job."""
    left_out = {*_NOT_FOR_PIP, *order.withheld, "SLIPWAY_LIFELINE"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, **order.settings}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    """Keep others away from an environment; however this process ends, the lock ends with it."""
    while True:
        with path.open("a", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _tell("progress", "waiting for another launcher that installs the same packages")
                fcntl.flock(lock, fcntl.LOCK_EX)
            # One that was deleted meanwhile, with its environment, keeps nobody away.
            if os.fstat(lock.fileno()).st_nlink:
                yield lock
                return


def _is_gone(lifeline: int) -> bool:
    """Whether who asked has gone: nothing is ever sent, so that only the end is something to read."""
    return bool(select.select([lifeline], [], [], 0)[0])


def _remove_passing(folder: Path) -> None:
    """Remove the order's folder, and those like it that others left who were cut off before they began."""
    shutil.rmtree(folder, ignore_errors=True)
    kind = folder.name.partition("-")[0]
    for other in folder.parent.glob(f"{kind}-*"):
        with contextlib.suppress(OSError):
            if time.time() - other.stat().st_mtime > _LEFT_BEHIND_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


def _tell(state: str, text: str) -> None:
    # Who asked may be gone.
    with contextlib.suppress(OSError):
        print(json.dumps({"slipway": 1, "state": state, "text": text}), flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""The folder of the runs on the shared folder: seen by this machine as by the nodes, or behind a login node.

Behind one, this machine has a mirror of it, in the user's cache: what is small or only grows (records, logs,
how hosts ended) is brought before a run is looked at. Checkpoints, data and results stay where they are.
Which launcher has a run is decided there, by who makes its folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from launcher.backends.interface import BackendError
from launcher.backends.local.files import STOP_FILE
from launcher.backends.local.records import REQUEST_FILE, STATUS_FILE
from launcher.backends.slurm.login_node import LoginNode
from launcher.backends.slurm.records import CLAIM_NAME, EVENTS_NAME, SlurmRuns
from launcher.failure_modes.model import Refusal
from launcher.text.regular_files import cache_folder

if TYPE_CHECKING:
    from launcher.planning.training_plan import TrainingPlan


class SharedFolder:
    """The folder of the runs, which this machine sees under the same path as the nodes: `place`.

    `runs` reads what this machine sees of it.
    """

    def __init__(self, place: Path, runs: SlurmRuns | None = None) -> None:
        self.place = place
        self.runs = runs or SlurmRuns(place)

    @property
    def is_seen(self) -> bool:
        """Whether the shared folder itself is there and can be written to."""
        return os.access(self.place.parent, os.W_OK | os.X_OK)

    def look(self, name: str) -> None:
        """Bring what there is of a run here, for `runs` to read."""

    def look_at_all(self) -> None:
        """Bring here which runs there are, and how they are."""

    def claim(self, name: str) -> bool:
        """Make the folder of a run, which one launcher alone can; False where it is there already.

        Raises BackendError where it cannot be made.
        """
        from launcher.backends.local.start import no_room

        try:
            self.place.mkdir(parents=True, exist_ok=True)
            (self.place / name).mkdir(mode=0o700)
        except FileExistsError:
            return False
        except OSError as error:
            raise no_room(self.place / name, error) from error
        return True

    def put_aside(self, name: str) -> None:
        """Remove a folder that was claimed, such that another one can be claimed at once."""
        aside = self.place / _aside(name)
        with contextlib.suppress(FileNotFoundError):
            (self.place / name).rename(aside)
            shutil.rmtree(aside, ignore_errors=True)

    @contextlib.contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """A folder to prepare a run in that was claimed; at the end all of it is in the run's own.

        Nothing is left of either where that fails.
        """
        # What starts a run needs plans, what looks at one does not: so is it below.
        from launcher.backends.local.start import no_room

        try:
            yield self.place / name
        except BaseException as error:
            self.discard(name)
            if isinstance(error, OSError):
                raise no_room(self.place / name, error) from error
            raise

    def discard(self, name: str) -> None:
        """Remove a run's folder; nothing is raised where that cannot be done."""
        shutil.rmtree(self.place / name, ignore_errors=True)

    def send(self, name: str, file: str) -> None:
        """Bring a file of a run from here to where the nodes and other machines see it."""

    def bring(self, name: str, file: str) -> None:
        """Bring a file of a run here, such as its code."""

    def address(self, name: str, entry: str) -> str:
        """Where something of a run lies, for people."""
        return str(self.place / name / entry)

    def has_checkpoint(self, name: str) -> bool:
        """Whether there is a file in the run's folder of checkpoints."""
        return any(each.is_file() for each in (self.place / name / "checkpoints").rglob("*"))

    def checkpoints_to_resume(self, plan: TrainingPlan) -> Path | None:
        """As the function of that name: the checkpoints from which a plan's run goes on."""
        from launcher.backends.local.start import checkpoints_to_resume

        return checkpoints_to_resume(plan, self.runs)

    def copy_checkpoints(self, earlier: Path, name: str) -> None:
        """Copy them into the folder of a run."""
        from launcher.backends.local.start import copy_checkpoints

        copy_checkpoints(earlier, self.place / name / "checkpoints")


class MirroredFolder(SharedFolder):
    """The folder of the runs behind a login node. All methods raise LoginSilent where that is not reached."""

    def __init__(self, place: Path, login: LoginNode) -> None:
        super().__init__(place, SlurmRuns(_mirror_of(place, login.host), f"{login.host}:{place}"))
        self._login = login

    @property
    def is_seen(self) -> bool:
        """As of any other."""
        what = f"look at {self.place.parent}"
        return self._login.run(["test", "-w", str(self.place.parent)], what).returncode == 0

    def look(self, name: str) -> None:
        """As of any other; of a run that has ended nothing is brought twice."""
        whole = self.runs.folder(name) / _WHOLE
        if whole.exists():
            return
        small = [f"/{name}/", *(f"/{name}/{file}" for file in _SMALL_FILES), f"/{name}/hosts/"]
        host = f"/{name}/hosts/*/"
        small += [host, f"{host}node", f"{host}end", f"{host}ml/", f"{host}ml/output/"]
        logs = [f"/{name}/", f"/{name}/slurm/", f"/{name}/slurm/log", f"/{name}/hosts/", host, f"{host}log*"]
        # The state first: what was printed before it became final is then brought after.
        self._pull([*small, f"{host}ml/output/failure"])
        self._pull(logs, grows=True)
        if self.runs.holds(name) and self.runs.record(name).state.is_final:
            whole.touch()

    def look_at_all(self) -> None:
        """As of any other; what is not there any more goes from here."""
        each = "/[A-Za-z0-9]*/"
        self._pull([each, f"{each}{STATUS_FILE}"])
        for folder in self.runs.home.iterdir():
            if not folder.name.startswith(".") and not self.runs.holds(folder.name):
                shutil.rmtree(folder, ignore_errors=True)

    def claim(self, name: str) -> bool:
        """As of any other: the login node's mkdir decides."""
        what = f"make {self.place / name}"
        # Not with the folders above: where the shared folder is not mounted, nothing is made in its place.
        self._login.run(["mkdir", str(self.place)], what)
        made = self._login.run(["mkdir", "-m", "700", str(self.place / name)], what)
        if made.returncode == 0:
            # Of an earlier run of that name.
            shutil.rmtree(self.runs.folder(name), ignore_errors=True)
        elif "File exists" in made.stderr:
            return False
        else:
            self._fail(what, made.stderr)
        return True

    def put_aside(self, name: str) -> None:
        """As of any other."""
        aside = str(self.place / _aside(name))
        moved = self._login.run(["mv", "-T", str(self.place / name), aside], f"put {name} aside")
        if moved.returncode == 0:
            self._login.run(["rm", "-rf", aside], f"remove {aside}")
        shutil.rmtree(self.runs.folder(name), ignore_errors=True)

    @contextlib.contextmanager
    def draft(self, name: str) -> Iterator[Path]:
        """As of any other: prepared here, then sent at once."""
        from launcher.backends.local.start import no_room
        from launcher.source.packaging import scratch_folder

        try:
            with scratch_folder("slurm-") as scratch:
                draft = scratch / name
                draft.mkdir(mode=0o700)
                yield draft
                self._login.push(draft, self.place / name)
        except BaseException as error:
            self.discard(name)
            if isinstance(error, OSError):
                raise no_room(self.runs.home, error) from error
            raise

    def discard(self, name: str) -> None:
        """As of any other; what stays without a connection, the next launch of that name finds unfinished."""
        with contextlib.suppress(Refusal):
            self._login.run(["rm", "-rf", str(self.place / name)], f"remove {self.place / name}")
        shutil.rmtree(self.runs.folder(name), ignore_errors=True)

    def send(self, name: str, file: str) -> None:
        """As of any other."""
        self._login.push(self.runs.folder(name) / file, self.place / name / file)

    def bring(self, name: str, file: str) -> None:
        """As of any other."""
        above = PurePosixPath(file).parents
        self._pull([f"/{name}/", *(f"/{name}/{each}/" for each in list(above)[-2::-1]), f"/{name}/{file}"])

    def address(self, name: str, entry: str) -> str:
        """As of any other: by the login node, as programs for files take it."""
        return f"sftp://{self._login.host}{self.place / name / entry}"

    def has_checkpoint(self, name: str) -> bool:
        """As of any other."""
        return any(kind == "f" for kind, _, _ in self._entries(self.place / name / "checkpoints"))

    def checkpoints_to_resume(self, plan: TrainingPlan) -> Path | None:
        """As of any other."""
        from launcher.backends.local.start import name_to_resume

        name = name_to_resume(plan)
        if name is None:
            return None
        folder = self.place / self.runs.folder(name).name / "checkpoints"
        entries = self._entries(folder)
        if not any(kind == "f" for kind, _, _ in entries):
            raise BackendError(
                f"there is no checkpoint in {folder} on {self._login.host} to resume from.",
                "Correct `checkpoint.resume_from`, or leave it out to start from the beginning; "
                "`launch list --slurm` has the runs.",
            )
        strange = [path for kind, _, path in entries if kind not in "fdl"]
        if not strange:
            within = self._real([str(folder)])[0]
            links = [path for kind, _, path in entries if kind == "l"]
            real = self._real([str(folder / path) for path in links])
            strange = [path for path, end in zip(links, real, strict=True) if not end.is_relative_to(within)]
        if strange:
            raise BackendError(
                f"{folder / strange[0]} on {self._login.host} is no file, or a link that leads out of the "
                "folder, so that the checkpoints cannot be copied for the run that goes on.",
                "Delete it, or put a file in its place; then resume again.",
            )
        return folder

    def copy_checkpoints(self, earlier: Path, name: str) -> None:
        """As of any other: copied there, by the login node."""
        copy, what = self.place / name / "checkpoints", f"copy {earlier}"
        copied = self._login.run(["cp", "-a", str(earlier), str(copy)], what, bound=None)
        if copied.returncode != 0:
            self._fail(what, copied.stderr)
        # Such as the folder by its place in the earlier run's host, written out.
        moved = [path for kind, target, path in self._entries(earlier) if kind == "l" and target[0] == "/"]
        real = self._real([str(earlier), *(str(earlier / path) for path in moved)])
        for path, end in zip(moved, real[1:], strict=True):
            target = os.path.relpath(end, real[0] / PurePosixPath(path).parent)
            linked = self._login.run(["ln", "-sfn", target, str(copy / path)], what)
            if linked.returncode != 0:
                self._fail(what, linked.stderr)

    def _pull(self, patterns: list[str], *, grows: bool = False) -> None:
        # Where it is not there nobody has launched to it yet.
        self._login.pull(self.place, self.runs.home, patterns, grows=grows)

    def _entries(self, folder: Path) -> list[tuple[str, str, str]]:
        """All below a folder there: the letter of its kind (find(1)), a link's target, its path below."""
        form = "%y\\0%l\\0%P\\0"
        found = self._login.run(["find", str(folder), "-mindepth", "1", "-printf", form], f"look at {folder}")
        fields = found.stdout.split("\0")
        return list(zip(fields[0::3], fields[1::3], fields[2::3], strict=False))

    def _real(self, paths: list[str]) -> list[Path]:
        """Where paths there lead when all links are followed."""
        if not paths:
            return []
        found = self._login.run(["realpath", "-mz", "--", *paths], "follow links")
        return [Path(each) for each in found.stdout.split("\0")[:-1]]

    def _fail(self, what: str, said: str) -> None:
        lines = said.strip().splitlines() or ["nothing"]
        raise BackendError(
            f"could not {what}: {self._login.host} says: {lines[-1]}.",
            "Give as `slurm.shared` a folder of your own on a file system that it and all nodes mount.",
        )


_WHOLE = ".whole"
"""In the mirror of a run: nothing more comes of it."""

_SMALL_FILES = (STATUS_FILE, REQUEST_FILE, EVENTS_NAME, CLAIM_NAME, STOP_FILE)


def mirrored_runs() -> list[SlurmRuns]:
    """The mirrors of this user on this machine: the runs of each folder behind a login node, as last seen."""
    try:
        mirrors = cache_folder() / _MIRRORS
    except OSError:
        return []  # Without a home nothing was mirrored.
    # By host, then by folder; what somebody has put in their place is left alone.
    folders = [each for host in _folders_in(mirrors) for each in _folders_in(host)]
    return [SlurmRuns(folder) for folder in folders]


_MIRRORS = Path("slurm", "mirrors")


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(each.path) for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _mirror_of(place: Path, host: str) -> Path:
    """The folder of this user's cache for the runs of a folder there; no two of them lie in one another."""
    # A host's path has no % itself.
    folder = os.path.normpath(place).strip("/").replace("/", "%")
    try:
        return cache_folder() / _MIRRORS / host / folder
    except OSError as error:
        raise BackendError(
            f"what {host} has of a run cannot be kept on this machine: {error.strerror}.",
            f"Set HOME or XDG_CACHE_HOME to a folder of yours, or launch on {host} itself.",
        ) from error


def _aside(name: str) -> str:
    return f".broken-{name}-{time.time_ns()}"

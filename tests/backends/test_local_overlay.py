"""What a local job requires: installed beside the user's Python, never into it, and only where it lacks."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from launcher.backends.interface import BackendError, JobState, Progress
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.layout import boot_command
from launcher.backends.local.overlay import python_with_requirements
from launcher.backends.local.python import InstalledPackages, missing, this_machine
from launcher.backends.local.records import read_record
from launcher.planning.request_view import RequestView
from launcher.source.packaging import BOOT_NAME, build_source
from launcher.source.requirements_file import RequirementsFile
from launcher.source.tree import SourceTree, read_source
from tests.backends.workplace import SHORT, Workplace, eventually, finish, texts
from tests.wheels import make_python, make_wheel, only_from, packages_of, run, unpack_wheel

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


class Shop:
    """A source with requirements, wheels to install, a Python of a user's, and a place for environments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = make_python(folder / "python")
        self.environments = folder / "environments"
        self.steps: list[str] = []

    def source(self, text: str) -> SourceTree:
        folder = self.folder / "src"
        folder.mkdir(exist_ok=True)
        (folder / "train.py").touch()
        (folder / "requirements.txt").write_text(text)
        return read_source(folder, "train.py", requirements="requirements.txt")

    def equip(self, text: str) -> Path:
        return python_with_requirements(
            self.python, self.source(text), self.environments, {}, lambda progress: self.told(progress)
        )

    def told(self, progress: Progress) -> None:
        self.steps.append(progress.step)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    make_wheel(tmp_path / "wheels", "tinyone", "1.2", requires=["tinytwo"])
    make_wheel(tmp_path / "wheels", "tinytwo", "2.0")
    for name, value in only_from(tmp_path / "wheels").items():
        monkeypatch.setenv(name, value)
    yield Shop(tmp_path)


def test_what_is_lacking_is_installed_beside_the_python_and_not_into_it(shop: Shop) -> None:
    unpack_wheel(make_wheel(shop.folder, "mine", "1.0"), shop.python.parents[1])
    equipped = shop.equip("tinyone\nmine\n")
    assert equipped.is_relative_to(shop.environments)
    seen = run(equipped, "-c", "import tinyone, tinytwo, mine; print(tinyone.__file__)")
    assert seen.stdout.startswith(str(shop.environments)), seen.stderr
    assert run(shop.python, "-c", "import tinyone").returncode == 1
    assert shop.steps == ["installing 1 package of requirements.txt"]


def test_modules_of_the_working_directory_are_not_imported(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    names = ["types.py", "venv.py", "logging.py", "json.py"]
    for name in names:
        (project / name).write_text(f"open({str(project / 'ran')!r}, 'w')\nraise SystemExit('not yours')\n")
    monkeypatch.chdir(project)
    this_machine(str(shop.python), {})
    shop.equip("tinyone")
    # Where all of the source lies beside pip, as for a package in it.
    shop.source("")
    for name in names:
        shutil.copy(project / name, shop.folder / "src")
    shutil.copy(shop.folder / "wheels" / "tinytwo-2.0-py3-none-any.whl", shop.folder / "src")
    shop.equip("./tinytwo-2.0-py3-none-any.whl")
    assert not (project / "ran").exists()


def test_the_same_requirements_are_installed_once(shop: Shop) -> None:
    first = shop.equip("tinyone\n")
    shop.steps.clear()
    os.utime(first.parents[1], (0, 0))
    assert shop.equip("tinyone\n") == first
    assert shop.steps == []
    assert first.parents[1].stat().st_mtime > 0, "cleaning goes by when it was used"
    assert shop.equip("tinyone==1.2\n") != first


def test_where_everything_is_there_the_python_is_used_as_it_is(shop: Shop) -> None:
    assert shop.equip("pip>=1\nnot-here; python_version < '3'\n") == shop.python
    assert not shop.environments.exists()


def test_what_cannot_be_installed_is_named_before_anything_starts(shop: Shop) -> None:
    with pytest.raises(BackendError) as refused:
        shop.equip("tinyone\nnosuchthing\n")
    assert str(refused.value).startswith("requirements.txt cannot be installed: nosuchthing: ")
    log = next(shop.environments.glob("*.log"))
    assert str(log) in refused.value.remedy
    assert "No matching distribution found for nosuchthing" in log.read_text()
    assert not list(shop.environments.glob("*/complete"))


def test_an_environment_is_not_taken_for_made_where_its_status_cannot_be_had(shop: Shop) -> None:
    failing = "import sys\nif 'venv' in sys.orig_argv:\n    raise SystemExit('there is no venv here')\n"
    (packages_of(shop.python.parents[1]) / "sitecustomize.py").write_text(failing)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(BackendError, match=r"cannot make a virtual environment.*there is no venv here"):
            shop.equip("tinyone\n")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert not list(shop.environments.glob("*/complete"))


def test_torch_stays_the_users(shop: Shop) -> None:
    make_wheel(shop.folder / "wheels", "torch", "1.13")
    unpack_wheel(make_wheel(shop.folder, "torch", "2.8.0+cpu"), shop.python.parents[1])
    with pytest.raises(BackendError, match=r"torch 2.8.0\+cpu stays as it is") as refused:
        shop.equip("torch==1.13\n")
    # The two ways past it.
    assert "--python PATH; `--set code.requirements=none`" in refused.value.remedy


def test_a_build_does_not_see_the_jobs_secrets(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "planted-token")
    package = shop.folder / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "builder"\nbackend-path = ["."]\n'
    )
    asking = "import os\nraise SystemExit('built with ' + str(os.environ.get('HF_TOKEN')))\n"
    (package / "builder.py").write_text(asking)
    source = shop.source("./pkg\n")
    with pytest.raises(BackendError, match="cannot be built"):
        python_with_requirements(shop.python, source, shop.environments, {}, withheld=["HF_TOKEN"])
    (log,) = shop.environments.glob("*.log")
    assert "built with None" in log.read_text()


def test_an_environment_that_is_half_made_is_made_anew(shop: Shop) -> None:
    equipped = shop.equip("tinyone\n")
    folder = equipped.parent.parent
    (folder / "complete").unlink()
    next(folder.rglob("tinyone.py")).write_text("half")
    assert shop.equip("tinyone\n") == equipped
    assert run(equipped, "-c", "import tinyone; print(tinyone.version)").stdout == "1.2\n"


def test_a_launcher_waits_for_another_one_that_makes_the_same(shop: Shop) -> None:
    folder = shop.equip("tinyone\n").parent.parent
    (folder / "complete").unlink()
    lock = folder.with_suffix(".lock").open("a")
    fcntl.flock(lock, fcntl.LOCK_EX)
    shop.steps.clear()
    source = shop.source("tinyone\n")

    def other_ends(progress: Progress) -> None:
        shop.told(progress)
        lock.close()

    python_with_requirements(shop.python, source, shop.environments, {}, other_ends)
    assert shop.steps == [
        "waiting for another launcher that installs the same packages",
        "installing 1 package of requirements.txt",
    ]


def test_commands_of_the_python_below_find_what_is_installed_above(shop: Shop) -> None:
    asking = "def main():\n    import tinyone, sys\n    print('found', tinyone.version, sys.argv[1:])\n"
    wheel = make_wheel(
        shop.folder, "asker", "1.0", modules={"asker.py": asking}, commands={"ask-it": "asker:main"}
    )
    assert run(shop.python, "-m", "pip", "install", "-q", str(wheel)).returncode == 0
    equipped = shop.equip("tinyone\n")
    asked = subprocess.run([equipped.parent / "ask-it", "a b"], capture_output=True, text=True, check=False)
    assert asked.stdout == "found 1.2 ['a b']\n", asked.stderr


def test_what_lies_in_the_source_is_installed_from_a_copy(shop: Shop) -> None:
    shop.source("")
    make_wheel(shop.folder / "src" / "libs", "own", "1.0")
    before = sorted((shop.folder / "src").rglob("*"))
    equipped = shop.equip("./libs/own-1.0-py3-none-any.whl\n")
    assert run(equipped, "-c", "import own; print(own.version)").stdout == "1.0\n"
    assert sorted((shop.folder / "src").rglob("*")) == before


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("text", ["tinyone\n", "./libs/own-1.0-py3-none-any.whl\n"])
def test_a_source_that_is_packed_already_is_as_good(shop: Shop, text: str) -> None:
    make_wheel(shop.folder / "src" / "libs", "own", "1.0")
    packed = shop.folder / "source.tar.gz"
    build_source(shop.source(text), packed)
    source = read_source(packed, "train.py", requirements="requirements.txt")
    equipped = python_with_requirements(shop.python, source, shop.environments, {})
    module = "own" if "own" in text else "tinyone"
    assert run(equipped, "-c", f"import {module}").returncode == 0


def test_what_a_killed_launcher_was_installing_ends_and_does_not_count(shop: Shop) -> None:
    pip = packages_of(shop.folder / "python") / "pip"
    pip.unlink()
    pip.mkdir()
    (pip / "__init__.py").touch()
    started = shop.folder / "started"
    (pip / "__main__.py").write_text(
        f"import os, signal\nopen({str(started)!r}, 'w').write(str(os.getpid()))\nsignal.pause()\n"
    )
    shop.source("tinyone\n")
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from launcher.backends.local.overlay import python_with_requirements\n"
        "from launcher.source.tree import read_source\n"
        "folder = Path(sys.argv[1])\n"
        "source = read_source(folder / 'src', 'train.py', requirements='requirements.txt')\n"
        "python_with_requirements(Path(sys.argv[2]), source, folder / 'environments', {})\n"
    )
    words = [sys.executable, "-c", program, str(shop.folder), str(shop.python)]
    launcher = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    installing = psutil.Process(int(eventually(lambda: started.exists() and started.read_text())))
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    eventually(lambda: not installing.is_running())
    assert not list(shop.environments.glob("*/complete"))


def test_a_local_job_runs_with_what_it_requires_and_so_does_its_resumption(
    shop: Shop, workplace: Workplace
) -> None:
    plan = workplace.plan("import tinyone; print(tinyone.version)", arguments=("x",))
    source = workplace.folder / "src"
    (source / "requirements.txt").write_text("tinyone\n")
    assert plan.request is not None and plan.package is not None
    words = plan.request["AlgorithmSpecification"]["ContainerArguments"]
    words[words.index("--") : words.index("--")] = ["--requirements", "requirements.txt"]
    object.__setattr__(
        plan.package, "source", read_source(source, "train.py", requirements="requirements.txt")
    )
    with LocalBackend(workplace.home, grace=SHORT, python=shop.python) as local:
        local.submit(plan)
        assert finish(local).state is JobState.COMPLETED
        assert texts(local, "algo-1")[-1] == "1.2"
        assert not [line for line in texts(local, "algo-1") if "installing" in line]
        again = {**plan.request, "TrainingJobName": "job-2"}
        workplace.shared("step-1").touch()
        local.resume("job-1", again)
        assert finish(local, "job-2").state is JobState.COMPLETED
    request = json.loads((workplace.home / "job-1" / "request.json").read_text())["request"]
    assert request["AlgorithmSpecification"]["ContainerArguments"] == words
    # By which `launch clean` knows that it is needed for a resumption.
    record = read_record(workplace.home / "job-1")
    assert record.python == shop.python
    assert record.environment is not None
    assert (record.environment / "complete").is_file()


def test_the_boot_is_not_asked_to_install_what_is_installed() -> None:
    request = RequestView(
        {
            "AlgorithmSpecification": {
                "ContainerEntrypoint": ["python3", f"/opt/ml/input/data/code/{BOOT_NAME}"],
                "ContainerArguments": [
                    "--entry-point", "train.py", "--requirements", "r.txt", "--", "--requirements", "mine",
                ],
            }
        }
    )  # fmt: skip
    words = boot_command(request, Path("/jobs/one/hosts/algo-1/ml"), "/python")
    assert words[2:] == ["--entry-point", "train.py", "--", "--requirements", "mine"]


MARKERS = {"python_version": "3.12", "python_full_version": "3.12.1", "sys_platform": "linux"}


@pytest.mark.parametrize(("lines", "lacking"), CASES["lacking"])
def test_what_is_there_in_a_version_that_fits_is_not_lacking(
    tmp_path: Path, lines: str, lacking: list[str]
) -> None:
    (tmp_path / "limits.txt").write_text("einops<0.5\n")
    (tmp_path / "requirements.txt").write_text(lines)
    wanted = read_source(tmp_path, "train.py", requirements="requirements.txt").requirements
    assert isinstance(wanted, RequirementsFile)
    requires = (
        "einops; extra == 'fast'", "absent; extra == 'slow'", "big[round]; extra == 'round'", "absent<1"
    )  # fmt: skip
    installed = InstalledPackages({"einops": ("0.8.0", ()), "big": ("1.0", requires)}, {}, (), True, MARKERS)
    assert [each.text for each in missing(wanted, installed)] == lacking

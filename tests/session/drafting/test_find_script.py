"""Which script of a folder trains, and which folder is its code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.failure_modes.model import Refusal
from launcher.program.program import FileCache
from launcher.session.drafting.find_script import ScriptPlace, find_script

Write = Callable[..., Path]

GUARDED = "def main():\n    optimizer.step()\nif __name__ == '__main__':\n    main()\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files with their texts below a project's folder, and return that."""

    def make(texts: dict[str, str]) -> Path:
        for name, text in {"pyproject.toml": "", **texts}.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return make


def find(path: Path) -> ScriptPlace:
    return find_script(path, FileCache())


def test_a_script_in_its_own_folder_is_started_there(write: Write) -> None:
    folder = write({"src/train.py": f"import utils\n{GUARDED}", "src/utils.py": ""})
    assert find(folder / "src" / "train.py") == ScriptPlace(
        folder / "src" / "train.py", folder / "src", "train.py"
    )


def test_a_script_that_imports_from_a_folder_above_has_that_for_its_code(write: Write) -> None:
    folder = write({"tools/train.py": f"from models.net import Net\n{GUARDED}", "models/net.py": ""})
    place = find(folder / "tools" / "train.py")
    assert (place.folder, place.entry_point) == (folder, "tools/train.py")


def test_an_example_in_the_repository_of_a_compiled_library_imports_what_is_installed(write: Write) -> None:
    folder = write({"examples/train.py": f"import horovod.torch\n{GUARDED}", "horovod/__init__.py": ""})
    assert find(folder / "examples" / "train.py").folder == folder / "examples"


def test_a_package_ends_where_its_project_does(write: Write) -> None:
    folder = write(
        {
            "__init__.py": "",
            "net/__init__.py": "",
            "net/train.py": f"from . import x\n{GUARDED}",
            "net/x.py": "",
        }
    )
    place = find(folder / "net" / "train.py")
    assert (place.folder, place.module) == (folder, "net.train")


def test_a_file_beside_the_script_is_meant_before_the_package_of_its_name(write: Write) -> None:
    folder = write(
        {
            "net/__init__.py": "",
            "net/train.py": f"from net import Net\n{GUARDED}",
            "net/start.py": f"import net.layers\n{GUARDED}",
            "net/net.py": "class Net: ...",
            "net/layers.py": "",
        }
    )
    place = find(folder / "net" / "train.py")
    assert (place.folder, place.entry_point) == (folder / "net", "train.py")
    assert find(folder / "net" / "start.py").module == "net.start"


def test_a_script_that_imports_relatively_is_a_module_of_its_package(write: Write) -> None:
    folder = write(
        {
            "src/net/__init__.py": "",
            "src/net/train.py": f"from .data import x\n{GUARDED}",
            "src/net/data.py": "",
        }
    )
    place = find(folder / "src" / "net" / "train.py")
    assert (place.folder, place.module, place.entry_point) == (folder / "src", "net.train", "")


def test_the_script_that_nobody_imports_or_starts_is_the_one(write: Write) -> None:
    by_shell = write(
        {
            "src/run.sh": "python prepare.py\npython train.py\n",
            "src/train.py": GUARDED,
            "src/prepare.py": GUARDED,
        }
    )
    assert find(by_shell / "src").entry_point == "run.sh"


def test_of_several_the_one_that_is_called_train_is_taken(write: Write) -> None:
    folder = write({"train.py": GUARDED, "evaluate.py": GUARDED, "model.py": "class Net: pass\n"})
    assert find(folder).entry_point == "train.py"


def test_what_pip_and_pytest_start_trains_nothing(write: Write) -> None:
    folder = write({"setup.py": "setup()\n", "conftest.py": GUARDED, "src/train.py": GUARDED})
    assert find(folder) == ScriptPlace(folder / "src" / "train.py", folder / "src", "train.py")


def test_of_the_folders_of_code_the_one_that_has_a_script_of_python_is_taken(write: Write) -> None:
    folder = write(
        {
            "net/__init__.py": "",
            "net/train.py": GUARDED,
            "scripts/small.sh": "python -m net.train\n",
            "data/__init__.py": "",
        }
    )
    assert find(folder).path == folder / "net" / "train.py"
    write({"tools/__init__.py": "", "tools/first.py": GUARDED})
    with pytest.raises(Refusal) as refused:
        find(folder)
    assert f"such as launch init {folder / 'net' / 'train.py'}" in refused.value.remedy


def test_several_without_such_a_name_are_refused_with_their_names(write: Write) -> None:
    folder = write({"first.py": GUARDED, "second.py": GUARDED})
    with pytest.raises(Refusal, match=r"2 scripts that could be the job's: first\.py, second\.py"):
        find(folder)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("trian.py", "Did you mean .*train.py"),
        ("notes.txt", "neither a Python script"),
        ("empty", "no script"),
    ],
)
def test_what_is_no_script_is_refused(write: Write, path: str, said: str) -> None:
    folder = write({"train.py": GUARDED, "notes.txt": "", "empty/notes.txt": ""})
    with pytest.raises(Refusal) as refused:
        find(folder / path)
    assert re.search(said, str(refused.value))


def test_a_script_that_python_cannot_read_is_refused(write: Write) -> None:
    with pytest.raises(Refusal, match=r"broken\.py cannot be read"):
        find(write({"broken.py": "def :\n"}) / "broken.py")

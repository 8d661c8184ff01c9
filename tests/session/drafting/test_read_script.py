"""What is read for a draft, and the file that is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.drafts.script_draft import GivenByUser, draft_script
from launcher.failure_modes.model import Refusal
from launcher.program import program
from launcher.program.program import FileCache
from launcher.session.drafting.read_script import read_script
from launcher.session.drafting.write_job_file import write_job_file


def test_each_file_of_a_program_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = 300
    (tmp_path / "net").mkdir()
    for number in range(modules):
        (tmp_path / "net" / f"part{number}.py").write_text(f"value = {number}\n")
    imports = "\n".join(f"from net.part{number} import value" for number in range(modules))
    (tmp_path / "train.py").write_text(f"{imports}\nfor step in range(3):\n    print(step)\n")
    parsed: list[Path] = []
    read = program._read
    monkeypatch.setattr(program, "_read", lambda path: parsed.append(path) or read(path))
    found, _ = read_script(tmp_path, tmp_path / "job.yaml", FileCache())
    assert found.program is not None
    assert len(found.program.files) == modules + 1
    assert len(parsed) == modules + 1


def test_paths_are_relative_to_the_job_file_and_the_name_says_something(tmp_path: Path) -> None:
    script = tmp_path / "my_model" / "src" / "train.py"
    script.parent.mkdir(parents=True)
    script.write_text("print(1)\n")
    found, source = read_script(script, tmp_path / "jobs" / "job.yaml", FileCache())
    assert found.code == {"source_dir": "../my_model/src", "entry_point": "train.py"}
    assert found.name == "my-model"
    assert source.packs_entry_point


def test_the_configuration_of_hydra_is_read_from_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("epochs: 3\n")
    script = (
        "import hydra\n@hydra.main(config_path='conf', config_name='config')\ndef main(c): print(c)\nmain()\n"
    )
    (tmp_path / "train.py").write_text(script)
    config = read_script(tmp_path / "train.py", tmp_path / "job.yaml", FileCache())[0].config
    assert config is not None
    assert config.values == {"epochs": "3"}


def test_the_code_holds_what_hydra_reads(tmp_path: Path) -> None:
    for name in ("net", "conf"):
        (tmp_path / name).mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "conf" / "config.yaml").write_text("epochs: 3\n")
    script = (
        "import hydra\n@hydra.main(config_path='../conf', config_name='config')\ndef main(c): ...\nmain()\n"
    )
    (tmp_path / "net" / "fit.py").write_text(script)
    found, _ = read_script(tmp_path / "net" / "fit.py", tmp_path / "job.yaml", FileCache())
    assert found.code == {"source_dir": ".", "entry_point": "net/fit.py"}
    assert found.config is not None


def test_requirements_of_the_project_outside_of_the_code_are_seen(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    found, _ = read_script(tmp_path / "src" / "train.py", tmp_path / "jobs" / "job.yaml", FileCache())
    assert (found.requirements, found.packages_named_in) == (None, "../requirements.txt")


def test_requirements_that_are_left_out_are_told(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    (tmp_path / "train.py").write_text("print(1)\n")
    found, _ = read_script(tmp_path / "train.py", tmp_path / "job.yaml", FileCache())
    assert (found.requirements, found.leaves_requirements_out) == (None, True)


def test_no_file_is_written_over(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    write_job_file(file, "name: a\n")
    with pytest.raises(Refusal, match="is there already"):
        write_job_file(file, "name: b\n")
    assert file.read_text() == "name: a\n"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="No such file or directory"):
        write_job_file(tmp_path / "nowhere" / "job.yaml", "name: a\n")


@pytest.mark.parametrize(
    ("line", "framework"),
    [
        ("torch==2.8.0", {"name": "pytorch", "version": "2.8.0"}),
        ("torch==2.8.0+cu126", {"name": "pytorch", "version": "2.8.0"}),
        ("torch<2.6", {"name": "pytorch", "version": "2.5.1"}),
        ("torch>=2.0,<2.9", {"name": "pytorch", "version": "2.8.0"}),
        ("torch>=2.0", {"name": "pytorch"}),
        ("torch>99", {"name": "pytorch"}),
        ("torch==2.4.9", {"name": "pytorch"}),
        ("torch<2.6; python_version < '3.9'", {"name": "pytorch"}),
    ],
)
def test_the_image_is_the_newest_that_the_requirements_allow(
    tmp_path: Path, line: str, framework: dict[str, str]
) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint(torch)\n")
    (tmp_path / "requirements.txt").write_text(f"{line}\n")
    found, _ = read_script(tmp_path, tmp_path / "job.yaml", FileCache())
    assert draft_script(found, GivenByUser()).data()["framework"] == framework


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("requirements.txt", "einops\n", "../requirements.txt lies outside of `source_dir`"),
        (
            "src/setup.py",
            "setup(\n    install_requires=['einops'])\n",
            "`.` installs what ../src/setup.py names",
        ),
        ("src/pyproject.toml", "[project]\ndependencies = ['einops']\n", "what ../src/pyproject.toml names"),
        ("src/pyproject.toml", "[tool.ruff]\n", "there is no requirements.txt"),
    ],
)
def test_packages_that_are_named_elsewhere_are_told(tmp_path: Path, file: str, text: str, said: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "train.py").write_text("import torch\nprint(torch)\n")
    (tmp_path / file).write_text(text)
    found, _ = read_script(tmp_path / "src" / "train.py", tmp_path / "jobs" / "job.yaml", FileCache())
    draft = draft_script(found, GivenByUser())
    [comment] = [each.comment for each in draft.fields if each.path == ("code",)]
    assert comment.startswith("nothing is installed: ")
    assert said in comment

"""The source directory, the script in it, shell scripts, hyperparameters in the parser's style: CODE002."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launcher.rules.job import code_rules as source_rules

TRAIN = {"source_dir": "src", "entry_point": "train.py"}


@pytest.fixture
def src(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    return folder


def test_the_nearest_script_is_named(judge, src: Path) -> None:
    (finding,) = judge("CODE002", code_section={**TRAIN, "entry_point": "tran.py"})
    assert finding.path == ("code", "entry_point")
    assert "Did you mean train.py?" in finding.remedy


def test_a_folder_that_is_missing_is_said_once(judge) -> None:
    (finding,) = judge("CODE002", code_section={**TRAIN, "source_dir": "elsewhere"})
    assert (finding.path, finding.subject) == (("code", "source_dir"), "code.source_dir")


def test_all_that_is_in_the_way_of_packing_is_told(judge, src: Path) -> None:
    (src / "data").symlink_to("/data")
    os.mkfifo(src / "pipe")
    finding, other = judge("CODE002")
    assert (finding.severity, finding.subject) == ("error", "code.source_dir")
    assert "src/data is a symbolic link" in finding.message
    assert "src/pipe is neither" in other.message
    assert not finding.message.endswith(".")


def test_a_link_to_what_is_not_there_is_left_out_with_a_word(judge, src: Path) -> None:
    (src / "old").symlink_to("gone")
    (finding,) = judge("CODE002")
    assert (finding.severity, finding.subject) == ("warning", "code.source_dir")
    assert finding.message == f"{src / 'old'} is a symbolic link to what is not there, and is left out"


def test_an_entry_point_that_is_a_link_to_what_is_not_there_is_refused(judge, src: Path) -> None:
    (src / "main.py").symlink_to("gone.py")
    found = judge("CODE002", code_section={**TRAIN, "entry_point": "main.py"})
    assert ("error", "code.entry_point") in [(each.severity, each.subject) for each in found]


@pytest.mark.parametrize("entry_point", ["train.py", "lib/train.py"])
@pytest.mark.parametrize("hiding", ["slipway.py", "slipway/__init__.py"])
def test_a_module_that_would_hide_the_boot_is_refused(
    judge, src: Path, entry_point: str, hiding: str
) -> None:
    for name in (entry_point, str(Path(entry_point).parent / hiding)):
        (src / name).parent.mkdir(exist_ok=True)
        (src / name).touch()
    (finding,) = judge("CODE002", code_section={**TRAIN, "entry_point": entry_point})
    assert (finding.severity, finding.path) == ("error", ("code", "source_dir"))
    assert f"{hiding} in " in finding.message
    assert "hides the library slipway" in finding.message


@pytest.mark.parametrize(
    ("hiding", "script", "severity"),
    [
        ("types.py", "print()\n", "error"),
        ("enum/__init__.py", "print()\n", "error"),
        ("json.py", "import torch.nn as nn\n", "warning"),
        ("json.py", "print()\n", None),
        ("json/more.py", "import torch\n", None),
        ("mine/types.py", "import torch\n", None),
        ("test.py", "import torch\n", None),
    ],
)
def test_a_module_of_pythons_name_is_told_where_a_rank_loads_it(
    judge, src: Path, hiding: str, script: str, severity: str | None
) -> None:
    files = {f"src/{hiding}": "", "src/train.py": script}
    found = judge("CODE002", distribution={"strategy": "none"}, files=files)
    assert [each.severity for each in found] == ([severity] if severity else [])
    assert all(f"{hiding} in {src} hides Python's own module" in each.message for each in found)


@pytest.mark.parametrize("name", ["other/slipway.py", "slipway/notes.txt", "my_slipway.py"])
def test_what_only_resembles_our_package_hides_nothing(judge, src: Path, name: str) -> None:
    (src / name).parent.mkdir(exist_ok=True)
    (src / name).touch()
    assert not [each for each in judge("CODE002") if "hides the library" in each.message]


def test_of_an_archive_that_cannot_be_read_no_script_is_missed(judge, tmp_path: Path) -> None:
    (tmp_path / "source.tar.gz").write_text("no archive")
    (finding,) = judge("CODE002", code_section={**TRAIN, "source_dir": "source.tar.gz"})
    assert "cannot be read as tar.gz" in finding.message


def test_a_source_that_cannot_be_packed_may_lack_its_script_too(judge, src: Path) -> None:
    os.mkfifo(src / "pipe")
    found = judge("CODE002", code_section={**TRAIN, "entry_point": "missing.py"})
    assert [finding.subject for finding in found] == ["code.entry_point", "code.source_dir"]


@pytest.mark.parametrize(
    ("entry_point", "ignored", "says", "do"),
    [
        pytest.param("train.py", "*.py", "pattern *.py fits train.py", "add the line !train.py", id="file"),
        pytest.param("lib/a.py", "lib/", "pattern lib/ fits lib/", "add the line !lib/", id="folder"),
        pytest.param(".venv/a.py", "", ".venv/, which is never packed", "Move the script", id="never packed"),
        pytest.param("../a.py", "", "outside of", "without `..`", id="outside"),
    ],
)
def test_a_script_that_is_not_packed_is_missing_on_the_hosts(
    judge, src: Path, entry_point: str, ignored: str, says: str, do: str
) -> None:
    script = src / entry_point
    script.parent.mkdir(exist_ok=True)
    script.touch()
    (src / ".gitignore").write_text(ignored)
    (finding,) = judge("CODE002", code_section={**TRAIN, "entry_point": entry_point})
    assert (finding.severity, finding.path) == ("error", ("code", "entry_point"))
    assert says in finding.message
    assert do in finding.remedy


def test_the_line_that_is_proposed_brings_the_script_back(judge, src: Path) -> None:
    (src / "lib").mkdir()
    (src / "lib" / "a.py").touch()
    (src / ".gitignore").write_text("lib/")
    assert judge("CODE002", code_section={**TRAIN, "entry_point": "lib/a.py"})
    (src / ".slipwayignore").write_text("!lib/")
    assert judge("CODE002", code_section={**TRAIN, "entry_point": "lib/a.py"}) == []


@pytest.mark.parametrize(("megabytes", "found"), [(99, False), (101, True)])
def test_code_is_large_from_a_hundred_megabytes_on(judge, src: Path, megabytes: int, found: bool) -> None:
    with (src / "weights.bin").open("wb") as file:
        file.truncate(megabytes * 1_000_000)
    assert bool(judge("CODE002")) is found


def test_large_code_is_a_warning(judge, src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_rules, "LARGE_BYTES", 1_000_000)
    (src / "weights.bin").write_bytes(bytes(2_000_000))
    (finding,) = judge("CODE002")
    assert (finding.severity, finding.path) == ("warning", ("code", "source_dir"))
    assert "weights.bin (2 MB)" in finding.message


def modules(src: Path, *names: str) -> None:
    for name in names:
        file = src / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


@pytest.mark.parametrize("module", ["train", "pkg.train", "pkg.deep", "pkg.deep.run"])
def test_a_module_of_the_source_is_there(judge, src: Path, module: str) -> None:
    modules(src, "pkg/train.py", "pkg/deep/__main__.py", "pkg/deep/run.py")
    assert judge("CODE002", code_section={"source_dir": "src", "module": module}) == []


@pytest.mark.parametrize(
    ("module", "meant"),
    [("pkg.trian", "pkg.train?"), ("pkg.deep", "pkg.deep.run?"), ("pkg.zzz", "Python imports")],
)
def test_a_module_that_its_package_does_not_hold_is_an_error(
    judge, src: Path, module: str, meant: str
) -> None:
    modules(src, "pkg/__init__.py", "pkg/train.py", "pkg/deep/run.py")
    (finding,) = judge("CODE002", code_section={"source_dir": "src", "module": module})
    assert (finding.severity, finding.path) == ("error", ("code", "module"))
    assert meant in finding.remedy


def test_a_module_that_is_left_out_is_named_with_the_pattern(judge, src: Path) -> None:
    modules(src, "pkg/train.py")
    (src / ".gitignore").write_text("pkg/")
    (finding,) = judge("CODE002", code_section={"source_dir": "src", "module": "pkg.train"})
    assert (finding.severity, "the pattern pkg/ fits pkg/" in finding.message) == ("error", True)


@pytest.mark.parametrize(("module", "severity"), [("torchtitan.train", "info"), ("trian", "warning")])
def test_a_module_of_no_package_of_the_source_may_be_installed(
    judge, src: Path, module: str, severity: str
) -> None:
    modules(src, "torchtitan/notes.txt")
    (finding,) = judge("CODE002", code_section={"source_dir": "src", "module": module})
    assert finding.severity == severity
    assert ("Did you mean train?" in finding.remedy) == (severity == "warning")


@pytest.mark.parametrize("folder", ["${SM_SOURCE_DIR}/lib", "lib", "/opt/elsewhere"])
def test_a_module_in_a_folder_of_pythonpath_is_there(judge, src: Path, folder: str) -> None:
    modules(src, "lib/wave/__main__.py")
    code = {"source_dir": "src", "module": "wave"}
    assert judge("CODE002", code_section=code, environment={"PYTHONPATH": folder}) == []


def test_a_source_that_is_missing_is_said_of_a_module_too(judge) -> None:
    (finding,) = judge("CODE002", code_section={"source_dir": "elsewhere", "module": "pkg.train"})
    assert finding.path == ("code", "source_dir")


SCRIPT = {"source_dir": "src", "entry_point": "train.sh"}
NONE = {"strategy": "none", "processes_per_host": 1}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path / "src" / "train.sh"


def test_windows_line_ends_are_found_with_the_line(judge, script: Path) -> None:
    script.write_bytes(b"#!/bin/bash\nset -e\r\npython train.py\r\n")
    (finding,) = judge("CODE002", code_section=SCRIPT, distribution=NONE)
    assert (finding.severity, finding.path) == ("error", ("code", "entry_point"))
    assert "Windows line ends (line 2)" in finding.message


@pytest.mark.parametrize(
    ("first", "mode", "named"),
    [
        ("#!/usr/bin/env python3", 0o644, "python3"),
        ("#!/usr/bin/env -S A=b python3 -u", 0o644, "python3"),
        ("#! /no/such", 0o644, "such"),
        ("#!/usr/bin/env python3", 0o755, None),
        ("#!/usr/bin/env bash", 0o644, None),
        ("#!/bin/sh -e", 0o644, None),
        ("#!", 0o644, None),
        ("echo", 0o644, None),
    ],
)
def test_without_the_run_bit_bash_runs_what_names_another_program(
    judge, script: Path, first: str, mode: int, named: str | None
) -> None:
    script.write_text(f"{first}\necho\n")
    script.chmod(mode)
    found = judge("CODE002", code_section=SCRIPT, distribution=NONE)
    assert [finding.severity for finding in found] == (["error"] if named else [])
    assert all(f"bash would run it instead of {named}" in finding.message for finding in found)


def test_a_shell_script_that_is_not_there_is_said_once(judge, script: Path) -> None:
    assert len(judge("CODE002", code_section=SCRIPT, distribution=NONE)) == 1
    assert not script.exists()


HYDRA = "import hydra\n\n@hydra.main(config_path='conf')\ndef main(config):\n    pass\n"
ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr")
parser.add_argument("--e")
parser.parse_args()
"""


@pytest.fixture
def found(judge, tmp_path: Path):
    def found(script: str, style: str | None, name: str = "lr", **fields):
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / "run.py").write_text(script)
        code = {"source_dir": "src", "entry_point": "run.py", **({"argument_style": style} if style else {})}
        return judge("CODE002", code_section=code, hyperparameters={name: 0.1} if name else {}, **fields)

    return found


@pytest.mark.parametrize("style", [None, "spaced", "equals"])
def test_a_script_under_hydra_wants_its_own_style(found, style: str | None) -> None:
    (finding,) = found(HYDRA, style)
    assert (finding.severity, finding.path) == ("error", ("code", "argument_style"))
    assert "lr=... (@hydra.main, line 4)" in finding.message
    assert finding.remedy == "Write `argument_style: hydra`."


def test_where_the_toolkit_starts_it_there_is_no_such_style(found) -> None:
    (finding,) = found(HYDRA, None, distribution={"strategy": "mpi"})
    assert "SM_HPS" in finding.remedy


def test_argparse_refuses_hydras_words(found) -> None:
    (finding,) = found(ARGPARSE, "hydra")
    assert "argparse and would refuse lr=..." in finding.message


@pytest.mark.parametrize(
    ("script", "style", "name"),
    [
        (HYDRA, "hydra", "lr"), (HYDRA, "none", "lr"), (HYDRA, None, None),
        (ARGPARSE, None, "lr"), (ARGPARSE, "equals", "e"), (ARGPARSE, "none", "lr"),
        (ARGPARSE.replace('"--e"', '"-e", "--e"'), None, "e"),
        (ARGPARSE.replace("parse_args", "parse_known_args"), "hydra", "lr"), ("", "hydra", "lr"),
    ],
)  # fmt: skip
def test_what_the_script_takes_is_fine(found, script: str, style: str | None, name: str | None) -> None:
    assert found(script, style, name) == []


def test_a_name_of_one_letter_is_passed_with_one_dash(found) -> None:
    (finding,) = found(ARGPARSE, None, "e")
    assert finding.path == ("hyperparameters", "e")
    assert "passed as -e, and run.py declares --e alone" in finding.message
    assert "argument_style: equals" in finding.remedy


@pytest.mark.parametrize(
    ("word", "ignored", "found"),
    [
        ("configs/base.py", "configs/", True),
        ("--config=configs/base.yaml", "configs/", True),
        ("configs/base.py", "other/", False),
        ("configs/run", "configs/", False),
    ],
)
def test_a_configuration_that_the_job_names_is_packed(
    judge, tmp_path: Path, word: str, ignored: str, found: bool
) -> None:
    folder = tmp_path / "src" / "configs"
    folder.mkdir(parents=True)
    for name in ("base.py", "base.yaml", "run"):
        (folder / name).write_text("")
    (tmp_path / "src" / ".gitignore").write_text(f"{ignored}\n")
    code = {"source_dir": "src", "entry_point": "train.py", "arguments": [word]}
    told = [
        each for each in judge("CODE002", code_section=code) if "is left out by .gitignore" in each.message
    ]
    assert bool(told) is found

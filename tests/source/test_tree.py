"""A source folder, read once; the names that it uses, and what a script's source says of its command line."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from launcher.source.archive import digest_archive, read_first_bytes
from launcher.source.folder_walk import IgnoredPath, SourceError, walk_folder
from launcher.source.tree import (
    MOST_SCRIPT_BYTES,
    CommandLine,
    SourceTree,
    find_names,
    find_offered_options,
    module_files,
    read_command_line,
    read_source,
)


def tree(folder: Path, entry_point: str = "train.py", *names: str) -> SourceTree:
    for name in names or ("train.py",):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    return read_source(folder, entry_point)


def test_a_sound_source_has_a_digest_and_no_problem(tmp_path: Path) -> None:
    read = tree(tmp_path)
    assert (read.exists, read.has_entry_point, read.packs_entry_point, read.problems) == (
        True,
        True,
        True,
        (),
    )
    assert read.digest is not None and len(read.digest) == 64
    assert read.size_bytes == 6


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    read = read_source(tmp_path / "missing", "train.py")
    assert (read.exists, read.has_entry_point, read.files, read.digest) == (False, False, (), None)
    assert ["is not there" in problem.message for problem in read.problems] == [True]


def test_a_source_with_a_problem_has_files_and_no_digest(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/nowhere")
    read = tree(tmp_path)
    assert read.digest is None and read.packs_entry_point
    assert ["is a symbolic link" in problem.message for problem in read.problems] == [True]


def test_a_file_that_cannot_be_read_is_the_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("launcher.source.archive.open_regular", refused)
    read = tree(tmp_path)
    assert read.digest is None
    (problem,) = read.problems
    assert "train.py cannot be packed: Permission denied" in problem.message


@pytest.mark.parametrize(
    ("entry_point", "packed", "outside"),
    [
        ("train.py", True, False),
        ("./train.py", True, False),
        ("lib/../train.py", True, False),
        ("missing.py", False, False),
        ("../train.py", False, True),
        ("/etc/hostname", False, True),
    ],
)
def test_the_entry_point_is_packed_however_it_is_written(
    tmp_path: Path, entry_point: str, packed: bool, outside: bool
) -> None:
    read = tree(tmp_path / "src", entry_point, "train.py", "lib/a.py", "../train.py")
    assert (read.packs_entry_point, read.entry_point_is_outside) == (packed, outside)


def test_a_file_is_left_out_by_its_own_pattern_or_by_that_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("old\n*.bin")
    read = tree(tmp_path, "train.py", "train.py", "old/deep/a.py", "older.py", "x.bin")
    assert read.why_ignored("old/deep/a.py") == IgnoredPath("old/", "old", tmp_path / ".gitignore")
    assert read.why_ignored("x.bin") == IgnoredPath("x.bin", "*.bin", tmp_path / ".gitignore")
    assert read.why_ignored("older.py") is None


def test_the_folder_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    assert tree(Path("src")).folder == tmp_path / "src"


def test_a_packed_file_is_read_by_its_name_up_to_a_bound(tmp_path: Path) -> None:
    read = tree(tmp_path, "train.py", "train.py", "lib/a.py")
    assert (read.read("lib/a.py", 100), read.read("lib/a.py", 3)) == (b"x = 1\n", b"x =")


def test_what_is_not_packed_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("secret")
    read = tree(tmp_path, "train.py", "train.py", "secret")
    for name in ("secret", "missing", "../x"):
        with pytest.raises(KeyError):
            read.read(name, 100)


def test_a_file_that_is_gone_by_then_cannot_be_read(tmp_path: Path) -> None:
    read = tree(tmp_path)
    (tmp_path / "train.py").unlink()
    with pytest.raises(SourceError, match=r"train\.py cannot be packed"):
        read.read("train.py", 100)


WANTED = ("DistributedSampler", "fully_shard")


def names_of(folder: Path) -> frozenset[str]:
    return read_source(folder, "train.py", WANTED).names


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        pytest.param("train.py", "sampler = data.DistributedSampler(x)", True, id="used"),
        pytest.param("lib/data.py", "from d import DistributedSampler as S", True, id="in a module below"),
        pytest.param("train.py", "# DistributedSampler", False, id="in a comment"),
        pytest.param("train.py", "'''DistributedSampler'''", False, id="in a string"),
        pytest.param("train.py", "MyDistributedSampler()", False, id="in another name"),
        pytest.param("train.py", "DistributedSampler(\n  '''", True, id="before a syntax error"),
        pytest.param("train.sh", "DistributedSampler", False, id="in no Python file"),
        pytest.param(".venv/lib/d.py", "DistributedSampler()", False, id="in a hidden folder"),
        pytest.param("venv/lib/d.py", "DistributedSampler()", False, id="in installed packages"),
    ],
)
def test_names_are_found_where_code_uses_them(tmp_path: Path, file: str, text: str, found: bool) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert ("DistributedSampler" in names_of(tmp_path)) is found


def test_no_folder_has_no_names(tmp_path: Path) -> None:
    assert names_of(tmp_path / "missing") == frozenset()


def test_bytes_that_are_no_text_are_no_crash(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"\xff\xfe\x00DistributedSampler(\x00")
    assert names_of(tmp_path) <= {"DistributedSampler"}


def test_a_pipe_is_not_read_whether_it_is_ignored_or_came_after_the_look(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1")
    (tmp_path / "late.py").write_text("x = 1")
    os.mkfifo(tmp_path / "ignored.py")
    (tmp_path / ".slipwayignore").write_text("ignored.py")
    assert read_source(tmp_path, "train.py", WANTED).problems == ()

    files = walk_folder(tmp_path).files
    (tmp_path / "late.py").unlink()
    os.mkfifo(tmp_path / "late.py")
    assert find_names(files, WANTED, read_first_bytes) == frozenset()
    with pytest.raises(SourceError, match=r"late\.py cannot be packed: it is a pipe"):
        digest_archive(files)


def test_what_is_not_packed_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("DistributedSampler(x)")
    (tmp_path / ".slipwayignore").write_text("old.py")
    assert names_of(tmp_path) == frozenset()


@pytest.mark.parametrize(("others", "found"), [(199, True), (200, False)])
def test_two_hundred_files_are_read_those_beside_the_script_first(
    tmp_path: Path, others: int, found: bool
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "first.py").write_text("DistributedSampler(x)")
    for number in range(others):
        (tmp_path / f"z{number}.py").touch()
    assert bool(names_of(tmp_path)) is found


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("DistributedSampler(x)\n" + "#" * 1_000_000)
    assert names_of(tmp_path) == frozenset()


PARSER = """
    import argparse
    parser = argparse.ArgumentParser(description="Trains")
    group = parser.add_argument_group("model")
    parser.add_argument("-l", "--lr", type=float)
    group.add_argument("--e", type=int)
    args = parser.parse_args()
"""


def read(folder: Path, text: str) -> CommandLine:
    (folder / "train.py").write_text(textwrap.dedent(text))
    return read_command_line((folder / "train.py").read_bytes())


def test_the_options_of_a_plain_parser_are_known(tmp_path: Path) -> None:
    assert read(tmp_path, PARSER) == CommandLine(options=frozenset({"-l", "--lr", "--e"}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("parse_args()", "parse_known_args()[0]"),
        ("parse_args()", "parse_args(WORDS)"),
        ('"--e"', '"overrides"'),
        ('"--e"', "name"),
        ('"--e"', "*names"),
        ('description="Trains"', "parents=[base]"),
        ("args = ", "more(parser); args = "),
        ("args = ", "more(p=parser); args = "),
        ("import argparse", "import argparse, sys; words = sys.argv"),
        ("import argparse", "import argparse; other = argparse.ArgumentParser()"),
        ("parser = argparse", "self.parser = argparse"),
    ],
)
def test_nothing_is_said_of_a_parser_that_may_take_more(tmp_path: Path, before: str, after: str) -> None:
    assert before in PARSER
    assert read(tmp_path, PARSER.replace(before, after)) == CommandLine()


@pytest.mark.parametrize("decorator", ["@hydra.main", "@hydra.main(config_path='.', version_base=None)"])
def test_hydras_main_is_seen_with_its_line(tmp_path: Path, decorator: str) -> None:
    assert read(tmp_path, f"import hydra\n{decorator}\ndef main(config):\n    pass\n").hydra_line == 3


@pytest.mark.parametrize(
    "text",
    [
        "def broken(:", "\0", "-" * 150_000 + "1", "(" * 150_000, "a" + ".a" * 70_000, "f" + "()" * 70_000,
        "x = '\\d'\n" + "#" * MOST_SCRIPT_BYTES, "if x:\n" * 90 + "pass",
    ],
)  # fmt: skip
def test_what_is_no_script_or_a_hostile_one_says_nothing(
    tmp_path: Path, text: str, recwarn: pytest.WarningsRecorder
) -> None:
    assert read(tmp_path, text) == CommandLine()
    assert list(recwarn) == []


def test_what_a_script_offers_is_seen_also_where_it_takes_more() -> None:
    text = """
    import argparse
    parser = argparse.ArgumentParser(parents=[base])
    parser.add_argument("--max-steps", type=int, default=100)
    parser.add_argument("-f", "--fake_data", action="store_true")
    parser.add_argument("--name", action="store")
    parser.add_argument("files")
    args, rest = parser.parse_known_args()
    """
    assert find_offered_options(textwrap.dedent(text).encode()) == {
        "--max-steps": True,
        "--fake_data": False,
        "--name": True,
    }


@pytest.mark.parametrize(
    ("parser", "offered"),
    [
        ("HfArgumentParser((Model, TrainingArguments))", {"--max_steps": True}),
        ("HfArgumentParser(Seq2SeqTrainingArguments)", {"--max_steps": True}),
        ("HfArgumentParser(Model)", {}),
        ("this is no Python", {}),
    ],
)
def test_transformers_arguments_hold_a_limit_of_steps(parser: str, offered: dict[str, bool]) -> None:
    assert find_offered_options(parser.encode()) == offered


def test_a_module_is_looked_for_in_the_source_and_then_in_the_folders_of_pythonpath() -> None:
    own = ("pkg/train.py", "pkg/train/__main__.py")
    assert module_files("pkg.train") == own
    assert module_files("pkg.train", [".", "src"]) == (*own, *own, *(f"src/{each}" for each in own))

"""Which files of a source folder are packed, and why others are not."""

from __future__ import annotations

import os
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from launcher.source import folder_walk
from launcher.source.folder_walk import IgnoredPath, SourceFile, largest_entries, walk_folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "lib" / "data.py").write_text("x = 1\n")
    return folder


def packed(source: Path) -> list[str]:
    found = walk_folder(source)
    assert found.problems == ()
    return [file.name for file in found.files]


def problem(source: Path) -> str:
    (found,) = walk_folder(source).problems
    return found.message


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        ({".gitignore": "*.bin"}, ["a.py", "data/big.csv", "lib/b.py"]),
        ({".gitignore": "data/"}, ["a.py", "lib/b.py", "lib/model.bin", "model.bin"]),
        ({".gitignore": "/model.bin"}, ["a.py", "data/big.csv", "lib/b.py", "lib/model.bin"]),
        ({".gitignore": "*.bin\n!lib/model.bin"}, ["a.py", "data/big.csv", "lib/b.py", "lib/model.bin"]),
        ({"lib/.gitignore": "*.bin"}, ["a.py", "data/big.csv", "lib/b.py", "model.bin"]),
        ({".gitignore": "*.bin", "lib/.gitignore": "!*.bin"},
         ["a.py", "data/big.csv", "lib/b.py", "lib/model.bin"]),
        ({".gitignore": "lib/", "lib/.gitignore": "!*"}, ["a.py", "data/big.csv", "model.bin"]),
        ({".slipwayignore": "data\n*.bin\n"}, ["a.py", "lib/b.py"]),
        ({".gitignore": "*.bin", ".slipwayignore": "!/model.bin\ndata/"}, ["a.py", "lib/b.py", "model.bin"]),
        ({".gitignore": "# comment\n\n*.py\n"}, ["data/big.csv", "lib/model.bin", "model.bin"]),
    ],
)  # fmt: skip
def test_what_is_ignored_stays_behind(tmp_path: Path, ignored: dict[str, str], expected: list[str]) -> None:
    folder = tmp_path / "src"
    write(folder, "a.py", "model.bin", "data/big.csv", "lib/b.py", "lib/model.bin")
    for name, text in ignored.items():
        (folder / name).write_text(text)
    assert [name for name in packed(folder) if "ignore" not in name] == expected


def test_git_itself_agrees_about_what_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    write(
        folder,
        "a.py",
        "b.log",
        "keep.log",
        "out/x",
        "deep/out/y",
        "deep/z.tmp",
        "deep/doc/a.txt",
        "w/1",
        "w/2",
    )
    (folder / ".gitignore").write_text("*.log\n!keep.log\n/out\ndeep/**/*.txt\nw/*\n!w/2\n")
    (folder / "deep" / ".gitignore").write_text("*.tmp\nout/\n")
    assert sorted(packed(folder)) == listed_by_git(folder)


def listed_by_git(folder: Path) -> list[str]:
    """The files that git would add."""
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--cached", "--exclude-standard"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted(listed.stdout.split())


def test_git_itself_agrees_about_patterns_drawn_at_random(tmp_path: Path) -> None:
    drawn = (
        "* !*/ !*.* */ **/ x foo foo/ !foo /foo !/foo/ a/b a/b/ !a/b/ a/** !a/** **/b !**/b/ a/* !a/* *.py "
        "!*.py /* a/ !a/ !b/ b x* !x*/ a/**/b !a/**/x.py"
    )
    patterns = drawn.split()
    files = ("foo", "a/b", "a/x.py", "a/b2/x.py", "a/foo/x.py", "b/x.py", "b/a/y", "xx/z.py", "a/b3/b/q")
    draw = random.Random(17)
    for number in range(40):
        folder = tmp_path / f"src{number}"
        write(folder, "keep.py", *files)
        chosen = draw.choices(patterns, k=draw.randint(1, 5))
        (folder / ".gitignore").write_text("".join(f"{each}\n" for each in [*chosen, "!/keep.py"]))
        assert sorted(packed(folder)) == listed_by_git(folder), chosen


def test_the_repositorys_patterns_hold_for_a_source_folder_inside(tmp_path: Path) -> None:
    write(tmp_path, ".git/HEAD", "job/src/train.py", "job/src/.env", "job/src/weights.bin")
    (tmp_path / ".gitignore").write_text(".env\n")
    (tmp_path / "job" / ".gitignore").write_text("/src/*.bin\n")
    assert packed(tmp_path / "job" / "src") == ["train.py"]


def test_a_source_folder_that_git_ignores_is_packed_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, ".git/HEAD", "build/train.py")
    (tmp_path / ".gitignore").write_text("build/\n*.py\n")
    assert packed(tmp_path / "build") == ["train.py"]


def test_patterns_above_a_folder_without_a_repository_mean_nothing(tmp_path: Path) -> None:
    write(tmp_path, "src/train.py")
    (tmp_path / ".gitignore").write_text("*.py\n")
    assert packed(tmp_path / "src") == ["train.py"]


def link(source: Path, name: str, target: str) -> None:
    (source / name).parent.mkdir(parents=True, exist_ok=True)
    (source / name).symlink_to(target)


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        pytest.param({"a.py": "train.py"}, ["a.py", "lib/data.py", "train.py"], id="file"),
        pytest.param({"lib/a.py": "../train.py"}, ["lib/a.py", "lib/data.py", "train.py"], id="upwards"),
        pytest.param({"more": "lib"}, ["lib/data.py", "more/data.py", "train.py"], id="folder"),
        pytest.param(
            {"b": "a", "a": "lib"}, ["a/data.py", "b/data.py", "lib/data.py", "train.py"], id="link to a link"
        ),
        pytest.param(
            {"lib/t.py": "../train.py", "more": "lib"},
            ["lib/data.py", "lib/t.py", "more/data.py", "more/t.py", "train.py"],
            id="link in a linked folder",
        ),
        pytest.param(
            {"lib/other": "../data/x", "data/x/y.py": "../../train.py", "more": "lib"},
            ["data/x/y.py", "lib/data.py", "lib/other/y.py", "more/data.py", "more/other/y.py", "train.py"],
            id="linked folder in a linked folder",
        ),
    ],
)
def test_a_link_is_packed_as_what_it_leads_to(
    source: Path, links: dict[str, str], expected: list[str]
) -> None:
    for name, target in links.items():
        link(source, name, target)
    assert packed(source) == expected


def test_a_link_has_the_content_size_and_mode_of_its_file(source: Path) -> None:
    (source / "train.py").chmod(0o755)
    link(source, "lib/a.py", "../train.py")
    assert walk_folder(source).files[0] == SourceFile("lib/a.py", source / "train.py", 9, True)


@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        pytest.param("a", "/etc/hostname", "/etc/hostname is an absolute path", id="absolute"),
        pytest.param("a", "/opt/ml/x", "/opt/ml/x is an absolute path", id="absolute, and not here"),
        pytest.param("a", "../outside.py", "../outside.py leads out of the source folder", id="out"),
        pytest.param("a", "..", ".. leads out of the source folder", id="folder above"),
        pytest.param("a", "../srcs", "leads out of the source folder", id="same beginning"),
        pytest.param("a", "a", "leads back to itself", id="itself"),
        pytest.param("a", ".", "holds the link itself", id="source folder"),
        pytest.param("lib/a", "../lib", "holds the link itself", id="its folder"),
    ],
)
def test_a_link_that_cannot_be_followed_says_why(source: Path, name: str, target: str, says: str) -> None:
    write(source.parent, "outside.py", "srcs/a.py")
    link(source, name, target)
    assert f"{source / name} is a symbolic link that cannot be packed" in problem(source)
    assert says in problem(source)


@pytest.mark.parametrize("target", ["gone.py", "train.py/x", "../gone", "next"])
def test_a_link_to_what_is_not_there_is_left_out(source: Path, target: str) -> None:
    link(source, "docs/old", target)
    link(source, "docs/next", "gone")
    walk = walk_folder(source)
    assert walk.problems == ()
    assert walk.dangling == ("docs/next", "docs/old")
    assert not [each for each in walk.files if each.name.startswith("docs/")]
    (source / ".slipwayignore").write_text("docs/old\n")
    assert walk_folder(source).dangling == ("docs/next",)


def test_links_between_two_folders_end(source: Path) -> None:
    link(source, "lib/other", "../more")
    link(source, "more/lib", "../lib")
    assert [each.message.partition(" is ")[0] for each in walk_folder(source).problems] == [
        str(source / "lib/other/lib"),
        str(source / "more/lib/other"),
    ]


def test_a_link_to_a_pipe_is_refused(source: Path) -> None:
    os.mkfifo(source / "pipe")
    (source / ".gitignore").write_text("pipe")
    link(source, "lib/a", "../pipe")
    assert "the pattern pipe" in problem(source)
    (source / ".gitignore").unlink()
    assert [each.message.partition(" is ")[0] for each in walk_folder(source).problems] == [
        str(source / "lib/a"),
        str(source / "pipe"),
    ]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (".env", "the pattern .env of"),
        ("secret/key", "the pattern secret/ of"),
        ("secret", "the pattern secret/ of"),
        ("lib/x.bin", "the pattern *.bin of"),
        (".venv/x.py", ".venv/ is never packed"),
    ],
)
def test_what_is_left_out_does_not_come_in_by_a_link(source: Path, target: str, says: str) -> None:
    write(source, ".env", "secret/key", "lib/x.bin", ".venv/x.py")
    (source / ".gitignore").write_text(".env\nsecret/\n")
    (source / "lib" / ".gitignore").write_text("*.bin\n")
    link(source, "a", target)
    assert says in problem(source)


def test_patterns_hold_for_both_names_of_a_linked_file(source: Path) -> None:
    write(source, "lib/a.log", "lib/b.txt", "lib/c.csv")
    link(source, "more", "lib")
    (source / "lib" / ".gitignore").write_text("*.log\n.gitignore\n")
    (source / ".gitignore").write_text("more/*.txt\n/lib/*.csv\n.gitignore\n")
    assert packed(source) == ["lib/b.txt", "lib/data.py", "more/data.py", "train.py"]
    assert "more/b.txt" in [each.name for each in walk_folder(source).ignored]


def test_links_that_multiply_files_are_bounded(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_walk, "MOST_LINKED", 500)
    for level in range(12):
        for twice in "ab":
            link(source, f"l{level}/{twice}", f"../l{level + 1}")
    write(source, "l12/end.py")
    assert "more than 500 files" in problem(source)


def test_of_many_problems_the_first_are_told_and_the_rest_counted(source: Path) -> None:
    for number in range(30):
        link(source, f"a{number:02}", "/nowhere")
    problems = walk_folder(source).problems
    assert len(problems) == 21
    assert "10 more entries" in problems[-1].message


def test_a_folder_too_large_says_so_beside_its_links(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_walk, "MOST_SOURCE_BYTES", 10)
    link(source, "a", "/nowhere")
    assert [("link" in each.message, "holds" in each.message) for each in walk_folder(source).problems] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize("pattern", ["data", "data/", "/data"])
def test_an_ignored_link_is_nobodys_concern(source: Path, tmp_path: Path, pattern: str) -> None:
    (source / "data").symlink_to(tmp_path)
    (source / ".slipwayignore").write_text(pattern)
    assert packed(source) == [".slipwayignore", "lib/data.py", "train.py"]


@pytest.mark.parametrize("pattern", ["!", "[z-a]"])
def test_a_pattern_that_cannot_be_read_is_refused(source: Path, pattern: str) -> None:
    (source / ".slipwayignore").write_text(f"*.log\n{pattern}\n")
    assert f"the pattern '{pattern}' in {source / '.slipwayignore'} cannot be read" in problem(source)


@pytest.mark.parametrize(
    ("git", "own", "brought"),
    [
        ("data/", "!data/x.bin", ["data/x.bin"]),
        ("data/", "!/data/x.bin\n!data/sub/deep/w.bin", ["data/sub/deep/w.bin", "data/x.bin"]),
        ("data", "!data/sub/*.bin", ["data/sub/v.bin"]),
        ("data/", "!data/", ["data/sub/deep/w.bin", "data/sub/v.bin", "data/x.bin", "data/y.bin"]),
        ("data/*", "!data/x.bin\n!data/y.bin", ["data/x.bin", "data/y.bin"]),
        ("", "!data/x.bin\ndata/sub", ["data/x.bin", "data/y.bin"]),
        ("data/", "!data/x.bin\ndata/", []),
        ("data/", "!lib/x.bin", []),
    ],
)
def test_own_patterns_bring_files_back_out_of_folders_that_are_left_out(
    source: Path, git: str, own: str, brought: list[str]
) -> None:
    write(source, "data/x.bin", "data/y.bin", "data/sub/v.bin", "data/sub/deep/w.bin")
    (source / ".gitignore").write_text(git)
    (source / ".slipwayignore").write_text(own)
    assert [name for name in packed(source) if name.startswith("data/")] == brought


def test_what_is_left_out_above_the_source_is_brought_back_as_well(source: Path) -> None:
    write(source, "data/x.bin", "data/y.bin")
    (source.parent / ".git").mkdir()
    (source.parent / ".gitignore").write_text("src/data/")
    (source / ".slipwayignore").write_text("!data/x.bin")
    found = walk_folder(source)
    assert "data/x.bin" in [file.name for file in found.files]
    assert found.ignored == (IgnoredPath("data/y.bin", "src/data/", source.parent / ".gitignore"),)


def test_a_pattern_that_brings_nothing_back_is_told(source: Path) -> None:
    write(source, "data/x.bin")
    (source / ".gitignore").write_text("data/\n!of-git/")
    (source / ".slipwayignore").write_text("!data/x.bin\n!data/z.bin\n!lib/data.py")
    assert walk_folder(source).idle == (("!data/z.bin", source / ".slipwayignore"),)


def test_files_are_brought_back_out_of_a_bounded_number_of_folders(source: Path) -> None:
    (source / ".slipwayignore").write_text("".join(f"!{number}/x\n" for number in range(1001)))
    assert "out of more than 1,000 folders" in problem(source)


def test_no_pattern_takes_more_than_linear_time(source: Path) -> None:
    write(source, "a" * 200)
    (source / ".gitignore").write_text("*a" * 25 + "b\n.gitignore\n")
    assert packed(source) == ["a" * 200, "lib/data.py", "train.py"]


def test_names_and_patterns_that_are_not_utf8_are_compared_by_their_bytes(source: Path) -> None:
    for name in (b"caf\xe9.bin", b"caf\xc3\xa9.bin", b"\xff.py"):
        Path(os.fsdecode(os.fsencode(source) + b"/" + name)).touch()
    (source / ".gitignore").write_bytes(b"caf\xe9*\n.gitignore\n")
    assert [os.fsencode(each.name) for each in walk_folder(source).ignored] == [b".gitignore", b"caf\xe9.bin"]


def test_folders_may_nest_more_deeply_than_calls(tmp_path: Path, deepest_folder: Path) -> None:
    write(deepest_folder, "data.csv", "model.py")
    write(tmp_path, "e.py")
    (deepest_folder / ".gitignore").write_text("*.csv\n.gitignore\n")
    below = "d/" * 1_100
    assert packed(tmp_path) == [f"{below}model.py", "e.py"]
    assert [each.name for each in walk_folder(tmp_path).ignored] == [f"{below}.gitignore", f"{below}data.csv"]


def test_a_file_of_patterns_is_read_up_to_a_bound(source: Path) -> None:
    (source / ".gitignore").touch()
    os.truncate(source / ".gitignore", 1 << 40)  # a hole: it takes no room on the disk
    assert "too many patterns" in walk_folder(source).problems[0].message


def test_a_pipe_called_like_a_file_of_patterns_is_not_read(source: Path) -> None:
    os.mkfifo(source / ".gitignore")
    assert ".gitignore is neither a file nor a folder" in problem(source)


def test_a_folder_of_which_everything_is_ignored_is_refused(source: Path) -> None:
    (source / ".slipwayignore").write_text("*\n")
    assert "not ignored" in problem(source)


def test_more_than_code_can_be_is_refused_with_what_holds_most(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_walk, "MOST_SOURCE_BYTES", 5_000_000)
    (source / "lib" / "weights.bin").write_bytes(bytes(6_000_000))
    assert "lib/ (6 MB), train.py" in problem(source)


def test_the_largest_are_counted_by_their_top_level_name(source: Path) -> None:
    (source / "lib" / "more").write_bytes(bytes(100))
    assert largest_entries(walk_folder(source).files) == [("lib/", 106), ("train.py", 9)]


def test_what_is_left_out_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    write(folder, "a.py", "model.bin", "data/big.csv", "lib/x.log", "lib/__pycache__/x", ".git/HEAD")
    (folder / ".gitignore").write_text("# what is large\n\n*.bin\ndata/\n")
    (folder / "lib" / ".slipwayignore").write_text("*.log")
    assert set(walk_folder(folder).ignored) == {
        IgnoredPath(".git/"),
        IgnoredPath("data/", "data/", folder / ".gitignore"),
        IgnoredPath("lib/__pycache__/"),
        IgnoredPath("lib/x.log", "*.log", folder / "lib" / ".slipwayignore"),
        IgnoredPath("model.bin", "*.bin", folder / ".gitignore"),
    }


def test_the_last_pattern_that_fits_is_the_reason(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "train.py")
    (tmp_path / ".gitignore").write_text("*.log\n!a.log")
    (tmp_path / ".slipwayignore").write_text("a.*")
    assert walk_folder(tmp_path).ignored == (IgnoredPath("a.log", "a.*", tmp_path / ".slipwayignore"),)


def test_all_problems_are_told_and_the_rest_is_seen_all_the_same(source: Path) -> None:
    (source / "a").symlink_to("/nowhere")
    (source / "z").symlink_to("/nowhere")
    found = walk_folder(source)
    assert [problem.message.partition(" is ")[0] for problem in found.problems] == [
        str(source / "a"),
        str(source / "z"),
    ]
    assert [file.name for file in found.files] == ["lib/data.py", "train.py"]


def test_a_pattern_that_cannot_be_read_hides_no_files(source: Path) -> None:
    (source / "lib" / ".gitignore").write_text("!\n")
    assert "the pattern '!' in" in problem(source)
    assert "lib/data.py" in [file.name for file in walk_folder(source).files]


def test_each_folder_is_looked_at_once_and_an_ignored_one_never(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(source, "data/deep/big.csv", ".venv/lib/x.py")
    (source / ".gitignore").write_text("data/")
    scans: Counter[Path] = Counter()
    scandir = os.scandir

    def counted(folder: Any) -> Any:
        scans[Path(folder)] += 1
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", counted)
    walk_folder(source)
    assert scans == {source: 1, source / "lib": 1}


def test_scripts_are_those_beside_the_entry_point_ignored_ones_too(source: Path) -> None:
    write(source, "mine.py", "notes.txt")
    (source / ".gitignore").write_text("mine.py")
    assert walk_folder(source).scripts == ("mine.py", "train.py")


def test_a_file_has_its_size_and_whether_it_can_be_run(source: Path) -> None:
    (source / "lib" / "data.py").chmod(0o755)
    data, train = walk_folder(source).files
    assert data == SourceFile("lib/data.py", source / "lib" / "data.py", 6, True)
    assert not train.executable

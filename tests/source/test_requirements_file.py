"""What a requirements file asks for, and the lines that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.source.archive import read_first_bytes
from launcher.source.folder_walk import walk_folder
from launcher.source.requirements_file import MOST_LINES, RequirementsFile, read_requirements


def read(folder: Path, text: str, **others: str) -> RequirementsFile:
    for name, content in {"requirements.txt": text, **others}.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    found = read_requirements("requirements.txt", walk_folder(folder).files, read_first_bytes)
    assert found is not None
    return found


def test_a_file_that_is_not_packed_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert read_requirements("requirements.txt", walk_folder(tmp_path).files, read_first_bytes) is None


def test_packages_are_read_with_their_lines(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "# what the script needs\n"
        "einops==0.8.0  # rearrange\n"
        "\n"
        "transformers[torch]>=4.40, <5 ; python_version >= '3.9'\n"
        "numpy==2.0.0 \\\n"
        "    --hash=sha256:aaaa \\\n"
        "    # the other platform\n"
        "    --hash=sha256:bbbb\n"
        "tool @ git+https://user:s3cret@github.com/org/tool@v1#egg=tool\n"
        "git+https://github.com/org/other.git\n"
        "https://example.com/wheels/thing-1.0-py3-none-any.whl",
    )
    assert found.unusable == []
    assert [(each.text, each.place.line) for each in found.packages] == [
        ("einops==0.8.0", 2),
        ("transformers[torch]>=4.40, <5 ; python_version >= '3.9'", 4),
        ("numpy==2.0.0", 5),
        ("tool @ git+https://***@github.com/org/tool@v1#egg=tool", 9),
        ("git+https://github.com/org/other.git", 10),
        ("https://example.com/wheels/thing-1.0-py3-none-any.whl", 11),
    ]
    assert not found.needs_source


def test_further_files_are_read_where_they_are_named(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "-r reqs/base.txt\n-c limits.txt\n--requirement=reqs/more.txt\n",
        **{
            "reqs/base.txt": "-rmore.txt\npyyaml\n",
            "reqs/more.txt": "einops\n",
            "limits.txt": "torch==2.8.0\n",
        },
    )
    assert [each.text for each in found.packages] == ["einops", "pyyaml", "einops"]
    assert [each.text for each in found.constraints] == ["torch==2.8.0"]
    assert str(found.packages[0].place) == "reqs/more.txt, line 1"
    assert {file.name for file in found.files} == {
        "requirements.txt",
        "reqs/base.txt",
        "reqs/more.txt",
        "limits.txt",
    }


def test_indexes_are_told_without_their_credentials(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "-i https://aws:t0ken@team.d.codeartifact.eu-west-1.amazonaws.com/pypi/python/simple/\n"
        "--extra-index-url https://${TOKEN}@pypi.example.com/simple\n"
        "--find-links https://example.com/wheels --no-index --pre\n"
        "--only-binary :all:\n",
    )
    assert found.unusable == []
    assert found.index == "https://***@team.d.codeartifact.eu-west-1.amazonaws.com/pypi/python/simple/"
    assert found.links == ["https://***@pypi.example.com/simple", "https://example.com/wheels"]
    assert found.no_index


def test_what_lies_in_the_source_folder_may_be_installed(tmp_path: Path) -> None:
    found = _with_folders(tmp_path)
    assert found.unusable == []
    assert [each.in_source for each in found.packages] == [True, True, True, False]
    assert found.needs_source


def _with_folders(folder: Path) -> RequirementsFile:
    for name in ("libs/own/setup.py", "wheels/tiny-1.0-py3-none-any.whl"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("")
    return read(
        folder,
        "-e .\n./libs/own[extra]\nwheels/tiny-1.0-py3-none-any.whl\n-f ./wheels\n"
        "/opt/ml/input/data/w/x.whl\n",
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-e ../..", "../.. leads out of the source folder"),
        ("../neighbour", "../neighbour leads out of the source folder"),
        ("./libs/../../x", "leads out of the source folder"),
        ("/etc/secrets.whl", "/etc/secrets.whl leads out of the source folder"),
        ("~/wheels/x.whl", "leads out of the source folder"),
        ("file:///home/me/x.whl", "file:///home/me/x.whl leads out of the source folder"),
        ("x @ file:///home/me/x.whl", "leads out of the source folder"),
        ("git+file:///home/me/repo", "leads out of the source folder"),
        ("-f ../wheels", "leads out of the source folder"),
        ("-r ../base.txt", "../base.txt leads out of the source folder"),
        ("-r /etc/passwd", "/etc/passwd leads out of the source folder"),
        ("-r bse.txt", "bse.txt is not among the files that are packed"),
        ("./libs/nothing", "./libs/nothing is not among the files that are packed"),
        ("-r requirements.txt", "requirements.txt leads back to itself"),
        ("numpy two", "'numpy two' cannot be read: "),
        ("numpy=1.0", "'numpy=1.0' cannot be read: "),
        ("[section]", "'[section]' cannot be read: "),
        ("--index-ulr https://x", "the option '--index-ulr' is none of a requirements file"),
        ("numpy --force", "the option '--force' is none of a requirements file"),
        ("-r 'base.txt", "cannot be read: No closing quotation"),
        ("-r", "the option '--requirement' is none"),
        (f"x; {'(' * 3000}python_version>'3'{')' * 3000}", "has 3,000 brackets, more than 50"),
    ],
)
def test_a_line_that_cannot_be_used_is_told_with_its_place(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "base.txt").write_text("")
    found = read(tmp_path, f"einops\n{line}\n")
    (unusable,) = found.unusable
    assert str(unusable.place) == "requirements.txt, line 2"
    assert message in unusable.message
    assert [each.text for each in found.packages] == ["einops"]


def test_the_file_that_may_have_been_meant_is_named(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("")
    (unusable,) = read(tmp_path, "-r bse.txt\n").unusable
    assert unusable.remedy.endswith("Did you mean base.txt?")


@pytest.mark.parametrize(
    "line",
    [
        "x @ file://me:s3cret@host/x.whl",
        "no package https://me:s3cret@host/x",
        "-f file://me:s3cret@host/wheels",
        "-e ./https://me:s3cret@host",
        "-r a/https://me:s3cret@host",
        "einops --no https://me:s3cret@host",
    ],
)
def test_a_credential_is_in_no_message(tmp_path: Path, line: str) -> None:
    (unusable,) = read(tmp_path, f"{line}\n").unusable
    assert "s3cret" not in unusable.message


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00e\x00i", b"x" * 1_000_001, b"einops\n" * (MOST_LINES + 1)],
    ids=["not UTF-8", "too large", "too long"],
)
def test_what_is_no_such_file_is_told_once(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "requirements.txt").write_bytes(content)
    found = read_requirements("requirements.txt", walk_folder(tmp_path).files, read_first_bytes)
    assert found is not None
    assert len(found.unusable) == 1


def test_files_that_name_each_other_end(tmp_path: Path) -> None:
    found = read(tmp_path, "-r a.txt\n", **{"a.txt": "-r b.txt\n", "b.txt": "-r a.txt\neinops\n"})
    assert [each.text for each in found.packages] == ["einops"]
    assert [str(each.place) for each in found.unusable] == ["b.txt, line 1"]

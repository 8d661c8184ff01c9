"""A program is read with what it imports, once and bounded; which files of a folder are entry points."""

from __future__ import annotations

import ast
import os
import weakref
from pathlib import Path

import pytest

from launcher.program import program as reading
from launcher.program.execution.written_trees import WrittenTrees
from launcher.program.index import FileIndex, Unread
from launcher.program.program import (
    FileCache,
    Program,
    has_main_guard,
    python_files_below,
    read_program,
    read_source,
    trains_distributed,
)


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def names(program: Program | Unread) -> list[str]:
    assert isinstance(program, Program), program
    return [program.module_name(file) for file in program.files]


def test_the_files_are_those_that_the_script_imports_and_no_others(tmp_path: Path) -> None:
    write(tmp_path, train="import helpers\n", helpers="from deep.model import Net\n", other="")
    write(tmp_path, **{"deep/model": "class Net: ...\n"})
    assert names(read_program(tmp_path / "train.py")) == ["train", "helpers", "deep.model"]


@pytest.mark.parametrize(
    "statement",
    ["import pack.part", "from pack import part", "from pack.part import f", "import pack.part as p"],
)
def test_a_package_is_read_before_its_module(tmp_path: Path, statement: str) -> None:
    write(tmp_path, train=statement, **{"pack/__init__": "", "pack/part": "def f(): ...\n"})
    assert names(read_program(tmp_path / "train.py")) == ["train", "pack", "pack.part"]


def test_what_is_neither_beside_the_script_nor_in_the_root_may_lie_between(tmp_path: Path) -> None:
    started = "import common.tools\nimport datasets\nimport queue\n"
    write(
        tmp_path, **{"src/main/train": started, "src/common/tools": "", "src/datasets": "", "src/queue": ""}
    )
    program = read_program(tmp_path / "src" / "main" / "train.py", tmp_path)
    assert names(program) == ["train", "common.tools"]  # A library's name, and Python's own, mean these.


def test_what_lies_beside_the_script_or_in_the_root_goes_before_what_lies_between(tmp_path: Path) -> None:
    write(tmp_path, tools="", **{"src/main/train": "import tools\n", "src/tools": ""})
    program = read_program(tmp_path / "src" / "main" / "train.py", tmp_path)
    assert isinstance(program, Program)
    assert [file.path.parent.name for file in program.files] == ["main", tmp_path.name]


@pytest.mark.parametrize(
    "statement", ["from . import part", "from .part import f", "from ..pack.part import f"]
)
def test_relative_imports_are_followed_from_where_they_stand(tmp_path: Path, statement: str) -> None:
    write(tmp_path, train="import pack.start")
    write(tmp_path, **{"pack/__init__": "", "pack/start": statement, "pack/part": "f = 1"})
    assert "pack.part" in names(read_program(tmp_path / "train.py"))


def test_a_script_within_a_package_finds_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, **{"pack/__init__": "", "pack/train": "from .part import f", "pack/part": "f = 1"})
    assert names(read_program(tmp_path / "pack" / "train.py", tmp_path)) == [
        "pack.train",
        "pack",
        "pack.part",
    ]


def test_imports_are_looked_for_beside_the_script_and_below_the_root(tmp_path: Path) -> None:
    write(tmp_path, **{"jobs/train": "import beside, common.below", "jobs/beside": "", "common/below": ""})
    assert names(read_program(tmp_path / "jobs" / "train.py", tmp_path)) == [
        "train",
        "beside",
        "common.below",
    ]


@pytest.mark.parametrize(
    "added",
    [
        'sys.path.append("lib/deep")',
        'sys.path.insert(0, "../lib/deep")',
        'sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "deep"))',
        'sys.path.append(str(Path(__file__).resolve().parent.parent / "lib/deep"))',
        'ROOT = Path(__file__).parents[1]\nsys.path.append(os.fspath(ROOT / "lib" / "deep"))',
        'sys.path.append(os.path.join(os.getcwd(), "lib/deep"))',
    ],
)
def test_a_folder_that_a_script_adds_to_its_path_is_looked_into(tmp_path: Path, added: str) -> None:
    write(tmp_path, **{"scripts/train": f"import net\nimport os, sys\n{added}\n", "lib/deep/net": ""})
    assert names(read_program(tmp_path / "scripts" / "train.py", tmp_path)) == ["train", "net"]


@pytest.mark.parametrize(
    "added",
    [
        'sys.path.append("../elsewhere")',
        "sys.path.append(found())",
        'sys.path.append(os.path.join(found(), "elsewhere"))',
        'path.append("../elsewhere")',
        'sys.path.append("\\0")',
        "sys.path.append(sys.path)",
    ],
)
def test_a_folder_outside_of_the_root_or_not_written_out_is_not_looked_into(
    tmp_path: Path, added: str
) -> None:
    write(tmp_path, **{"inside/train": f"import net\nimport os, sys\n{added}\n", "elsewhere/net": ""})
    assert names(read_program(tmp_path / "inside" / "train.py")) == ["train"]


def test_imports_in_a_circle_end(tmp_path: Path) -> None:
    write(tmp_path, train="import one", one="import two", two="import one, train")
    assert names(read_program(tmp_path / "train.py"))[:3] == ["train", "one", "two"]


def test_a_link_out_of_the_root_and_a_link_to_itself_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path, **{"source/train": "import outside, circle", "elsewhere": ""})
    (tmp_path / "source" / "outside.py").symlink_to(tmp_path / "elsewhere.py")
    (tmp_path / "source" / "circle.py").symlink_to("circle.py")
    assert names(read_program(tmp_path / "source" / "train.py")) == ["train"]


def test_a_file_is_read_alike_whether_or_not_another_one_was_run_before(tmp_path: Path) -> None:
    write(tmp_path, train="x = " + " + ".join(["a"] * 400))
    program = read_program(tmp_path / "train.py")
    assert isinstance(program, Program)
    WrittenTrees(program).body(program.files[0])
    assert not ast.Load().__dict__  # It is one object for all files.
    assert isinstance(read_source(b"f(**{'a': b.c})", tmp_path / "other.py"), FileIndex)


def test_a_helper_that_is_no_python_is_said_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, train="import broken, sound", broken="print 'hello'\n", sound="x = 1")
    program = read_program(tmp_path / "train.py")
    assert names(program) == ["train", "sound"]
    assert isinstance(program, Program)
    (unread,) = program.unread
    assert (unread.path.name, unread.line) == ("broken.py", 1)
    assert "no valid Python: Missing parentheses" in unread.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"x = 1\x00\n", "null bytes", id="null bytes"),
        pytest.param(b"%matplotlib inline\nx = 1\n", "invalid syntax", id="a notebook's magic"),
        pytest.param(b"# coding: klingon\nx = 1\n", "klingon", id="an unknown encoding"),
        pytest.param(b"x = '\xff\xfe'\n", "encoding", id="bytes that are no UTF-8"),
        pytest.param(b"if x:\n\ty = 1\n        z = 2\n", "tabs", id="tabs and spaces"),
        pytest.param(b"x = " + b"(" * 5000 + b")" * 5000, "parentheses", id="too many parentheses"),
        pytest.param(b"x = " + b"-" * 100_000 + b"1", "too deeply", id="too deep an expression"),
        pytest.param(b"x = 1\nif tr", "expected ':'", id="cut off"),
    ],
)
def test_what_is_no_python_has_a_reason(data: bytes, reason: str, tmp_path: Path) -> None:
    read = read_source(data, tmp_path / "x.py")
    assert isinstance(read, Unread)
    assert reason in read.reason


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("x = 'ä'\n".encode("utf-8-sig"), id="byte order mark"),
        pytest.param("# coding: latin-1\nx = 'ä'\n".encode("latin-1"), id="another encoding"),
        pytest.param(b"x = 1\r\ny = 2\r\n", id="Windows' line ends"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"x = " + b" + ".join([b"1"] * 900), id="a long sum"),
        pytest.param(b"if a: ...\n" + b"elif a: ...\n" * 900, id="a long chain of elif"),
    ],
)
def test_odd_python_is_read(data: bytes, tmp_path: Path) -> None:
    assert not isinstance(read_source(data, tmp_path / "x.py"), Unread)


def test_a_folder_and_a_missing_file_are_said(tmp_path: Path) -> None:
    (tmp_path / "x.py").mkdir()
    assert read_program(tmp_path / "x.py") == Unread(tmp_path / "x.py", "it is a folder")
    assert read_program(tmp_path / "y.py") == Unread(tmp_path / "y.py", "there is no such file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_said(tmp_path: Path) -> None:
    write(tmp_path, x="")
    (tmp_path / "x.py").chmod(0)
    assert "Permission denied" in str(read_program(tmp_path / "x.py"))


def test_a_large_file_and_many_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 100)
    monkeypatch.setattr(reading, "MOST_FILES", 3)
    write(tmp_path, train="import large, a, b, c, d", large="x = 1\n" * 50, a="", b="", c="", d="")
    program = read_program(tmp_path / "train.py")
    assert names(program) == ["train", "a", "b"]
    assert isinstance(program, Program)
    assert "more than" in program.unread[0].reason


def test_a_common_helper_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, one="import helper", two="import helper", helper="")
    cache = FileCache()
    one, two = (read_program(tmp_path / name, cache=cache) for name in ("one.py", "two.py"))
    assert isinstance(one, Program)
    assert isinstance(two, Program)
    assert one.files[1] is two.files[1]


def test_a_program_that_is_asked_for_twice_is_the_same_until_its_script_is_forgotten(tmp_path: Path) -> None:
    write(tmp_path, one="import helper", two="import helper", helper="")
    cache, entry = FileCache(), tmp_path / "one.py"
    one = read_program(entry, cache=cache)
    assert read_program(entry, tmp_path, cache) is one
    assert read_program(entry, tmp_path.parent, cache) is not one
    again = read_program(entry, cache=cache)
    cache.forget(entry)
    assert read_program(entry, cache=cache) is not again


def test_a_cache_keeps_no_more_than_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / f"{number}.py" for number in range(4)]
    for file in files:
        file.write_text("a = 1\n" * 10, "utf-8")
    read: list[Path] = []
    read_source = reading.read_source

    def counted(data: bytes, path: Path) -> FileIndex | Unread:
        read.append(path)
        return read_source(data, path)

    monkeypatch.setattr(reading, "read_source", counted)
    monkeypatch.setattr(reading, "MOST_BYTES_KEPT", 130)
    cache = reading.FileCache()
    for file in (files[0], files[1], files[0], files[2], files[0]):
        cache.read(file)
    assert read == [files[0], files[1], files[2], files[0]]
    cache.forget(files[0])
    cache.read(files[3])
    assert cache.read(files[2]) is cache.read(files[2])
    assert len(read) == 5


def test_the_memory_of_forgotten_files_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a="import b", b="x = 1")
    with reading.collection_paused():
        cache = FileCache()
        read = cache.read(tmp_path / "b.py")
        kept = weakref.ref(read)
        del read
        cache.forget(tmp_path / "b.py")
        cache.collect()
        assert kept() is not None, "so little is not worth a look through all objects"
        monkeypatch.setattr(reading, "MOST_BYTES_FORGOTTEN", 3)
        cache.collect()
        assert kept() is None


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ('if __name__ == "__main__":\n    main()\n', True),
        ("if '__main__' == __name__:\n    main()\n", True),
        ("main()\n", False),
        ('x = "__main__"\n', False),
        ('if __name__ != "__mp_main__":\n    main()\n', False),
        ('def f():\n    if __name__ == "__main__":\n        main()\n', False),
    ],
)
def test_a_main_guard_is_an_if_of_the_module(text: str, guarded: bool) -> None:
    read = read_source(text.encode(), Path("train.py"))
    assert isinstance(read, FileIndex)
    assert has_main_guard(read) is guarded


@pytest.mark.parametrize(
    ("text", "distributed"),
    [
        ("import torch.distributed as dist\n", True),
        ("from torch import distributed\n", True),
        ("import torch\ntorch.distributed.barrier()\n", True),
        ("from torch.nn.parallel import DistributedDataParallel as DDP\n", True),
        ("from torch import nn\nnn.parallel.DistributedDataParallel(m)\n", True),
        ("from accelerate import Accelerator\n", True),
        ("import pytorch_lightning as pl\n", True),
        ("from transformers import Trainer\n", True),
        ("from transformers import AutoModel\n", False),
        ("import torch\nimport deepspeech\n", False),
    ],
)
def test_a_program_is_distributed_by_what_it_imports(tmp_path: Path, text: str, distributed: bool) -> None:
    (tmp_path / "train.py").write_text(text, "utf-8")
    program = read_program(tmp_path / "train.py")
    assert isinstance(program, Program)
    assert trains_distributed(program) is distributed


def test_a_program_is_distributed_by_what_its_helper_imports(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import setup_of_ranks\n", "utf-8")
    (tmp_path / "setup_of_ranks.py").write_text("import torch.distributed\n", "utf-8")
    program = read_program(tmp_path / "train.py")
    assert isinstance(program, Program)
    assert trains_distributed(program)


def test_files_come_in_order_and_not_from_installed_packages(tmp_path: Path) -> None:
    for name in ("b.py", "a.py", "z/c.py", ".venv/d.py", "site-packages/e.py", "__pycache__/f.py", "g.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    found = [path.relative_to(tmp_path).as_posix() for path in python_files_below(tmp_path)]
    assert found == ["a.py", "b.py", "z/c.py"]


def test_what_is_excluded_does_not_come(tmp_path: Path) -> None:
    for name in ("a.py", "old/b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert list(python_files_below(tmp_path, lambda path: path.name == "old")) == [tmp_path / "a.py"]


def test_modules_are_looked_for_in_the_folders_that_are_told(tmp_path: Path) -> None:
    write(tmp_path, train="import deep.part\n", **{"src/deep/part": ""})
    assert names(read_program(tmp_path / "train.py")) == ["train"]
    told = read_program(tmp_path / "train.py", import_folders=["src"])
    assert names(told) == ["train", "deep.part"]


def test_one_cache_keeps_programs_with_other_folders_apart(tmp_path: Path) -> None:
    write(tmp_path, train="import part\n", **{"src/part": ""})
    cache = FileCache()
    assert names(read_program(tmp_path / "train.py", cache=cache)) == ["train"]
    assert names(read_program(tmp_path / "train.py", cache=cache, import_folders=["src"])) == [
        "train",
        "part",
    ]


ADDS = "import os, sys\nsys.path.insert(0, os.path.join(os.environ['HERE'], 'parts'))\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"train": f"{ADDS}from part import f\n", "lib/parts/part": "def f(): ...\n"}, ["part"]),
        (
            {"train": "from paths import a\nimport part\n", "paths": f"{ADDS}a = 1\n", "lib/part": ""},
            ["paths", "part"],
        ),
        ({"train": "import part\n", "lib/parts/part": ""}, []),
        ({"train": f"{ADDS}import part\n", "one/part": "", "two/part": ""}, []),
        ({"train": f"{ADDS}import own.part\nimport part\n", "own/part": ""}, ["own.part"]),
        ({"train": f"{ADDS}import numpy\n", "lib/numpy": ""}, []),
    ],
)
def test_a_module_is_found_where_one_folder_alone_has_it_and_folders_are_added(
    tmp_path: Path, files: dict[str, str], found: list[str]
) -> None:
    write(tmp_path, **files)
    assert names(read_program(tmp_path / "train.py")) == ["train", *found]

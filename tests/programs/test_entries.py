"""Which files of a folder are started by themselves, and train on several processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.scripts.entries import has_main_guard, python_files_below, trains_distributed
from launcher.scripts.index import FileIndex
from launcher.scripts.program import Program
from launcher.scripts.reading import read_program, read_source


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

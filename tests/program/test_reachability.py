"""Which files of a program it runs, and which it only imports."""

from __future__ import annotations

import pytest

from launcher.program.ranks.reachability import without_unused_files
from tests.program.conftest import ReadProgram

ENTRY = "import package.models\nfrom package.models import small\nsmall()\n"
MODELS = "from package.small import small\nfrom package.large import large\n"
SMALL = "def small():\n    return 1\n"
LARGE = (
    "import logging\nlogger = logging.getLogger(__name__)\nWIDTHS = {'a': 1}\ndef large():\n    return 2\n"
)


def used_files(program: ReadProgram, entry: str = ENTRY, large: str = LARGE) -> list[str]:
    files = {"package/__init__.py": "", "package/models.py": MODELS, "package/small.py": SMALL}
    read = program(entry, **files, **{"package/large.py": large})
    assert len(read.files) == 5
    return [each.path.stem for each in without_unused_files(read).files[1:]]


def test_a_file_of_which_nothing_is_called_is_not_used(program: ReadProgram) -> None:
    assert used_files(program) == ["small"]


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY + "package.models.large()\n",
        ENTRY + "getattr(package.models, 'large')()\n",
        ENTRY + "print(package.large.WIDTHS)\n",
    ],
)
def test_a_file_of_which_a_function_or_a_constant_is_named_is_used(program: ReadProgram, entry: str) -> None:
    assert used_files(program, entry) == ["small", "large"]


@pytest.mark.parametrize(
    "line",
    [
        "import os\nos.environ['NCCL_DEBUG'] = 'INFO'\n",
        "import torch\ntorch.manual_seed(0)\n",
        "import torch\nDEVICE = torch.device('cuda')\n",
        "import torch\nif torch.cuda.is_available():\n    print('cuda')\n",
        "from package.small import REGISTRY\n@REGISTRY.add\ndef larger():\n    pass\nREGISTRY['larger']()\n",
        "for name in 'ab':\n    globals()[name] = name\n",
        "class Base: pass\nBase().x: int = 1\n",
    ],
)
def test_a_file_whose_import_does_something_is_used(program: ReadProgram, line: str) -> None:
    assert used_files(program, large=LARGE + line) == ["small", "large"]


@pytest.mark.parametrize(
    "line",
    [
        '"""What the module is for."""\n',
        "try:\n    import apex\nexcept ImportError:\n    apex = None\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n",
        "__all__ = ['large']\n",
        "if __name__ == '__main__':\n    print(large())\n",
    ],
)
def test_a_file_that_only_defines_is_not_used(program: ReadProgram, line: str) -> None:
    assert used_files(program, large=LARGE + line) == ["small"]


def test_a_program_that_uses_all_its_files_stays_as_it_is(program: ReadProgram) -> None:
    read = program("from small import small\nsmall()\n", **{"small.py": SMALL})
    assert without_unused_files(read) is read

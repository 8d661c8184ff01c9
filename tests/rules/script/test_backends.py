"""A backend that nothing registers: DIST005."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Severity
from launcher.rules.script.backends import backends_are_imported
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = "import os, argparse, torch\nimport torch.distributed as dist\n"
SMDDP = "import smdistributed.dataparallel.torch.torch_smddp\n"
GROUP = 'dist.init_process_group("smddp")\n'


def told(program: ReadProgram, text: str, **others: str) -> list[tuple[str, Severity]]:
    found = backends_are_imported(program(START + text, **others))
    return [(each.code, each.severity) for each in found]


@shows(backends_are_imported)
@pytest.mark.parametrize(
    "text",
    [
        GROUP,
        'dist.init_process_group(backend="smddp")',
        'BACKEND = "smddp"\ndist.init_process_group(BACKEND)',
        'def setup(backend="smddp"):\n    dist.init_process_group(backend=backend)\nsetup()',
        'from torch.distributed import init_process_group as init\ninit("SMDDP")',
        "import numpy as np\nfrom torchvision import datasets\nfrom tqdm import tqdm\n" + GROUP,
        'if torch.cuda.is_available():\n    dist.init_process_group("smddp", timeout=limit)',
    ],
)
def test_a_backend_that_nothing_imports_is_found(program: ReadProgram, text: str) -> None:
    assert told(program, text) == [("DIST005", Severity.ERROR)]


def test_a_helper_of_the_program_that_does_not_import_it_either_is_looked_into(program: ReadProgram) -> None:
    assert told(program, "from tools import start\n" + GROUP, **{"tools.py": "import torch\n"}) != []


@leaves_alone(backends_are_imported)
@pytest.mark.parametrize(
    "text",
    [
        SMDDP + GROUP,
        "import smdistributed.dataparallel.torch.torch_smddp as smddp\n" + GROUP,
        "from smdistributed.dataparallel.torch import torch_smddp\n" + GROUP,
        "def main():\n    " + SMDDP + "    " + GROUP,
        "try:\n    " + SMDDP + "except ImportError:\n    pass\n" + GROUP,
        'dist.init_process_group("nccl")',
        "dist.init_process_group(backend=os.environ['BACKEND'])",
        "p = argparse.ArgumentParser()\np.add_argument('--backend', default='smddp')\n"
        "dist.init_process_group(p.parse_args().backend)",
        "import importlib\nimportlib.import_module(name)\n" + GROUP,
        "from accelerate import Accelerator\n" + GROUP,
        "import torch.sagemaker as tsm\n" + GROUP,
        "import our_own_library\n" + GROUP,
        'dist.init_process_group(*options, backend="smddp")',
    ],
)
def test_a_backend_that_is_or_may_be_imported_is_silent(program: ReadProgram, text: str) -> None:
    assert told(program, text) == []


def test_a_helper_of_the_program_may_import_it(program: ReadProgram) -> None:
    assert told(program, "from tools import start\n" + GROUP, **{"tools.py": SMDDP}) == []

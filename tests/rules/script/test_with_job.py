"""Script and job judged together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Finding
from launcher.jobs.load import load_job
from launcher.planning.planner import plan_job
from launcher.rules.script import with_job
from launcher.rules.script.subject import ScriptSubject
from launcher.scripts.program import Program
from launcher.scripts.reading import read_program
from launcher.session.preparation import source_of
from tests.rules.script.counting import leaves_alone, shows

TORCHRUN = {"strategy": "torchrun"}
NONE = {"strategy": "none"}
TWO = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
ONE_GPU = {"instance_type": "ml.g5.xlarge", "instance_count": 1}

Together = Callable[..., list[str]]


@pytest.fixture
def together(write_job: Callable[..., Path]) -> Together:
    """The codes of what a script and a job with these fields show."""

    def judge(text: str, **fields: Any) -> list[str]:
        file = write_job(**{"distribution": TORCHRUN, "resources": TWO, **fields})
        script = file.parent / "src" / "train.py"
        script.write_text(text, "utf-8")
        loaded = load_job(file)
        assert loaded.spec is not None, loaded.findings
        source = source_of(loaded.spec, file.parent)
        plan = plan_job(
            loaded.spec,
            None,
            unique="0unique",
            source=source,
            session_region="us-west-2",
            today=date(2026, 11, 22),
        )
        program = read_program(script)
        assert isinstance(program, Program)
        subject = ScriptSubject(program, plan.spec or loaded.spec, plan)
        findings: list[Finding] = [each for rule in with_job.JOB_RULES for each in rule(subject)]
        return [each.code for each in findings]

    return judge


SPAWN = "import torch.multiprocessing as mp\ndef work(i): ...\n"
GROUP = "import torch.distributed as dist\ndist.init_process_group()\n"
TRAINER = "from lightning.pytorch import Trainer\n"
TORCH_2 = {"name": "pytorch", "version": "2.8"}
TORCH_1 = {"name": "pytorch", "version": "2.1"}


@shows(with_job.settings_suit_the_job, "NCCL002", naming="NCCL002")
@shows(with_job.settings_suit_the_job, "NCCL001", naming="NCCL001")
@shows(with_job.spawned_processes_are_the_hosts_accelerators, naming="DIST001")
@shows(with_job.trainer_knows_its_processes, naming="DIST008")
@shows(with_job.script_fits_the_strategy, naming="DIST005")
@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        (SPAWN + "mp.spawn(work, nprocs=8)", {}, ["DIST005"]),
        (SPAWN + "def main():\n    mp.spawn(work, nprocs=8)\nmain()", {}, ["DIST005"]),
        (SPAWN + "mp.start_processes(work, nprocs=8)", {}, ["DIST005"]),
        ("import torch\nloss = torch.nn.Linear(1, 1)(x)\nloss.backward()", {}, ["DIST005"]),
        ("import torch, numpy, argparse\nfor x in data:\n    net(x).backward()", {}, ["DIST005"]),
        (TRAINER + "Trainer(devices=1).fit(m)", {}, ["DIST008"]),
        ("import pytorch_lightning as pl\npl.Trainer(devices=1, accelerator='gpu')", {}, ["DIST008"]),
        (SPAWN + "mp.spawn(work, nprocs=4)", {"distribution": NONE}, ["DIST001"]),
        (SPAWN + "mp.spawn(work, nprocs=16)", {"distribution": NONE}, ["DIST001"]),
        (
            GROUP + 'import os\nos.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"',
            {"framework": TORCH_2},
            ["NCCL002"],
        ),
        (GROUP + 'import os\nos.environ["NCCL_BUFFSIZE"] = "1"', {}, ["NCCL001"]),
        (GROUP + 'import os\nos.environ["NCCL_NSOCKS_PERTHREAD"] = "4"', {}, ["NCCL001"]),
    ],
)
def test_what_does_not_fit_the_job_is_found(
    together: Together, text: str, fields: dict[str, Any], expected: list[str]
) -> None:
    assert together(text, **fields) == expected


@leaves_alone(with_job.spawned_processes_are_the_hosts_accelerators, naming="strategy': 'none")
@leaves_alone(with_job.script_fits_the_strategy, naming="backward()")
@leaves_alone(with_job.script_fits_the_strategy, naming="spawn(")
@leaves_alone(with_job.trainer_knows_its_processes, naming="Trainer(")
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (GROUP, {}),
        (SPAWN + "import sys\nif sys.argv[1:]:\n    mp.spawn(work, nprocs=8)", {}),
        (SPAWN + "mp.spawn(work, nprocs=8)", {"distribution": NONE}),
        (SPAWN + "import torch\nmp.spawn(work, nprocs=torch.cuda.device_count())", {"distribution": NONE}),
        ("import torch\nnet(x).backward()", {"resources": ONE_GPU}),
        ("import torch\nprint(torch.__version__)", {}),
        ("import torch\nfrom accelerate import Accelerator\nnet(x).backward()", {}),
        ("import torch\nimport something_unknown\nnet(x).backward()", {}),
        ("import torch.distributed as d\nif d.is_available():\n    d.init_process_group()", {}),
        (TRAINER + "Trainer(devices=1, num_nodes=2)", {}),
        (TRAINER + 'Trainer(devices="auto")', {}),
        (TRAINER + "Trainer(devices=1)", {"resources": ONE_GPU}),
        (TRAINER + "Trainer(devices=8, num_nodes=2, strategy='ddp')", {}),
        (TRAINER + "Trainer(**options)", {}),
        (
            GROUP + 'import os\nos.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"',
            {"framework": TORCH_1},
        ),
        (GROUP + 'import os\nos.environ["NCCL_BUFFSIZE"] = "1"', {"resources": ONE_GPU}),
    ],
)
def test_what_fits_or_is_not_known_is_left_alone(
    together: Together, text: str, fields: dict[str, Any]
) -> None:
    assert together(text, **fields) == []


@leaves_alone(with_job.entry_point_has_a_worker_function, naming="[])")
@shows(with_job.entry_point_has_a_worker_function, naming="['XLA")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def main(): ...", ["XLA002"]),
        ("class Trainer:\n    def _mp_fn(self, index): ...", ["XLA002"]),
        ("def _mp_fn(index): ...", []),
        ("from work import _mp_fn", []),
        ("from work import *", []),
    ],
)
def test_the_launcher_of_torch_xla_needs_a_worker_function(
    together: Together, text: str, expected: list[str]
) -> None:
    resources = {"instance_type": "ml.p3.8xlarge", "instance_count": 1}
    assert together(text, distribution={"strategy": "torch_xla"}, resources=resources) == expected

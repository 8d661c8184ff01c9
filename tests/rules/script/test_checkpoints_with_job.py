"""What is left of a script's checkpoints when the job's hosts are gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.rules.script import checkpoints
from launcher.rules.script.findings import ScriptSubject
from launcher.session.prepare_plan import source_of
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

SPOT = {"resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 1, "capacity": "spot"}}
KEPT = {"checkpoint": {"s3_uri": "s3://bucket/checkpoints"}}
Judge = Callable[..., list[Finding]]


@pytest.fixture
def judge(program: ReadProgram, write_job: Callable[..., Path]) -> Judge:
    def findings(text: str, **fields: Any) -> list[Finding]:
        loaded = load_job(write_job(**fields))
        assert loaded.spec is not None, loaded.findings
        plan = plan_job(
            loaded.spec,
            None,
            unique="0unique",
            source=source_of(loaded.spec, loaded.file.parent),
            session_region="us-west-2",
            today=date(2026, 11, 22),
        )
        subject = ScriptSubject(program(text), plan.spec or loaded.spec, plan)
        return [finding for rule in checkpoints.STORAGE_JOB_RULES for finding in rule(subject)]

    return findings


START = "import os, torch\nfrom pathlib import Path\n"


@shows(checkpoints.saves_go_where_they_are_kept)
@pytest.mark.parametrize(
    "path",
    [
        '"model.pt"',
        '"./runs/model.pt"',
        '"/tmp/model.pt"',
        'os.path.join("checkpoints", name)',
        'Path("out") / "model.pt"',
        'f"/root/{name}.pt"',
        '"/opt/ml/checkpoints/model.pt"',
        '"model-" + name',
    ],
)
def test_a_save_to_the_hosts_own_disk_is_found(judge: Judge, path: str) -> None:
    (finding,) = judge(f"{START}torch.save(state, {path})")
    assert (finding.code, finding.severity) == ("CKPT007", Severity.ERROR)


@leaves_alone(checkpoints.saves_go_where_they_are_kept)
@pytest.mark.parametrize(
    "text",
    [
        'torch.save(state, "/opt/ml/model/model.pt")',
        'torch.save(state, "/opt/ml/output/data/model.pt")',
        'torch.save(state, os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))',
        "torch.save(state, args.out)",
        "torch.save(state, args.out + '/model.pt')",
        'torch.save(state, "/fsx/model.pt")',
        'import shutil\ntorch.save(state, "model.pt")\nshutil.copy("model.pt", kept)',
        'import hydra\n@hydra.main()\ndef main():\n    torch.save(state, "model.pt")',
        'torch.save(state, "model.pt")\ns3.upload_file("model.pt", bucket, key)',
        'os.chdir(os.environ["SM_MODEL_DIR"])\ntorch.save(state, "model.pt")',
        "torch.save(state, buffer)",
        'for name in ["a", "b"]:\n    torch.save(state, name)',
    ],
)
def test_a_save_that_is_kept_or_not_known_is_right(judge: Judge, text: str) -> None:
    assert judge(START + text) == []


def test_what_has_a_mover_in_its_name_moves_nothing(judge: Judge) -> None:
    text = f'{START}torch.cuda.synchronize()\nname.replace("a", "b")\nstart()\ntorch.save(state, "model.pt")'
    assert len(judge(text)) == 1


def test_the_checkpoints_of_the_job_are_kept(judge: Judge) -> None:
    text = f'{START}torch.save(state, "/opt/ml/checkpoints/model.pt")'
    assert judge(text, **KEPT) == []


def test_a_second_place_beside_one_that_is_kept_is_a_warning(judge: Judge) -> None:
    text = f'{START}torch.save(state, "last.pt")\ntorch.save(state, "/opt/ml/model/model.pt")'
    (finding,) = judge(text)
    assert (finding.subject, finding.severity) == ('torch.save(state, "last.pt")', Severity.WARNING)


LOOP = "import torch\nfor batch in data:\n    model(batch).backward()\n    optimizer.step()\n"


@shows(checkpoints.what_restarts_loads_a_checkpoint)
@pytest.mark.parametrize(
    "text",
    [
        LOOP,
        LOOP + "torch.save(model.state_dict(), '/opt/ml/checkpoints/a.pt')",
        "import json\njson.load(file)\n" + LOOP,
        "import numpy as np\nnp.load('x.npy')\n" + LOOP,
        "from torch.utils.data import DataLoader\nDataLoader(data)\n" + LOOP,
        LOOP + "save_checkpoint(model)",
    ],
)
def test_a_script_that_never_loads_is_found_where_it_is_restarted(judge: Judge, text: str) -> None:
    (finding,) = judge(text, **SPOT, **KEPT)
    assert (finding.code, finding.severity) == ("CKPT006", Severity.WARNING)
    assert "`capacity: spot`" in finding.message


@leaves_alone(checkpoints.what_restarts_loads_a_checkpoint)
@pytest.mark.parametrize(
    "text",
    [
        "import torch\nstate = torch.load(path)\n" + LOOP,
        LOOP + "model.load_state_dict(state)",
        LOOP + "load_checkpoint(model)",
        LOOP + "trainer.fit(model, ckpt_path='last')",
        LOOP + "trainer.train(resume_from_checkpoint=True)",
        LOOP + "from lib import *",
        LOOP + "maybe_resume(model)",
        "import slipway\nslipway.CheckpointManager().resume(model=model)\n" + LOOP,
        "print('no training here')",
    ],
)
def test_a_script_that_may_load_says_nothing(judge: Judge, text: str) -> None:
    assert judge(text, **SPOT, **KEPT) == []


def test_a_job_that_is_never_restarted_needs_to_load_nothing(judge: Judge) -> None:
    assert judge(LOOP, **KEPT) == []


def test_a_retry_is_a_restart(judge: Judge) -> None:
    (finding,) = judge(LOOP, limits={"max_retries": 2}, **KEPT)
    assert "`max_retries: 2`" in finding.message

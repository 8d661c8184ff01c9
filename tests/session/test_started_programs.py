"""What a job's shell script starts is judged as in a job that starts it so itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.session.prepare_plan import JobSource, prepare, read_job

WriteJob = Callable[..., Path]

SAVES = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(args.steps):
    model(torch.randn(8, 8)).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), f"{args.out}/last.pt")
"""


def found_of_shell(write_job: WriteJob, script: str, **changes: object) -> list[str]:
    code = {"source_dir": "src", "entry_point": "run.sh", **changes}
    file = write_job(code=code, distribution={"strategy": "none"}, resources=ONE_GPU)
    (file.parent / "src" / "train.py").write_text(SAVES, "utf-8")
    (file.parent / "src" / "run.sh").write_text(script, "utf-8")
    plan = prepare(read_job(JobSource(file)), session_region="us-west-2")
    places = (each.location for each in plan.findings if each.code in ("CKPT007", "CODE002"))
    return [str(each) for each in places]


ONE_GPU = {"instance_type": "ml.g5.xlarge", "instance_count": 1}


@pytest.mark.parametrize(
    ("script", "arguments", "places"),
    [
        ("python train.py --out $1\n", ["runs"], ["src/train.py:12:5"]),
        ("python train.py --out $1\n", ["/opt/ml/model"], []),
        ("OUT=${SM_MODEL_DIR}\npython train.py --out $OUT\n", [], []),
        ('python train.py "$@"\n', ["--out", "${SM_MODEL_DIR}"], []),
        ("python train.py --out /opt/ml/model --steps many\n", [], ["src/train.py:5:1"]),
        ("python train.py --out $(date)\n", [], []),
    ],
)
def test_what_a_shell_script_starts_is_judged_with_its_words(
    write_job: WriteJob,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    arguments: list[str],
    places: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert found_of_shell(write_job, script, arguments=arguments) == places


MAYBE_ONE_OF_SEVERAL = """
import os, torch
import torch.distributed as dist
if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    dist.init_process_group("nccl")
net = torch.nn.Linear(8, 8).cuda()
if dist.is_initialized():
    net = torch.nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    net(torch.randn(8, 8).cuda()).sum().backward()
    optimizer.step()
torch.save(net.state_dict(), "/opt/ml/model/last.pt")
"""


@pytest.mark.parametrize(
    ("kind", "strategy", "severity"),
    [("ml.g5.xlarge", "none", "info"), ("ml.g5.12xlarge", "torchrun", "error")],
)
def test_what_goes_wrong_between_ranks_is_no_error_of_one_process(
    write_job: WriteJob, kind: str, strategy: str, severity: str
) -> None:
    resources = {"instance_type": kind, "instance_count": 1}
    file = write_job(distribution={"strategy": strategy}, resources=resources)
    (file.parent / "src" / "train.py").write_text(MAYBE_ONE_OF_SEVERAL, "utf-8")
    plan = prepare(read_job(JobSource(file)), session_region="us-west-2")
    assert [each.severity.value for each in plan.findings if each.code == "CKPT008"] == [severity]

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

"""From a source to a job file: what the source is, and what its job gets wrong at the source's lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launcher.aws.clients import Clients
from launcher.failure_modes.model import Refusal
from launcher.session.drafting.import_job import ImportedJob, import_job
from tests.planning.test_golden import GOLDEN

SDK = """\
from sagemaker.pytorch import PyTorch
estimator = PyTorch(
    entry_point="train.py",
    source_dir="src",
    role="arn:aws:iam::111122223333:role/training",
    framework_version="2.0.1",
    py_version="py310",
    instance_type="{type}",
    instance_count=2,
    {more}
)
estimator.fit({{"train": "s3://my-bucket/train"}})
"""


@pytest.fixture(autouse=True)
def code(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")


def imported(place: Path, name: str, text: str, **options: object) -> ImportedJob:
    file = place / name
    file.write_text(text, "utf-8")
    chosen = {"line": None, "folder": place, "answers": (), **options}
    return import_job(str(file), Clients(), "us-west-2", **chosen)  # type: ignore[arg-type]


def found(job: ImportedJob) -> dict[str, int]:
    return {each.code: each.location.line for each in job.findings if each.location is not None}


def test_a_library_that_does_not_run_on_the_type_is_found_at_its_line(tmp_path: Path) -> None:
    more = 'distribution={"smdistributed": {"dataparallel": {"enabled": True}}},'
    job = imported(tmp_path, "start.py", SDK.format(type="ml.g5.12xlarge", more=more))
    assert found(job)["DIST002"] == 8


def test_several_hosts_without_a_distribution_are_found(tmp_path: Path) -> None:
    job = imported(tmp_path, "start.py", SDK.format(type="ml.p4d.24xlarge", more=""))
    assert found(job)["DIST001"] == 8


def test_debugger_beside_checkpoints_is_judged_and_not_written(tmp_path: Path) -> None:
    more = 'distribution={"torch_distributed": {"enabled": True}}, checkpoint_s3_uri="s3://my-bucket/c",'
    job = imported(tmp_path, "start.py", SDK.format(type="ml.p4d.24xlarge", more=more))
    assert "DBG001" in found(job)
    assert "debugger" not in job.draft.data()
    off = imported(
        tmp_path,
        "other.py",
        SDK.format(type="ml.p4d.24xlarge", more=more[:-1] + ", debugger_hook_config=False"),
    )
    assert "DBG001" not in found(off)


def test_spot_without_checkpoints_is_found(tmp_path: Path) -> None:
    more = "use_spot_instances=True, max_wait=90000,"
    job = imported(tmp_path, "start.py", SDK.format(type="ml.p4d.24xlarge", more=more))
    assert found(job)["CKPT006"] == 10


def test_what_depends_on_an_open_field_is_not_judged(tmp_path: Path) -> None:
    job = imported(tmp_path, "start.py", SDK.format(type="ml.p4d.24xlarge", more="distribution=load(),"))
    assert "DIST001" not in found(job)
    assert [each.path for each in job.draft.questions] == [("distribution", "strategy")]


def test_an_answer_takes_a_question_away_and_is_judged(tmp_path: Path) -> None:
    text = "#SBATCH --nodes=2\nexport FI_EFA_FORK_SAFE=1\nsrun torchrun --nproc_per_node 8 src/train.py\n"
    answers = ["resources.instance_type=ml.p4d.24xlarge", "framework.version=2.8.0"]
    job = imported(tmp_path, "a.sbatch", text, answers=answers)
    assert job.draft.questions == ()
    assert job.draft.data()["resources"]["instance_type"] == "ml.p4d.24xlarge"
    assert found(job)["NCCL001"] == 2


def test_the_codes_folder_is_told_from_the_job_files(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    text = SDK.format(type="ml.p4d.24xlarge", more="")
    job = imported(tmp_path, "start.py", text, folder=tmp_path / "jobs")
    assert job.draft.data()["code"]["source_dir"] == "../src"


def test_a_module_is_looked_for_in_the_folders_above_the_batch_script(tmp_path: Path) -> None:
    for place in (".git", "code", "jobs"):
        (tmp_path / place).mkdir()
    (tmp_path / "code" / "run.py").write_text("print(1)\n")
    text = "#SBATCH --nodes=1\nsrun torchrun --nproc_per_node 8 -m code.run\n"
    job = imported(tmp_path / "jobs", "a.sbatch", text, folder=tmp_path)
    assert job.draft.data()["code"] == {"module": "code.run", "source_dir": "."}


def test_a_notebook_is_told_by_its_cells(tmp_path: Path) -> None:
    cells = [{"cell_type": "markdown", "source": "# a"}]
    cells += [{"cell_type": "code", "source": SDK.format(type="ml.g5.xlarge", more="distribution=f(),")}]
    job = imported(tmp_path, "start.ipynb", json.dumps({"cells": cells}))
    assert "# TODO cell 2 line 10: how are its processes started?" in " ".join(job.text.split())


def test_a_description_is_a_request(tmp_path: Path) -> None:
    text = json.dumps(GOLDEN["torchrun-p4d"]["request"]).replace("BUCKET", "bucket").replace("JOBNAME", "g")
    described = json.loads(text) | {"TrainingJobStatus": "Completed", "BillableTimeInSeconds": 7}
    job = imported(tmp_path, "job.json", json.dumps(described))
    assert job.draft.data()["distribution"] == {"strategy": "torchrun"}
    assert job.draft.data()["region"] == "us-west-2"
    assert "Left out" not in job.draft.origin


def test_several_jobs_are_chosen_from_by_line(tmp_path: Path) -> None:
    one = SDK.format(type="ml.g5.xlarge", more="")
    with pytest.raises(Refusal, match="has 2 jobs: PyTorch in line 2, PyTorch in line 14"):
        imported(tmp_path, "start.py", one + one)
    job = imported(tmp_path, "start.py", one + one.replace("ml.g5.xlarge", "ml.g6.xlarge"), line="14")
    assert job.draft.data()["resources"]["instance_type"] == "ml.g6.xlarge"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "hello", "is no source of a job"),
        ("a.json", "[1]", "is no source of a job"),
        ("a.py", "print(1)", "makes no estimator and no trainer"),
        ("a.py", "def", "cannot be read as Python"),
        ("a.ipynb", "{}", "is no notebook"),
        ("a.sbatch", "#SBATCH -N 1\nhostname\n", "starts no training"),
    ],
)
def test_what_is_no_source_is_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=said):
        imported(tmp_path, name, text)

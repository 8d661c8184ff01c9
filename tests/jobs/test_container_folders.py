"""The folders that a job file may name are those that the boot has, one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.container_folders import folders_of
from launcher.jobs.load import load_job
from slipway.container import Container
from slipway.sagemaker_variables import folders

WHERE_THE_NAME_IS = "/opt/ml/input/data/checkpoints/job"


@pytest.mark.parametrize("channels", [(), ("train", "my-eval")])
def test_what_a_plan_takes_for_a_folder_is_what_the_boot_puts_in(
    write_job: Callable[..., Path], channels: tuple[str, ...]
) -> None:
    job = load_job(write_job(inputs=dict.fromkeys(channels, "s3://my-bucket/data"))).spec
    assert job is not None
    container = Container(
        root=Path("/opt/ml"),
        hosts=("algo-1",),
        current_host="algo-1",
        instance_type="ml.g5.xlarge",
        interface="eth0",
        hyperparameters={},
        input_data_config={name: {} for name in (*channels, "code")},
        resource_config={},
    )
    assert folders_of(job) == folders(container, {})
    elsewhere = {"SLIPWAY_CHECKPOINT_DIR": WHERE_THE_NAME_IS}
    assert folders_of(job, WHERE_THE_NAME_IS) == folders(container, elsewhere)

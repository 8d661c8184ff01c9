"""A plan's request, built by the SageMaker SDK's ModelTrainer: `model_trainer.py REQUEST.json SOURCE_DIR`.

The dry run of ModelTrainer uploads the code, looks for the bucket and asks about the role. Here it reaches
nothing and waits for nothing, to its advantage: what it sends to AWS is answered in this process, its look
at the role's policies is left out, and its telemetry is off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from sagemaker.core.helper.session_helper import Session
from sagemaker.train import ModelTrainer, configs, distributed, model_trainer

ANSWER = b"""<?xml version="1.0"?><ListAllMyBucketsResult><Buckets><Bucket><Name>placeholder</Name>
<CreationDate>2026-01-01T00:00:00Z</CreationDate></Bucket></Buckets></ListAllMyBucketsResult>"""
"""ListBuckets, which must know the default bucket; of the other answers the SDK reads no more than 200."""

DEFAULTS = {
    "SchemaVersion": "1.0",
    "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}},
}


class _Body:
    """The body of an answer, as botocore reads it."""

    def stream(self) -> Iterator[bytes]:
        yield ANSWER


def build(request: dict[str, Any], source_dir: str) -> None:
    """Let ModelTrainer build the request, up to where it would create the job.

    Raises:
        Exception: any of the SDK's, where it refuses what it was given.
    """
    aws = boto3.Session("nobody", "nothing", region_name="us-east-1")
    aws.events.register("before-send", lambda **_: AWSResponse("", 200, {}, _Body()))
    model_trainer.TrainDefaults.get_role = lambda role, sagemaker_session: role
    resources, checkpoint = request["ResourceConfig"], request["CheckpointConfig"]
    trainer = ModelTrainer(
        training_image=request["AlgorithmSpecification"]["TrainingImage"],
        role=request["RoleArn"],
        base_job_name="digits-ddp",
        sagemaker_session=Session(boto_session=aws, default_bucket="placeholder", sagemaker_config=DEFAULTS),
        source_code=configs.SourceCode(source_dir=source_dir, entry_script="train.py"),
        compute=configs.Compute(
            instance_type=resources["InstanceType"],
            instance_count=resources["InstanceCount"],
            volume_size_in_gb=resources["VolumeSizeInGB"],
        ),
        distributed=distributed.Torchrun(process_count_per_node=2),
        hyperparameters=request["HyperParameters"],
        environment=request["Environment"],
        output_data_config=configs.OutputDataConfig(
            s3_output_path=request["OutputDataConfig"]["S3OutputPath"]
        ),
        checkpoint_config=configs.CheckpointConfig(
            s3_uri=checkpoint["S3Uri"], local_path=checkpoint["LocalPath"]
        ),
        stopping_condition=configs.StoppingCondition(
            max_runtime_in_seconds=request["StoppingCondition"]["MaxRuntimeInSeconds"]
        ),
    )
    trainer.train(dry_run=True)


if __name__ == "__main__":
    build(json.loads(Path(sys.argv[1]).read_text("utf-8")), sys.argv[2])

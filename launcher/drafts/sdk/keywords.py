"""What the SageMaker SDK's classes are given, by their keywords, and the fields of a job file for it.

Source: SageMaker SDK 2.257, sagemaker.estimator (EstimatorBase, Framework), sagemaker.pytorch, .huggingface,
.tensorflow; 3.27, sagemaker.train.model_trainer and sagemaker.core.training.configs.
"""

from __future__ import annotations

from collections.abc import Mapping

from launcher.drafts.job_draft import Path

POSITIONS: Mapping[str, tuple[str, ...]] = {
    "Estimator": ("image_uri", "role", "instance_count", "instance_type"),
    "PyTorch": ("entry_point", "framework_version", "py_version", "source_dir", "hyperparameters"),
    "HuggingFace": ("py_version", "entry_point", "transformers_version", "tensorflow_version"),
    "TensorFlow": ("py_version", "framework_version", "model_dir", "image_uri", "distribution"),
    "ModelTrainer": (),
}
"""The classes that are read, and the keywords that their first arguments stand for."""

TUNER_POSITIONS = (
    "estimator", "objective_metric_name", "hyperparameter_ranges", "metric_definitions", "strategy",
    "objective_type", "max_jobs", "max_parallel_jobs",
)  # fmt: skip
"""The first arguments of HyperparameterTuner; what version 3 calls model_trainer is the first there, too."""

OTHER_CLASSES = ("SKLearn", "XGBoost", "MXNet", "Chainer", "RLEstimator", "JumpStartEstimator", "Processor")
"""Classes of the SDK that start something else, to name them where nothing else is there."""

FORMER_NAMES = {
    "train_instance_count": "instance_count",
    "train_instance_type": "instance_type",
    "train_volume_size": "volume_size",
    "train_max_run": "max_run",
    "train_max_wait": "max_wait",
    "train_use_spot_instances": "use_spot_instances",
    "image_name": "image_uri",
    "distributions": "distribution",
    "image": "image_uri",
    "model_trainer": "estimator",
}
"""The names of the SDK version 1, by those of version 2 (sagemaker.cli.compatibility.v2)."""

PLAIN_FIELDS: Mapping[str, tuple[Path, type | tuple[type, ...], str]] = {
    "instance_count": (("resources", "instance_count"), int, "how many hosts?"),
    "volume_size": (("resources", "volume_size_gb"), int, "how large is the volume, in GB?"),
    "keep_alive_period_in_seconds": (("resources", "keep_alive"), int, "how long is a warm pool kept?"),
    "max_run": (("limits", "max_runtime"), int, "how long may it run, in seconds?"),
    "max_retry_attempts": (("limits", "max_retries"), int, "how many retries?"),
    "checkpoint_local_path": (("checkpoint", "local_path"), str, "where does the script write checkpoints?"),
    "encrypt_inter_container_traffic": (("network", "encryption"), bool, "is what hosts send encrypted?"),
    "enable_network_isolation": (("network", "isolation"), bool, "are the containers isolated?"),
    "enable_infra_check": (("resources", "infra_check"), bool, "are the hosts tested first?"),
    "enable_remote_debug": (("debug", "remote"), bool, "may a shell be opened in the containers?"),
    "subnets": (("network", "subnets"), list, "which subnets?"),
    "security_group_ids": (("network", "security_group_ids"), list, "which security groups?"),
}
"""Keywords whose value is a field's: its path, its type, and the question where it is open."""

OTHER_PATHS: Mapping[str, Path] = {
    "instance_type": ("resources", "instance_type"),
    "use_spot_instances": ("resources", "capacity"),
    "training_plan": ("resources", "capacity"),
    "max_wait": ("limits", "max_wait"),
    "role": ("role_arn",),
    "base_job_name": ("name",),
    "image_uri": ("image",),
    "training_image": ("image",),
    "framework_version": ("framework", "version"),
    "pytorch_version": ("framework", "version"),
    "tensorflow_version": ("framework", "version"),
    "py_version": ("framework", "python"),
    "entry_point": ("code", "entry_point"),
    "source_dir": ("code", "source_dir"),
    "source_code": ("code", "entry_point"),
    "distribution": ("distribution", "strategy"),
    "distributed": ("distribution", "strategy"),
    "compiler_config": ("distribution", "strategy"),
    "hyperparameters": ("hyperparameters",),
    "environment": ("environment",),
    "metric_definitions": ("metrics",),
    "tags": ("tags",),
    "output_path": ("output", "s3_uri"),
    "output_data_config": ("output", "s3_uri"),
    "checkpoint_s3_uri": ("checkpoint", "s3_uri"),
    "checkpoint_config": ("checkpoint", "s3_uri"),
    "compute": ("resources", "instance_type"),
    "networking": ("network", "subnets"),
    "stopping_condition": ("limits", "max_runtime"),
    "input_mode": ("inputs",),
    "input_data_config": ("inputs",),
}
"""The fields of the other keywords, for where it is open whether they are given."""

WITHOUT_WORDS = frozenset(
    {
        "dependencies", "git_config", "model_uri", "model_channel_name", "tensorboard_output_config",
        "profiler_config", "rules", "output_kms_key", "volume_kms_key", "instance_groups",
        "training_repository_access_mode", "training_repository_credentials_provider_arn",
        "container_entry_point", "container_arguments", "enable_session_tag_chaining", "algorithm_name",
        "training_image_config", "model_package_config", "training_recipe", "recipe_overrides",
    }
)  # fmt: skip
"""Keywords of which a job file has no words."""

"""Credentials in what everyone can read, secrets, isolation, encryption, and the regions of others.

SPEC005 (all credentials are invented), IAM002, NET001, NET002, S3001 and SPEC003.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

KEY_ID = "AKIA" + "IOSFODNN7EXAMPLE"
TEXT = "wJalrXUtnFEMI/K7MDENG"


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        pytest.param("X", KEY_ID, True, id="an access key id by its form"),
        pytest.param("X", "ASIA" + KEY_ID[4:], True, id="a temporary one"),
        pytest.param("X", KEY_ID[:-1], False, id="one character short"),
        pytest.param("X", "-----BEGIN RSA PRIVATE KEY-----\nMII", True, id="a private key"),
        pytest.param("X", "-----BEGIN CERTIFICATE-----\nMII", False, id="a certificate"),
        pytest.param("X", "ghp_" + "a" * 36, True, id="GitHub"),
        pytest.param("X", "hf_" + "a" * 34, True, id="Hugging Face"),
        pytest.param("X", "xoxb-1234567890-abc", True, id="Slack"),
        pytest.param("X", "nvapi-" + "a" * 64, True, id="NVIDIA"),
        pytest.param("X", "https://me:pass@host/x", True, id="password in a URL"),
        pytest.param("X", "https://host:8080/x", False, id="port in a URL"),
        pytest.param("AWS_SECRET_ACCESS_KEY", TEXT, True, id="secret key by its name"),
        pytest.param("AWS_ACCESS_KEY_ID", TEXT, True, id="key id by its name"),
        pytest.param("AWS_SESSION_TOKEN", TEXT, True, id="session token by its name"),
        pytest.param("HF_TOKEN", TEXT, True, id="a hub's token by its name"),
        pytest.param("hub-token", TEXT, True, id="with a hyphen"),
        pytest.param("WANDB_API_KEY", TEXT, True, id="an API key by its name"),
        pytest.param("db.password", "correct horse", True, id="a password by its name"),
        pytest.param("password", "1234567", False, id="too short to be one"),
        pytest.param("password", "abcdefg", False, id="seven letters"),
        pytest.param("password", "abcdefgh", True, id="eight letters"),
        pytest.param("SNOWFLAKE_PWD", "correct horse", True, id="a password, short"),
        pytest.param("DB_PASS", "correct horse", True, id="a database's"),
        pytest.param("KAGGLE_KEY", TEXT, True, id="a key of a service"),
        pytest.param("primary_key", "customer_id", False, id="a key of a table"),
        pytest.param(
            "ALERTS",
            "https://hooks.slack.com/services/T0000/B0000/abcdefghijklmnopqrst",
            True,
            id="a webhook",
        ),
        pytest.param("first_pass", "warm-up-only", False, id="a pass over data"),
        pytest.param("pad_token", "<|endoftext|>", False, id="a token of text"),
        pytest.param("eos_token", "end-of-sequence", False, id="another one"),
        pytest.param("max_tokens", "123456789", False, id="a number of tokens"),
        pytest.param("use_auth_token", "true", False, id="a switch"),
        pytest.param(
            "API_KEY", "arn:aws:secretsmanager:us-west-2:1:secret:a", False, id="where the secret is kept"
        ),
        pytest.param("private_key", "/opt/ml/input/data/keys/id.pem", False, id="a file's path"),
        pytest.param("learning_rate", "0.000012345", False, id="nothing of the kind"),
    ],
)
def test_what_looks_like_a_credential(judge, name: str, value: str, found: bool) -> None:
    for section in ("environment", "hyperparameters"):
        findings = judge("SPEC005", **{section: {name: value}})
        assert bool(findings) is found
        for finding in findings:
            assert finding.severity == "error"
            assert finding.subject == f"{section}.{name}"
            assert finding.location is not None


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({"environment": {"AWS_SECRET_ACCESS_KEY": TEXT}}, id="by name"),
        pytest.param({"environment": {"X": f"AWS_SECRET_ACCESS_KEY={TEXT}"}}, id="an assignment"),
        pytest.param({"environment": {"X": f"id {KEY_ID} {TEXT}"}}, id="amid other text"),
        pytest.param({"hyperparameters": {KEY_ID: TEXT}}, id="in a name"),
        pytest.param({"hyperparameters": {"hub": {"auth": [{"token": TEXT}]}}}, id="deep inside"),
        pytest.param(
            {
                "code_section": {
                    "source_dir": "src",
                    "entry_point": "train.py",
                    "arguments": ["--token", TEXT],
                }
            },
            id="an argument",
        ),
        pytest.param(
            {"code_section": {"source_dir": "src", "entry_point": "train.py", "arguments": [KEY_ID]}},
            id="an argument without a name",
        ),
    ],
)
def test_the_value_is_never_shown(judge, job: dict) -> None:
    findings = judge("SPEC005", **job)
    assert len(findings) == 1
    shown = str(findings[0].to_json())
    assert TEXT not in shown
    assert KEY_ID not in shown


def test_in_a_run_on_this_machine_it_is_a_warning(judge) -> None:
    (refused,) = judge("SPEC005", environment={"X": KEY_ID})
    (warned,) = judge("SPEC005", environment={"X": KEY_ID}, here=True)
    assert (refused.blocks, warned.blocks, warned.severity) == (True, False, "warning")
    assert KEY_ID not in warned.message


ARN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/hf-AbCdEf"
JOB = {"secrets": {"HF_TOKEN": "team/hf"}}


@pytest.mark.parametrize("known", [["team/hf"], ["other", ARN]])
def test_a_secret_of_the_cluster_is_fine(judge, manifest: dict[str, Any], known: list[str]) -> None:
    assert not judge("IAM002", manifest={**manifest, "secrets": known}, **JOB)


@pytest.mark.parametrize("known", [[], ["team/h"], [ARN.replace("hf", "wandb")]])
def test_another_one_is_warned_about(judge, manifest: dict[str, Any], known: list[str]) -> None:
    (found,) = judge("IAM002", manifest={**manifest, "secrets": known}, **JOB)
    assert (found.severity, found.subject) == ("warning", "secrets.HF_TOKEN")
    assert "team/hf is not among the secrets of the cluster dev" in found.message
    assert found.remedy == "Add team/hf to `secrets` of the cluster file and deploy."
    assert found.location is not None


def test_a_manifest_of_before_names_none(judge, manifest: dict[str, Any]) -> None:
    assert "secrets" not in manifest
    assert "(none)" in judge("IAM002", manifest=manifest, **JOB)[0].message


def test_another_role_no_cluster_and_a_run_here_are_not_judged(judge, manifest: dict[str, Any]) -> None:
    assert not judge("IAM002", manifest=manifest, role_arn="arn:aws:iam::111122223333:role/mine", **JOB)
    assert not judge("IAM002", **JOB)
    assert not judge("IAM002", manifest=manifest, here=True, **JOB)


ISOLATED = {"network": {"isolation": True}}
ENCRYPTED = {"network": {"encryption": True}}
P4D = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
TUNING = {
    "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
    "ranges": {"lr": {"min": 0.1, "max": 0.2}},
    "max_jobs": 2,
}
MLFLOW = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/team"


def test_a_job_that_gets_all_through_channels_may_be_isolated(judge) -> None:
    given: dict[str, Any] = {
        "inputs": {"train": {"s3_uri": "s3://team/train", "mode": "FastFile"}},
        "checkpoint": {"s3_uri": "s3://team/checkpoints"},
        "resources": P4D,
        "distribution": {"strategy": "torchrun"},
    }
    assert judge("NET001", **given, **ISOLATED) == []


@pytest.mark.parametrize(
    ("fields", "subject"),
    [
        ({"secrets": {"HF_TOKEN": "team/hf"}}, "secrets"),
        ({"checkpoint": {"s3_uri": "s3://team/c", "sync": "slipway"}}, "checkpoint.sync"),
        ({"debug": {"remote": True}}, "debug.remote"),
        ({"mlflow": {"arn": MLFLOW}}, "mlflow"),
        ({"tuning": TUNING}, "network.isolation"),
        ({"distribution": {"strategy": "mpi"}, "resources": P4D}, "network.isolation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_isolated_container_cannot_do_is_an_error_at_its_field(
    judge, fields: dict[str, Any], subject: str
) -> None:
    assert judge("NET001", **fields) == []
    (finding,) = judge("NET001", **fields, **ISOLATED)
    assert (finding.severity, finding.subject) == ("error", subject)
    assert judge("NET001", here=True, **fields, **ISOLATED) == []


@pytest.mark.parametrize(
    ("requirements", "found"),
    [
        ("tinydb\n", ["warning"]),
        ("--no-index\n--find-links ./wheels\ntinydb\n", []),
        ("# nothing\n", []),
    ],
)
def test_packages_from_an_index_are_warned_of(
    judge, tmp_path: Path, requirements: str, found: list[str]
) -> None:
    (tmp_path / "src").mkdir(exist_ok=True)
    (tmp_path / "src" / "wheels").mkdir()
    (tmp_path / "src" / "requirements.txt").write_text(requirements)
    findings = judge("NET001", **ISOLATED)
    assert [(each.severity, each.subject) for each in findings] == [
        (severity, "code.requirements") for severity in found
    ]


def test_several_hosts_are_told_the_price_of_encryption(judge) -> None:
    assert judge("NET002", resources=P4D) == []
    (finding,) = judge("NET002", resources=P4D, **ENCRYPTED)
    assert (finding.severity, finding.subject) == ("warning", "network.encryption")
    assert "2 hosts encrypt" in finding.message
    assert "AWS does not say whether its traffic is encrypted" in finding.message
    without_efa = {"instance_type": "ml.m5.xlarge", "instance_count": 2}
    (finding,) = judge("NET002", resources=without_efa, **ENCRYPTED)
    assert "EFA" not in finding.message


def test_one_host_has_nothing_to_encrypt(severity_of) -> None:
    one = {"instance_type": "ml.p4d.24xlarge"}
    assert severity_of("NET002", resources=one, **ENCRYPTED) == "info"


def test_encryption_wants_a_network_of_ones_own(judge) -> None:
    assert judge("SPEC004", resources=P4D, **ENCRYPTED) != []
    own = {"subnets": ["subnet-0123456789abcdef0"], "security_group_ids": ["sg-0123456789abcdef0"]}
    assert judge("SPEC004", resources=P4D, network={**own, "encryption": True}) == []
    assert judge("SPEC004", here=True, resources=P4D, **ENCRYPTED) == []


@pytest.mark.parametrize(
    ("region", "found"),
    [
        pytest.param(None, None, id="the cluster's, as none is given"),
        pytest.param("us-west-2", None, id="the cluster's"),
        pytest.param("us-east-1", "error", id="another one"),
    ],
)
def test_a_job_runs_in_the_region_of_its_cluster(
    severity_of, manifest: dict, region: str | None, found: str | None
) -> None:
    assert severity_of("S3001", manifest=manifest, cluster="dev", region=region) == found


def test_both_regions_are_named(judge, manifest: dict) -> None:
    (finding,) = judge("S3001", manifest=manifest, cluster="dev", region="us-east-1")
    assert "us-east-1" in finding.message and "cluster dev are in us-west-2" in finding.message


def test_without_a_cluster_any_region_will_do(severity_of) -> None:
    assert severity_of("S3001", region="us-east-1", output={"s3_uri": "s3://mine/out"}) is None


@pytest.mark.parametrize(
    ("role", "region", "found"),
    [
        ("arn:aws:iam::111122223333:role/Train", "us-gov-west-1", "error"),
        ("arn:aws-us-gov:iam::111122223333:role/Train", "us-west-2", "error"),
        ("arn:aws-cn:iam::111122223333:role/service-role/Train", "cn-north-1", None),
        ("arn:aws-us-gov:iam::111122223333:role/Train", "us-gov-east-1", None),
        ("arn:aws:iam::111122223333:role/aws-service-role/sagemaker.amazonaws.com/Any", "eu-west-1", "error"),
        ("arn:aws:iam::111122223333:role/service-role/AmazonSageMaker-ExecutionRole", "eu-west-1", None),
        (None, "us-west-2", None),
    ],
)
def test_a_role_that_no_job_of_the_region_can_have(
    severity_of, role: str | None, region: str, found: str | None
) -> None:
    assert severity_of("IAM001", role_arn=role, region=region, output={"s3_uri": "s3://mine/out"}) == found


@pytest.mark.parametrize(("region", "found"), [("us-west-2", None), ("eu-west-1", "warning")])
def test_mlflow_of_another_region_is_warned_of(severity_of, region: str, found: str | None) -> None:
    arn = f"arn:aws:sagemaker:{region}:111122223333:mlflow-app/team"
    assert severity_of("SPEC003", mlflow={"arn": arn}) == found


DEFAULT = "sagemaker-{}-111122223333"


@pytest.mark.parametrize(
    ("bucket", "found"),
    [
        pytest.param(DEFAULT.format("us-east-1"), "warning", id="the default bucket of another region"),
        pytest.param(DEFAULT.format("us-west-2"), None, id="that of the job's region"),
        pytest.param("cdk-hnb659fds-assets-111122223333-eu-west-1", "warning", id="the region at the end"),
        pytest.param("acme-111122223333-ap-southeast-2-an", "warning", id="of an account's namespace"),
        pytest.param("acme-us-east-1-replica", None, id="a region that says what is copied"),
        pytest.param("acme-us-east-1", None, id="a region without an account"),
    ],
)
def test_buckets_that_name_their_region(severity_of, bucket: str, found: str | None) -> None:
    places = (
        {"inputs": {"train": f"s3://{bucket}/train"}},
        {"output": {"s3_uri": f"s3://{bucket}/out"}},
        {"checkpoint": {"s3_uri": f"s3://{bucket}/checkpoints"}},
    )
    for place in places:
        assert severity_of("S3001", region="us-west-2", **place) == found


def test_a_network_has_subnets_and_groups(judge) -> None:
    subnets, groups = {"subnets": ["subnet-0a"]}, {"security_group_ids": ["sg-0a"]}
    for half in (subnets, groups):
        (finding,) = judge("SPEC004", network=half, cluster=None)
        assert "outside of it" in finding.message
        assert judge("SPEC004", network=half, cluster="dev") == []
    assert judge("SPEC004", network={**subnets, **groups}, cluster=None) == []


@pytest.mark.parametrize(
    ("script", "found"),
    [
        pytest.param("import boto3\nboto3.client('s3')\n", True, id="AWS"),
        pytest.param("import wandb\nwandb.init(project='x')\n", True, id="a tracker"),
        pytest.param("import wandb\nif rank == 0:\n    wandb.init()\n", True, id="by one rank"),
        pytest.param("import wandb\nif args.track:\n    wandb.init()\n", False, id="where it is asked for"),
        pytest.param("import wandb\nwandb.init(mode='offline')  # WANDB_MODE\n", False, id="offline"),
        pytest.param(
            "from transformers import AutoModel\nAutoModel.from_pretrained('gpt2')\n", True, id="a hub"
        ),
        pytest.param(
            "from transformers import AutoModel\nAutoModel.from_pretrained('/opt/ml/input/data/model')\n",
            False,
            id="a folder",
        ),
        pytest.param(
            "from transformers import AutoModel\nAutoModel.from_pretrained('gpt2', local_files_only=True)\n",
            False,
            id="what is here alone",
        ),
        pytest.param("from datasets import load_dataset\nload_dataset('json')\n", False, id="files"),
        pytest.param(
            "import torchvision\ntorchvision.datasets.MNIST('d', download=True)\n", True, id="a download"
        ),
        pytest.param("import torchvision\ntorchvision.datasets.MNIST('d')\n", False, id="no download"),
        pytest.param("import os\nos.system('pip install einops')\n", True, id="pip"),
        pytest.param("import os\nos.system('nvidia-smi')\n", False, id="another command"),
        pytest.param(
            "import boto3\ntry:\n    boto3.client('s3')\nexcept Exception:\n    pass\n", False, id="a try"
        ),
    ],
)
def test_what_an_isolated_script_asks_of_others(judge, script: str, found: bool) -> None:
    files = {"src/train.py": script}
    assert bool(judge("NET001", network={"isolation": True}, files=files)) is found
    assert judge("NET001", files=files) == []


ONE = {"resources": {"instance_type": "ml.g5.12xlarge"}}
TWO = {"resources": {"instance_type": "ml.g5.12xlarge", "instance_count": 2}}
NONE = {"distribution": {"strategy": "none"}}
BY_TORCH = "import torch\nloss = torch.nn.Linear(1, 1)(torch.ones(1))\nloss.backward()\n"
BY_JAX = "import jax\nstep = jax.grad(lambda w: w * w)\n"
BY_KERAS = "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.compile('sgd')\nmodel.fit([1])\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (BY_TORCH, "Set `distribution: {strategy: torchrun}`. PyTorch: call"),
        (BY_JAX, "JAX: call jax.distributed.initialize()"),
        (BY_KERAS, "TensorFlow: make a tf.distribute.MultiWorkerMirroredStrategy()"),
    ],
)
def test_hosts_that_each_train_alone_are_told_how_to_meet(judge, script: str, words: str) -> None:
    (found,) = judge("DIST008", files={"src/train.py": script}, **NONE, **TWO)
    assert "each of the 2 hosts would train a whole model for itself" in found.message
    assert f"let them meet. {words}" in found.remedy


SHARDS = {"data": {"s3_uri": "s3://bucket/data", "distribution": "ShardedByS3Key"}}


@pytest.mark.parametrize(
    ("script", "fields"),
    [
        pytest.param(BY_TORCH, {**NONE, **TWO, "inputs": SHARDS}, id="each has its part"),
        pytest.param(BY_TORCH, {**NONE, **ONE}, id="one host"),
        pytest.param(f"{BY_TORCH}me = os.environ['SM_CURRENT_HOST']\n", {**NONE, **TWO}, id="knows hosts"),
        pytest.param("import torch\ntorch.distributed.init_process_group()\n", {**NONE, **TWO}, id="joins"),
        pytest.param("print('no training')\n", {**NONE, **TWO}, id="does not train"),
    ],
)
def test_others_need_not_meet(judge, script: str, fields: dict) -> None:
    assert judge("DIST008", files={"src/train.py": script}, **fields) == []


MIRRORED = (
    "import argparse, json, os, socket\nimport tensorflow as tf\nparser = argparse.ArgumentParser()\n"
    "{said}\nargs = parser.parse_args()\nstrategy = tf.distribute.MirroredStrategy()\n"
    "with strategy.scope():\n    model = tf.keras.Sequential()\n"
    "model.compile('sgd')\nmodel.fit([1])\n{then}\n"
)
OF_HOST = "parser.add_argument('--hosts', default=os.environ['SM_HOSTS'])"


@pytest.mark.parametrize(
    ("said", "then", "found"),
    [
        pytest.param("", "", True, id="knows of no hosts"),
        pytest.param(OF_HOST, "", True, id="an option that nobody reads"),
        pytest.param("print(socket.gethostname(), os.environ['SM_CURRENT_HOST'])", "", True, id="shown"),
        pytest.param("# TF_CONFIG is for MultiWorkerMirroredStrategy", "", True, id="a comment"),
        pytest.param("import logging", "logging.info('%s', os.environ['SM_HOSTS'])", True, id="logged"),
        pytest.param(OF_HOST, "json.loads(args.hosts)", False, id="an option that is read"),
        pytest.param(OF_HOST, "vars(args)['hosts']", False, id="an option that is read as an entry"),
        pytest.param("hosts = json.loads(os.environ['SM_HOSTS'])", "", False, id="hosts are asked for"),
        pytest.param("os.environ['TF_CONFIG'] = '{}'", "", False, id="hosts are told of each other"),
        pytest.param("s = tf.distribute.MultiWorkerMirroredStrategy()", "", False, id="another strategy"),
        pytest.param("import horovod.tensorflow as hvd\nhvd.init()", "", False, id="another library"),
    ],
)
def test_a_strategy_of_one_host_does_not_span_two(judge, said: str, then: str, found: bool) -> None:
    files = {"src/train.py": MIRRORED.format(said=said, then=then)}
    assert bool(judge("DIST008", files=files, **NONE, **TWO)) is found
    assert judge("DIST008", files=files, **NONE, **ONE) == []


BY_SHELL = {"code_section": {"source_dir": "src", "entry_point": "run.sh"}, **NONE}


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ("torchrun --standalone --nproc_per_node 4 train.py", "for one host alone"),
        ("torchrun --nproc_per_node=4 train.py", "without --nnodes"),
        ("python -m torch.distributed.run --nnodes=1 --nproc_per_node=4 train.py", "for one host alone"),
        ("torchrun --nnodes $SM_HOST_COUNT --nproc_per_node=4 train.py", None),
        ('torchrun "$@"', None),
        ("ranks=(--nnodes 2)\ntorchrun ${ranks[@]} train.py", None),
        ("python train.py", None),
    ],
)
def test_torchrun_in_a_shell_script_is_told_of_the_other_hosts(
    judge, commands: str, found: str | None
) -> None:
    files = {"src/run.sh": f"#!/bin/bash\n{commands}\n", "src/train.py": "import torch\n"}
    told = [each.message for each in judge("DIST008", files=files, **BY_SHELL, **TWO)]
    assert len(told) == (found is not None)
    assert found is None or f"run.sh starts torchrun {found} on each of the 2 hosts" in told[0]
    assert judge("DIST008", files=files, **BY_SHELL, **ONE) == []

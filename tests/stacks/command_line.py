"""The real command lines, the CDK's and Slipway's, against a moto server, and the account that they leave."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

from launcher.account.network import NetworkState
from launcher.cluster.files import load_cluster_file
from launcher.cluster.manifest import Cluster
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.traffic import SecurityGroup
from tests.account.read_back import read_network

ROOT = Path(__file__).parents[2]
CDK = ROOT / "node_modules" / ".bin" / "cdk"
ACCOUNT, REGION = "123456789012", "us-west-2"
# moto takes a template's address for one of its own only where the bucket's name holds this word.
QUALIFIER = "localhost"


class Account:
    """moto's account, and a cluster file that is deployed into it."""

    def __init__(self, endpoint: str, file: Path, folder: Path) -> None:
        self.endpoint, self.file, self.folder = endpoint, file, folder
        self.bootstrap()

    @property
    def spec(self) -> ClusterSpec:
        """The file as it is now."""
        return load_cluster_file(self.file)

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def manifest(self) -> Cluster:
        answer = self.client("ssm").get_parameter(Name=f"/slipway/clusters/{self.spec.name}")
        return Cluster.model_validate_json(answer["Parameter"]["Value"])

    def network(self) -> NetworkState:
        manifest = self.manifest()
        groups = [
            *manifest.security_group_ids,
            *([manifest.lustre.security_group_id] if manifest.lustre else []),
        ]
        return read_network(self.client("ec2"), [each.id for each in manifest.subnets], groups)

    def security_group(self, group_id: str) -> SecurityGroup:
        found = self.network().group(group_id)
        assert found is not None
        return found

    def bootstrap(self) -> None:
        """What `cdk bootstrap` leaves behind, as far as a deployment looks at it."""
        self.client("ssm").put_parameter(
            Name=f"/cdk-bootstrap/{QUALIFIER}/version", Value="30", Type="String", Overwrite=True
        )
        self.client("s3").create_bucket(
            Bucket=f"cdk-{QUALIFIER}-assets-{ACCOUNT}-{REGION}",
            CreateBucketConfiguration={"LocationConstraint": REGION},
        )

    def deploy(self) -> subprocess.CompletedProcess[str]:
        """`cdk deploy --all`."""
        return self.cdk("deploy", "--method", "direct", "--require-approval", "never")

    def destroy(self) -> subprocess.CompletedProcess[str]:
        """`cdk destroy --all --force`."""
        return self.cdk("destroy", "--force")

    def cdk(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the command line on all stacks of the cluster."""
        if not CDK.exists():
            pytest.fail(f"{CDK} is missing: run `npm ci`, which installs the AWS CDK command line")
        words = [
            str(CDK), command, "--all", *options,
            "--output", str(self.folder / "cdk.out"), "--context", f"cluster={self.file}",
            "--context", f"@aws-cdk/core:bootstrapQualifier={QUALIFIER}",
        ]  # fmt: skip
        return self._run(words)

    def launch(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `launch` with some words."""
        return self._run([sys.executable, "-c", "from launcher.cli.app import main; main()", *words])

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.defpath]),
            "HOME": str(self.folder),
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            # That a deployment is validated has a test of its own; here it would be half of the time.
            "CDK_VALIDATION": "false",
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": os.environ["JSII_RUNTIME_PACKAGE_CACHE_ROOT"],
        }
        return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)

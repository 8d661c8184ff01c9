"""What stands in a plan for what only a cluster or an account knows: recognisable, and never sent."""

from __future__ import annotations

from launcher.cluster.manifest import Lustre

PLACEHOLDER_ACCOUNT = "000000000000"
PLACEHOLDER_BUCKET = "placeholder"
PLACEHOLDER_REGION = "us-east-1"
PLACEHOLDER_CODE = "0" * 64
"""The digest of code that cannot be packed; a submission refuses it."""
PLACEHOLDER_LUSTRE = Lustre(
    id="fs-00000000000000000",
    mount_name="placeholder",
    subnet_id="subnet-00000000000000000",
    availability_zone="placeholder",
    security_group_id="sg-00000000000000000",
)

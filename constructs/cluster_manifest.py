"""The cluster manifest: the one parameter from which the launcher learns what is provisioned."""

from __future__ import annotations

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from launcher.cluster.manifest import Cluster, manifest_parameter_name


class ClusterManifest(Construct):
    """The SSM parameter `/slipway/clusters/NAME` with the JSON of a `Cluster`.

    The ids are tokens at synthesis; CloudFormation fills them in when it creates the parameter. The
    JSON is made from the model itself, so writer and reader cannot disagree about its shape.

    Attributes:
        parameter_name: the name of the parameter.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: Cluster) -> None:
        """Create the parameter.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster: the manifest; its strings may hold tokens.
        """
        super().__init__(scope, id)
        self.parameter_name = manifest_parameter_name(cluster.name)
        ssm.StringParameter(
            self,
            "Parameter",
            parameter_name=self.parameter_name,
            description=f"What Slipway provisioned as cluster {cluster.name}",
            string_value=cluster.model_dump_json(),
        )

"""The cluster manifest: the one parameter from which the launcher learns what is provisioned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_ssm as ssm
from constructs import Construct

from launcher.cluster.manifest import Cluster
from launcher.cluster.names import manifest_parameter_name
from launcher.cluster.updates import CLUSTER_FILE_METADATA


class ClusterManifest(Construct):
    """The SSM parameter `/slipway/clusters/NAME` with the JSON of a `Cluster`.

    The ids are tokens at synthesis; CloudFormation fills them in when it creates the parameter. The
    JSON is made from the model itself, so writer and reader cannot disagree about its shape.

    Attributes:
        parameter_name: the name of the parameter.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: Cluster,
        cluster_file: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the parameter.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster: the manifest; its strings may hold tokens.
            cluster_file: the cluster file that all of it came from, as plain data: it stands in the
                template beside the parameter, so that a later deployment can be compared with it.
        """
        super().__init__(scope, id)
        self.parameter_name = manifest_parameter_name(cluster.name)
        parameter = ssm.StringParameter(
            self,
            "Parameter",
            parameter_name=self.parameter_name,
            # 4,096 characters cost nothing; a manifest with many secrets is longer, and becomes an advanced
            # parameter, of up to 8 KB (Systems Manager user guide, parameter-store-advanced-parameters).
            tier=ssm.ParameterTier.INTELLIGENT_TIERING,
            description=f"What Slipway provisioned as cluster {cluster.name}",
            # Launchers that do not know such a field yet can use a cluster that has nothing to say in it.
            string_value=cluster.model_dump_json(
                exclude={
                    name for name in ("controller_arn", "hyperpod", "secrets") if not getattr(cluster, name)
                }
            ),
        )
        if cluster_file is not None:
            resource = parameter.node.default_child
            assert isinstance(resource, ssm.CfnParameter)
            # As text: of a mapping the CDK would leave out what is null.
            resource.add_metadata(CLUSTER_FILE_METADATA, json.dumps(dict(cluster_file)))

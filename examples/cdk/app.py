"""A team's own CDK app: its own VPC, with what distributed training needs in it, checked at synthesis."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_s3 as s3

from slipway_cdk import EfaSecurityGroup, S3Link, SlipwayChecks, TrainingFileSystem

app = cdk.App()
stack = cdk.Stack(app, "Research", env=cdk.Environment(region="us-west-2"))

vpc = ec2.Vpc(
    stack,
    "Vpc",
    availability_zones=["us-west-2a"],
    subnet_configuration=[
        ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=28),
        ec2.SubnetConfiguration(
            name="Training", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=22
        ),
    ],
)
data = s3.Bucket(stack, "Data", enforce_ssl=True)
hosts = EfaSecurityGroup(stack, "Hosts", vpc=vpc)
file_system = TrainingFileSystem(
    stack,
    "Lustre",
    vpc=vpc,
    subnet=vpc.private_subnets[0],
    clients=hosts,
    configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
        deployment_type="PERSISTENT_2", per_unit_storage_throughput=250, data_compression_type="LZ4"
    ),
    capacity_gib=4800,
    links=[S3Link("/data", f"s3://{data.bucket_name}/corpus", auto_import=["new"])],
    removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
)
cdk.CfnOutput(stack, "FileSystemId", value=file_system.file_system_id)
cdk.CfnOutput(stack, "MountName", value=file_system.mount_name)
cdk.CfnOutput(stack, "SecurityGroupId", value=hosts.security_group_id)

cdk.Validations.of(app).add_plugins(
    SlipwayChecks(app, efa_security_groups=[hosts], hosts={"ml.p5.48xlarge": 16})
)
app.synth()

"""FSx for Lustre, S3 and the role that reaches them."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Severity

LUSTRE_NOT_AVAILABLE = FailureMode(
    code="FSX001",
    title="file system not AVAILABLE",
    cause=(
        "A file system can be mounted only once its lifecycle is AVAILABLE (or UPDATING, which still "
        "serves). A job submitted while it is CREATING, or after it has FAILED or become MISCONFIGURED, "
        "starts its hosts and fails at the mount."
    ),
    remedy=(
        "Wait until the lifecycle is AVAILABLE; `launch` waits for CREATING with progress. FAILED, "
        "DELETING and MISCONFIGURED do not heal by waiting: read FailureDetails of "
        "`aws fsx describe-file-systems`, then fix or replace the file system."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.FILE_SYSTEM_API),
)

LUSTRE_IN_ANOTHER_ZONE = FailureMode(
    code="FSX002",
    title="file system in another zone than the job",
    cause=(
        "A Lustre file system lives in one subnet and so in one availability zone. A job placed in "
        "another zone fails to mount it, or reads every byte across zones, slower and billed for the "
        "transfer; EFA does not cross zones either."
    ),
    remedy=(
        "Give the job the file system's own subnet and no other in `network.subnets`, or create the file "
        "system in the zone where the instances are to be had."
    ),
    sources=(sources.FILE_SYSTEM_API, sources.TRAINING_DATA_ACCESS),
)

LUSTRE_PATH_OUTSIDE_MOUNT = FailureMode(
    code="FSX003",
    title="path is not below the file system's mount name",
    cause=(
        "In the request DirectoryPath must begin with `/<MountName>`, the name that FSx gave the file "
        "system (`fsx` or eight random characters). Any other path, or a job that wants Lustre on a "
        "cluster that has none, fails at the mount."
    ),
    remedy=(
        "Write paths in the job file from the root of the file system (`lustre: /train`): the plan puts "
        "the mount name before them. For the mount name see LustreConfiguration.MountName in "
        "`aws fsx describe-file-systems`."
    ),
    sources=(sources.TRAINING_DATA_ACCESS, sources.FILE_SYSTEM_API),
)

LUSTRE_PORTS_CLOSED = FailureMode(
    code="FSX004",
    title="Lustre ports closed between job and file system, or the two in different VPCs",
    cause=(
        "Lustre talks on TCP 988 and TCP 1018-1023, in both directions between the clients' security "
        "group and the file system's. With 988 alone, or 1021-1023 alone as some templates have it, the "
        "mount hangs or times out; without 988 the file system is not even created. A file system in "
        "another VPC is not reached at all, unless the VPCs are connected."
    ),
    remedy=(
        "Allow TCP 988 and TCP 1018-1023, in and out, between the job's group and the file system's group "
        "and within the latter. Make the file system depend on the rules, not only on the group. Place "
        "the job in the file system's VPC."
    ),
    sources=(sources.FSX_CREATION_FAILS, sources.FSX_ACCESS_CONTROL),
)

LUSTRE_MOUNT_FAILED = FailureMode(
    code="FSX005",
    title="mount failed",
    cause=(
        "The hosts could not mount the file system. 'Connection timed out' and 'Input/output error' mean "
        "that the ports are closed or the zone is another one; 'No such file or directory' and 'Invalid "
        "argument' a wrong mount name or a directory that does not exist."
    ),
    remedy=(
        "Run `launch check JOB.yaml --live` and fix FSX001 to FSX004. Create the directory on the file "
        "system before the job, and let the role call fsx:DescribeFileSystems."
    ),
    sources=(sources.FSX_MOUNT_FAILS, sources.TRAINING_DATA_ACCESS),
)

LARGE_DATASET_IN_FILE_MODE = FailureMode(
    code="FSX006",
    title="large dataset in File mode from S3",
    cause=(
        "In File mode every host downloads its whole channel before the script starts, and all hosts are "
        "billed meanwhile: beyond 500 GB that is a long time at every start and every retry, and it may "
        "not fit on the disk."
    ),
    remedy=(
        "Read from the cluster's file system (`inputs.NAME: {lustre: /train}`), or set `mode: FastFile`, "
        "which streams objects from S3 as they are opened."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.TRAINING_DATA_ACCESS),
    severity=Severity.WARNING,
)

BUCKET_UNUSABLE = FailureMode(
    code="S3001",
    title="bucket missing, in another region, or the prefix is empty",
    cause=(
        "SageMaker reads and writes S3 in the job's own region. A bucket that does not exist or lies "
        "elsewhere, or an input prefix without objects, fails the job after its hosts were acquired; a "
        "prefix that matches too little trains on too little."
    ),
    remedy=(
        "Correct the URI, copy the data into a bucket of the job's region, and check the prefix with "
        "`aws s3 ls`."
    ),
    sources=(sources.TRAINING_JOB_API, sources.TRAINING_DATA_ACCESS),
)

S3_ACCESS_DENIED = FailureMode(
    code="S3002",
    title="access to a bucket or key denied",
    cause=(
        "The execution role, not the person who submits, reads the inputs and writes output and "
        "checkpoints. Its policy, the bucket's policy, the policy of a VPC endpoint or the KMS key can "
        "each refuse; a refused upload shows only at the end, when the model is lost."
    ),
    remedy=(
        "Grant the role s3:ListBucket on the bucket and s3:GetObject, s3:PutObject and s3:DeleteObject on "
        "the prefixes, kms:Decrypt and kms:GenerateDataKey on the key of an encrypted bucket, and let "
        "bucket and endpoint policies admit the role."
    ),
    sources=(sources.EXECUTION_ROLES, sources.TRAINING_IN_VPC),
)

ROLE_INSUFFICIENT = FailureMode(
    code="IAM001",
    title="the execution role is missing, cannot be passed or lacks a permission the job needs",
    cause=(
        "SageMaker assumes the execution role for everything the job does. The submission is refused when "
        "the role does not exist, does not trust sagemaker.amazonaws.com, or the caller may not pass it; "
        "a missing permission fails the job later, on billed hosts."
    ),
    remedy=(
        "Let the role trust sagemaker.amazonaws.com, give the caller iam:PassRole on it, and grant the "
        "role S3, ECR, CloudWatch Logs and, with a VPC, the EC2 network-interface and describe actions that "
        "the developer guide lists. `cdk deploy` creates such a role."
    ),
    sources=(sources.EXECUTION_ROLES, sources.TRAINING_JOB_API),
)

SECRET_UNREADABLE = FailureMode(
    code="IAM002",
    title="a secret of the job is missing, or the execution role may not read it",
    cause=(
        "The boot fetches `secrets` from AWS Secrets Manager with the execution role before it starts the "
        "script. A secret that does not exist in the region, a role without secretsmanager:GetSecretValue "
        "on it, a key of its own that the role may not decrypt with, or a network that does not reach the "
        "service ends the job on hosts that are billed already. Locally the values come from the "
        "environment of whoever launches."
    ),
    remedy=(
        "Name the secret in `secrets` of the cluster file (its key in `secret_keys`) and deploy, which also "
        "creates the endpoint that a network without NAT needs; or allow secretsmanager:GetSecretValue on it "
        "in the policy of the role. Locally: export the variable."
    ),
    sources=(sources.SECRETS_MANAGER, sources.JOB_FILE),
)

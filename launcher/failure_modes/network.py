"""The network: security groups, ways out, addresses, and whether EFA is really used."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Severity

NO_INGRESS_FROM_ITSELF = FailureMode(
    code="EFA001",
    title="security group lacks all-traffic ingress from itself",
    cause=(
        "The hosts of a job reach one another only if their security group admits its own members on "
        "every protocol and port. Without that rule the job starts, bills every host and stands still at "
        "NCCL initialisation. TCP 0-65535 is not enough (EFA is not TCP), nor are two groups that admit "
        "each other."
    ),
    remedy=(
        "Add an ingress rule to the group: protocol -1 (all traffic), source the group itself. "
        "`cdk deploy` creates a group that has it."
    ),
    sources=(
        sources.DATA_PARALLEL_GUIDE,
        sources.MODEL_PARALLEL_GUIDE,
        sources.EC2_EFA_SECURITY_GROUP,
        sources.TRAINING_IN_VPC,
    ),
)

NO_EGRESS_TO_ITSELF = FailureMode(
    code="EFA002",
    title="security group lacks all-traffic egress to itself (0.0.0.0/0 does not count)",
    cause=(
        "EFA packets are not IP packets, so no CIDR matches them, not even 0.0.0.0/0: only a rule whose "
        "destination is a security group does. Without it the peers are found but never answer (libfabric "
        "error 4126, 'Unresponsive receiver'), or NCCL initialisation hangs. CDK drops the rule in "
        "silence when it is added to a group with `allow_all_outbound=True`."
    ),
    remedy=(
        "Add an egress rule to the group: protocol -1 (all traffic), destination the group itself, beside "
        "the egress to any address. In CDK start from `allow_all_outbound=False`, or use the "
        "`EfaSecurityGroup` construct."
    ),
    sources=(
        sources.DATA_PARALLEL_GUIDE,
        sources.MODEL_PARALLEL_GUIDE,
        sources.EC2_EFA_SECURITY_GROUP,
        sources.EFA_EGRESS_ISSUE,
        sources.EFA_HANDSHAKE_ISSUE,
    ),
)

NO_WAY_OUT = FailureMode(
    code="EFA003",
    title="no way out: no egress to any IP, no NAT and no endpoints",
    cause=(
        "A job in a VPC fetches its image, code and data and writes its logs through its own subnet. "
        "Where neither a NAT or internet route with egress to any address nor the VPC endpoints lead out, "
        "the job fails after minutes of billing with 'Please ensure that the subnet's route table has a "
        "route to an S3 VPC endpoint or a NAT device'. The network ACL of the subnet can close the way "
        "as well."
    ),
    remedy=(
        "Give the security group an egress rule to 0.0.0.0/0 and the subnet a route to a NAT gateway, or "
        "create the endpoints for S3 (gateway), ecr.api, ecr.dkr, logs, monitoring, sts and sagemaker.api "
        "(and kms, ssm, fsx where used) and allow TCP 443 to them."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.TRAINING_IN_VPC, sources.S3_ROUTE_PULL),
)

TOO_FEW_ADDRESSES = FailureMode(
    code="EFA004",
    title="too few free addresses in the subnet for this many hosts",
    cause=(
        "Every host takes private addresses from the subnet for its network interfaces: at least 5 with "
        "EFA, 2 without, and one for each EFA interface on p5 and later. When they run out, the job fails "
        "while its hosts start. AWS itself keeps 5 addresses of every subnet."
    ),
    remedy=(
        "Use a larger subnet in the same availability zone (a /24 has 251 usable addresses, enough for 50 "
        "EFA hosts at 5 each), fewer hosts, or release the interfaces of finished jobs and warm pools."
    ),
    sources=(sources.TRAINING_IN_VPC, sources.SUBNET_SIZES),
)

EFA_NOT_USED = FailureMode(
    code="EFA005",
    title="EFA is there but NCCL uses sockets, or the plugin did not load",
    cause=(
        "When aws-ofi-nccl is missing from the image, fails to initialise or finds no EFA device, NCCL "
        "quietly falls back to TCP ('Using network Socket' in its log). The job runs at a fraction of the "
        "bandwidth that is paid for, and large jobs run into time-outs."
    ),
    remedy=(
        "Use an AWS deep learning container, or install aws-ofi-nccl and libfabric in your own image, and "
        "leave FI_PROVIDER, NCCL_NET and NCCL_NET_PLUGIN unset. Check with `profile: debug` that the log "
        "says 'Selected provider is efa' ('Selected Provider' before plugin 1.14) and 'Using network "
        "Libfabric', which is the plugin's name on GPUs since 1.13; before, and on Trainium, it is 'AWS "
        "Libfabric'."
    ),
    sources=(
        sources.EFA_PLUGIN_NETWORK,
        sources.EFA_PLUGIN_PLATFORM,
        sources.TRAINING_TOOLKIT_EFA_ISSUE,
    ),
)

HOSTS_WITHOUT_EFA = FailureMode(
    code="EFA006",
    title="several hosts of a type without EFA, or without GPUDirect RDMA",
    cause=(
        "Types without EFA exchange their gradients over TCP. Types with EFA but without GPUDirect RDMA "
        "(g4dn, g5, g6, p3dn among them; p4d and later have it) copy every message through host memory. "
        "Either way the GPUs wait for the network at every step, and more hosts may train no faster than "
        "one."
    ),
    remedy=(
        "Prefer one larger host, or a type with EFA and GPUDirect RDMA: p4d, p4de, p5, p5e, p5en, p6. "
        "Where the type is meant, accept the finding with `ignore: [EFA006]`."
    ),
    sources=(
        sources.INSTANCE_TYPE_API,
        sources.EC2_EFA,
        sources.EFA_PLUGIN_PLATFORM,
        sources.EFA_PLUGIN_RDMA_ISSUE,
    ),
    severity=Severity.WARNING,
)

DEVICE_RDMA_FAILS = FailureMode(
    code="EFA007",
    title="device RDMA forced or memory registration fails",
    cause=(
        "FI_EFA_USE_DEVICE_RDMA=1 aborts the process, since libfabric 1.18, on an EFA device that cannot "
        "read by RDMA: those of c5n, g4dn, g5 and p3dn. This is the device's ability, not GPUDirect RDMA: "
        "p4d, p4de and all types on Nitro 4 or later can (g6, g6e and p5.4xlarge as well). Elsewhere the "
        "registration of GPU memory fails (RC: -22) with EFA installers before 1.29.1 and NCCL 2.19 or later."
    ),
    remedy=(
        "Remove FI_EFA_USE_DEVICE_RDMA: with aws-ofi-nccl 1.7 or later no type needs it. For failing "
        "registrations update the EFA installer to 1.29.1 or later, or set FI_EFA_SET_CUDA_SYNC_MEMOPS=0, "
        "which libfabric reads up to 1.19.0."
    ),
    sources=(
        sources.EC2_EFA,
        sources.EFA_CHEATSHEET,
        sources.EFA_PLUGIN_ENVIRONMENT,
        sources.LIBFABRIC_EFA,
    ),
)

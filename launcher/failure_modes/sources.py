"""Where the knowledge of the catalogue comes from: what a reader can look up, and when we last did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

SHELF_LIFE_DAYS: Final = 365
"""For how many days a page that was read may be believed to say the same."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place where knowledge was read.

    `title` names it so that a reader finds it; `as_of` is the day on which it was last looked at, and
    `commit` which state of a repository that was, where the source is a file of one.
    """

    title: str
    as_of: date
    commit: str | None = None

    def __str__(self) -> str:
        return self.title

    @property
    def when_read(self) -> str:
        """When it was looked at, and in which state: `2026-11-22, commit 2daf7d30`."""
        return f"{self.as_of}, commit {self.commit}" if self.commit else str(self.as_of)


# AWS documentation, named by its page.
DATA_PARALLEL_GUIDE: Final = Source(
    "Amazon SageMaker developer guide: distributed-troubleshooting-data-parallel", date(2026, 11, 21)
)
MODEL_PARALLEL_GUIDE: Final = Source(
    "Amazon SageMaker developer guide: distributed-troubleshooting-model-parallel", date(2026, 11, 21)
)
TRAINING_COMPILER_GUIDE: Final = Source(
    "Amazon SageMaker developer guide: training-compiler-troubleshooting", date(2026, 11, 21)
)
TRAINING_COMPILER_PYTORCH: Final = Source(
    "Amazon SageMaker developer guide: training-compiler-pytorch-models", date(2026, 11, 21)
)
TRAINING_COMPILER_TIPS: Final = Source(
    "Amazon SageMaker developer guide: training-compiler-tips-pitfalls", date(2026, 11, 21)
)
TRAINING_COMPILER_SUPPORT: Final = Source(
    "Amazon SageMaker developer guide: training-compiler-support", date(2026, 11, 22)
)
DEBUGGER_REFERENCE: Final = Source("Amazon SageMaker developer guide: debugger-reference", date(2026, 11, 22))
DEBUGGER_API_GUIDE: Final = Source(
    "Amazon SageMaker developer guide: debugger-createtrainingjob-api", date(2026, 11, 22)
)
DATA_PARALLEL_SUPPORT: Final = Source(
    "Amazon SageMaker developer guide: distributed-data-parallel-support", date(2026, 11, 21)
)
MODEL_PARALLEL_SUPPORT: Final = Source(
    "Amazon SageMaker developer guide: distributed-model-parallel-support", date(2026, 11, 21)
)
MODEL_PARALLEL_SDK: Final = Source(
    "Amazon SageMaker developer guide: model-parallel-sm-sdk", date(2026, 11, 21)
)
TRAINING_IN_VPC: Final = Source("Amazon SageMaker developer guide: train-vpc", date(2026, 11, 21))
SUBNET_SIZES: Final = Source("Amazon VPC user guide: subnet-sizing", date(2026, 11, 22))
TRAINING_STORAGE: Final = Source("Amazon SageMaker developer guide: model-train-storage", date(2026, 11, 21))
TRAINING_DATA_ACCESS: Final = Source(
    "Amazon SageMaker developer guide: model-access-training-data", date(2026, 11, 21)
)
TRAINING_OUTPUT: Final = Source(
    "Amazon SageMaker developer guide: your-algorithms-training-algo-output", date(2026, 11, 21)
)
CHECKPOINTS_GUIDE: Final = Source("Amazon SageMaker developer guide: model-checkpoints", date(2026, 11, 21))
SPOT_TRAINING: Final = Source(
    "Amazon SageMaker developer guide: model-managed-spot-training", date(2026, 11, 21)
)
EXECUTION_ROLES: Final = Source("Amazon SageMaker developer guide: sagemaker-roles", date(2026, 11, 21))
SECRETS_MANAGER: Final = Source("AWS Secrets Manager user guide: auth-and-access", date(2026, 11, 22))
EC2_EFA_SECURITY_GROUP: Final = Source("Amazon EC2 user guide: create-efa", date(2026, 11, 21))
EC2_EFA: Final = Source("Amazon EC2 user guide: efa", date(2026, 11, 21))
FSX_CREATION_FAILS: Final = Source("FSx for Lustre user guide: cannot-create-fs", date(2026, 11, 21))
FSX_ACCESS_CONTROL: Final = Source(
    "FSx for Lustre user guide: limit-access-security-groups", date(2026, 11, 21)
)
FSX_MOUNT_FAILS: Final = Source("FSx for Lustre user guide: mount-troubleshooting", date(2026, 11, 21))
TRAFFIC_ENCRYPTION: Final = Source("Amazon SageMaker developer guide: train-encrypt", date(2026, 11, 22))
REMOTE_DEBUGGING: Final = Source(
    "Amazon SageMaker developer guide: train-remote-debugging", date(2026, 11, 22)
)

# The API models that botocore ships.
TRAINING_JOB_API: Final = Source("botocore service model sagemaker: CreateTrainingJob", date(2026, 11, 21))
FILE_SYSTEM_API: Final = Source("botocore service model fsx: FileSystem", date(2026, 11, 21))
INSTANCE_TYPE_API: Final = Source("Amazon EC2 API: DescribeInstanceTypes", date(2026, 11, 21))
SERVICE_QUOTAS: Final = Source(
    "Service Quotas console: Amazon SageMaker, '<type> for training job usage'", date(2026, 11, 21)
)

# EFA and NCCL.
EFA_PLUGIN_PLATFORM: Final = Source("aws-ofi-nccl src/platform-aws.cpp", date(2026, 11, 22), "2daf7d30")
EFA_PLUGIN_ENVIRONMENT: Final = Source("aws-ofi-nccl doc/efa-env-var.md", date(2026, 11, 22), "2daf7d30")
EFA_PLUGIN_NETWORK: Final = Source("aws-ofi-nccl src/nccl_ofi_net.cpp", date(2026, 11, 22), "2daf7d30")
EFA_PLUGIN_TUNER_ISSUE: Final = Source("aws/aws-ofi-nccl issue 982", date(2026, 11, 21))
EFA_PLUGIN_RDMA_ISSUE: Final = Source("aws/aws-ofi-nccl issue 547", date(2026, 11, 21))
LIBFABRIC_EFA: Final = Source("ofiwg/libfabric prov/efa/src", date(2026, 11, 22), "af8ddbe9")
EFA_CHEATSHEET: Final = Source(
    "awsome-distributed-training 1.architectures/efa-cheatsheet.md", date(2026, 11, 22), "0edaf152"
)
EFA_EGRESS_ISSUE: Final = Source("awslabs/awsome-distributed-ai issue 546", date(2026, 11, 21))
EFA_HANDSHAKE_ISSUE: Final = Source("gardener/gardener-extension-provider-aws issue 1832", date(2026, 11, 21))
NCCL_ENVIRONMENT: Final = Source("NVIDIA NCCL user guide: environment variables", date(2026, 11, 21))
NCCL_PARAMETERS: Final = Source(
    "NVIDIA/nccl, what is read from the environment, tags v2.3.5-5 to v2.30.7-1",
    date(2026, 11, 22),
    "5067397c",
)
NCCL_TROUBLESHOOTING: Final = Source("NVIDIA NCCL user guide: troubleshooting", date(2026, 11, 21))
NCCL_REMOTE_ERROR_ISSUE: Final = Source("NVIDIA/nccl issue 795", date(2026, 11, 21))
NCCL_BOOTSTRAP: Final = Source("NVIDIA/nccl src/init.cc", date(2026, 11, 21))
GPU_HEALTH_CHECK: Final = Source(
    "awsome-distributed-training 4.validation_and_observability/2.gpu-cluster-healthcheck",
    date(2026, 11, 22),
    "0edaf152",
)
NCCL_PEER_ACCESS_ISSUE: Final = Source("NVIDIA/nccl issue 1838", date(2026, 11, 22))
NCCL_INITIALIZATION_ISSUE: Final = Source("NVIDIA/nccl issue 1029", date(2026, 11, 22))
MPI_DAEMON_LOST_ISSUE: Final = Source("kubeflow/mpi-operator issue 152", date(2026, 11, 22))
NEURON_LOAD_ISSUE: Final = Source("aws-neuron/aws-neuron-sdk issue 779", date(2026, 11, 22))
NEURON_DEVICE_ISSUE: Final = Source("aws-neuron/aws-neuron-sdk issue 851", date(2026, 11, 22))
EXTENSION_ISSUE: Final = Source("Dao-AILab/flash-attention issue 854", date(2026, 11, 22))
XID_ERRORS: Final = Source("NVIDIA GPU deployment guide: XID errors", date(2026, 11, 21))
CUDA_COMPATIBILITY: Final = Source("NVIDIA CUDA compatibility guide", date(2026, 11, 21))

# PyTorch.
DDP_GUIDE: Final = Source("DDP Training Troubleshooting Guide", date(2026, 11, 21))
DDP_ERROR_ARTICLE: Final = Source(
    "heeviz.com article 'Advanced Error Handling in PyTorch DistributedDataParallel'", date(2026, 11, 21)
)
TORCH_DISTRIBUTED: Final = Source("PyTorch documentation: torch.distributed", date(2026, 11, 21))
HUGGING_FACE_HUB: Final = Source(
    "huggingface_hub documentation: environment variables; errors.py", date(2026, 11, 22)
)
TRITON_CACHE_ISSUE: Final = Source("pytorch/pytorch issue 173679", date(2026, 11, 22))
TORCH_EXTENSION_BUILDS: Final = Source(
    "torch 2.13: torch/utils/cpp_extension.py (FileBaton)", date(2026, 11, 22)
)
LIGHTNING_CLUSTER: Final = Source(
    "PyTorch Lightning documentation: run on an on-prem cluster (torchrun)", date(2026, 11, 22)
)
TORCH_DISTRIBUTED_CHECKPOINT: Final = Source(
    "PyTorch documentation: torch.distributed.checkpoint", date(2026, 11, 22)
)
TORCH_DDP: Final = Source("PyTorch documentation: DistributedDataParallel", date(2026, 11, 21))
TORCH_DDP_NOTES: Final = Source("PyTorch documentation: notes/ddp", date(2026, 11, 21))
TORCH_FSDP: Final = Source("PyTorch documentation: FullyShardedDataParallel", date(2026, 11, 21))
TORCH_JOIN: Final = Source("PyTorch documentation: torch.distributed.algorithms.Join", date(2026, 11, 21))
TORCH_DATA: Final = Source("PyTorch documentation: torch.utils.data", date(2026, 11, 21))
TORCHVISION_DATASETS: Final = Source(
    "torchvision: torchvision/datasets/utils.py, which writes downloads in place",
    date(2026, 11, 22),
    "036a3dae",
)
TORCH_RUN: Final = Source("PyTorch documentation: torchrun (elastic launch)", date(2026, 11, 21))
TORCH_RENDEZVOUS: Final = Source(
    "PyTorch documentation: torch.distributed.elastic.rendezvous", date(2026, 11, 21)
)
TORCH_PROCESS_FAILURE: Final = Source(
    "torch 2.13: torch/distributed/elastic/multiprocessing/errors/__init__.py", date(2026, 11, 22)
)
TORCH_WORKER_FILES: Final = Source(
    "torch 2.13: torch/utils/data/dataloader.py (too many open files)", date(2026, 11, 22)
)
TORCH_ELASTIC_ERRORS: Final = Source(
    "PyTorch documentation: torch.distributed.elastic error propagation", date(2026, 11, 21)
)
TORCH_NCCL_ENVIRONMENT: Final = Source(
    "PyTorch documentation: torch_nccl_environment_variables", date(2026, 11, 21)
)
TORCH_NCCL_TIMEOUT: Final = Source("pytorch/pytorch pull request 110947", date(2026, 11, 21))
TORCH_FLIGHT_RECORDER: Final = Source("PyTorch documentation: flight recorder", date(2026, 11, 21))
TORCH_CUDA_NOTES: Final = Source("PyTorch documentation: notes/cuda, memory management", date(2026, 11, 21))
TORCH_AMP: Final = Source("PyTorch documentation: automatic mixed precision examples", date(2026, 11, 21))
DEEPSPEED_ENGINE: Final = Source(
    "huggingface/accelerate, src/accelerate/utils/deepspeed.py", date(2026, 11, 22), "16cb6eb8"
)
TORCH_PREFIX_DISCUSSION: Final = Source("discuss.pytorch.org topic 494", date(2026, 11, 21))
PYTHON_ENVIRON: Final = Source("Python documentation: os.environ", date(2026, 11, 21))
PYTHON_LISTDIR: Final = Source("Python documentation: os.listdir", date(2026, 11, 21))
PIP_REQUIREMENTS: Final = Source("pip documentation: requirements file format", date(2026, 11, 22))

# AWS tools that start the processes, and this project.
TRAINING_TOOLKIT: Final = Source("aws/sagemaker-training-toolkit", date(2026, 11, 21))
TRAINING_TOOLKIT_EFA_ISSUE: Final = Source("aws/sagemaker-training-toolkit issue 240", date(2026, 11, 21))
SMP_PROCESSES_ISSUE: Final = Source("aws/amazon-sagemaker-examples issue 2023", date(2026, 11, 21))
PYTHON_SDK: Final = Source("aws/sagemaker-python-sdk", date(2026, 11, 21))
CAPACITY_ISSUE: Final = Source("DIAGNijmegen/rse-grand-challenge issue 2631", date(2026, 11, 21))
S3_ROUTE_PULL: Final = Source("aws/amazon-sagemaker-operator-for-k8s pull request 22", date(2026, 11, 21))
JOB_FILE: Final = Source("Slipway: the job file (docs/job-file.md)", date(2026, 11, 21))

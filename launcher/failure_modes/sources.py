"""Where the knowledge of the catalogue comes from; each string names something a reader can look up."""

from __future__ import annotations

from typing import Final

# AWS documentation, named by its page.
DATA_PARALLEL_GUIDE: Final = "Amazon SageMaker developer guide: distributed-troubleshooting-data-parallel"
MODEL_PARALLEL_GUIDE: Final = "Amazon SageMaker developer guide: distributed-troubleshooting-model-parallel"
TRAINING_COMPILER_GUIDE: Final = "Amazon SageMaker developer guide: training-compiler-troubleshooting"
TRAINING_COMPILER_PYTORCH: Final = "Amazon SageMaker developer guide: training-compiler-pytorch-models"
TRAINING_COMPILER_TIPS: Final = "Amazon SageMaker developer guide: training-compiler-tips-pitfalls"
TRAINING_COMPILER_SUPPORT: Final = "Amazon SageMaker developer guide: training-compiler-support"
DATA_PARALLEL_SUPPORT: Final = "Amazon SageMaker developer guide: distributed-data-parallel-support"
MODEL_PARALLEL_SUPPORT: Final = "Amazon SageMaker developer guide: distributed-model-parallel-support"
MODEL_PARALLEL_SDK: Final = "Amazon SageMaker developer guide: model-parallel-sm-sdk"
TRAINING_IN_VPC: Final = "Amazon SageMaker developer guide: train-vpc"
TRAINING_STORAGE: Final = "Amazon SageMaker developer guide: model-train-storage"
TRAINING_DATA_ACCESS: Final = "Amazon SageMaker developer guide: model-access-training-data"
TRAINING_OUTPUT: Final = "Amazon SageMaker developer guide: your-algorithms-training-algo-output"
CHECKPOINTS_GUIDE: Final = "Amazon SageMaker developer guide: model-checkpoints"
SPOT_TRAINING: Final = "Amazon SageMaker developer guide: model-managed-spot-training"
EXECUTION_ROLES: Final = "Amazon SageMaker developer guide: sagemaker-roles"
SECRETS_MANAGER: Final = "AWS Secrets Manager user guide: auth-and-access"
EC2_EFA_SECURITY_GROUP: Final = "Amazon EC2 user guide: create-efa"
EC2_EFA: Final = "Amazon EC2 user guide: efa"
FSX_CREATION_FAILS: Final = "FSx for Lustre user guide: cannot-create-fs"
FSX_ACCESS_CONTROL: Final = "FSx for Lustre user guide: limit-access-security-groups"
FSX_MOUNT_FAILS: Final = "FSx for Lustre user guide: mount-troubleshooting"

# The API models that botocore ships.
TRAINING_JOB_API: Final = "botocore service model sagemaker: CreateTrainingJob"
FILE_SYSTEM_API: Final = "botocore service model fsx: FileSystem"
INSTANCE_TYPE_API: Final = "Amazon EC2 API: DescribeInstanceTypes"
SERVICE_QUOTAS: Final = "Service Quotas console: Amazon SageMaker, '<type> for training job usage'"

# EFA and NCCL.
EFA_PLUGIN_PLATFORM: Final = "aws-ofi-nccl src/platform-aws.cpp"
EFA_PLUGIN_ENVIRONMENT: Final = "aws-ofi-nccl doc/efa-env-var.md"
EFA_PLUGIN_NETWORK: Final = "aws-ofi-nccl src/nccl_ofi_net.cpp"
EFA_PLUGIN_TUNER_ISSUE: Final = "aws/aws-ofi-nccl issue 982"
EFA_PLUGIN_RDMA_ISSUE: Final = "aws/aws-ofi-nccl issue 547"
EFA_CHEATSHEET: Final = "awsome-distributed-training 1.architectures/efa-cheatsheet.md"
EFA_EGRESS_ISSUE: Final = "awslabs/awsome-distributed-ai issue 546"
EFA_HANDSHAKE_ISSUE: Final = "gardener/gardener-extension-provider-aws issue 1832"
NCCL_ENVIRONMENT: Final = "NVIDIA NCCL user guide: environment variables"
NCCL_TROUBLESHOOTING: Final = "NVIDIA NCCL user guide: troubleshooting"
NCCL_REMOTE_ERROR_ISSUE: Final = "NVIDIA/nccl issue 795"
NCCL_BOOTSTRAP: Final = "NVIDIA/nccl src/init.cc"
GPU_HEALTH_CHECK: Final = (
    "awsome-distributed-training 4.validation_and_observability/2.gpu-cluster-healthcheck"
)
XID_ERRORS: Final = "NVIDIA GPU deployment guide: XID errors"
CUDA_COMPATIBILITY: Final = "NVIDIA CUDA compatibility guide"

# PyTorch.
DDP_GUIDE: Final = "DDP Training Troubleshooting Guide"
DDP_ERROR_ARTICLE: Final = "heeviz.com article 'Advanced Error Handling in PyTorch DistributedDataParallel'"
TORCH_DISTRIBUTED: Final = "PyTorch documentation: torch.distributed"
TORCH_DDP: Final = "PyTorch documentation: DistributedDataParallel"
TORCH_DDP_NOTES: Final = "PyTorch documentation: notes/ddp"
TORCH_FSDP: Final = "PyTorch documentation: FullyShardedDataParallel"
TORCH_JOIN: Final = "PyTorch documentation: torch.distributed.algorithms.Join"
TORCH_DATA: Final = "PyTorch documentation: torch.utils.data"
TORCH_RUN: Final = "PyTorch documentation: torchrun (elastic launch)"
TORCH_RENDEZVOUS: Final = "PyTorch documentation: torch.distributed.elastic.rendezvous"
TORCH_ELASTIC_ERRORS: Final = "PyTorch documentation: torch.distributed.elastic error propagation"
TORCH_NCCL_ENVIRONMENT: Final = "PyTorch documentation: torch_nccl_environment_variables"
TORCH_NCCL_TIMEOUT: Final = "pytorch/pytorch pull request 110947"
TORCH_FLIGHT_RECORDER: Final = "PyTorch documentation: flight recorder"
TORCH_CUDA_NOTES: Final = "PyTorch documentation: notes/cuda, memory management"
TORCH_AMP: Final = "PyTorch documentation: automatic mixed precision examples"
TORCH_PREFIX_DISCUSSION: Final = "discuss.pytorch.org topic 494"
PYTHON_ENVIRON: Final = "Python documentation: os.environ"
PYTHON_LISTDIR: Final = "Python documentation: os.listdir"

# AWS tools that start the processes, and this project.
TRAINING_TOOLKIT: Final = "aws/sagemaker-training-toolkit"
TRAINING_TOOLKIT_EFA_ISSUE: Final = "aws/sagemaker-training-toolkit issue 240"
SMP_PROCESSES_ISSUE: Final = "aws/amazon-sagemaker-examples issue 2023"
PYTHON_SDK: Final = "aws/sagemaker-python-sdk"
CAPACITY_ISSUE: Final = "DIAGNijmegen/rse-grand-challenge issue 2631"
S3_ROUTE_PULL: Final = "aws/amazon-sagemaker-operator-for-k8s pull request 22"
JOB_FILE: Final = "Slipway: the job file (docs/job-file.md)"

"""What a running job needs and meets: capacity, image, code, disk, finite numbers."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Retry, Severity

NO_CAPACITY = FailureMode(
    code="CAP001",
    title="no capacity for this type",
    cause=(
        "AWS has not enough instances of the type free in the subnets' zones at the moment: 'CapacityError: "
        "Unable to provision requested ML compute capacity', or a spot job that ends with "
        "MaxWaitTimeExceeded. SageMaker's own RetryStrategy does not help; it repeats internal errors only."
    ),
    remedy=(
        "Submit again later (`limits.max_retries` lets `launch` do it), in another zone or with another "
        "type, or reserve capacity with a training plan (`capacity: {training_plan: <arn>}`)."
    ),
    sources=(sources.CAPACITY_ISSUE, sources.TRAINING_JOB_API, sources.SPOT_TRAINING),
    retry=Retry.LATER,
)

QUOTA_TOO_SMALL = FailureMode(
    code="CAP002",
    title="quota too small",
    cause=(
        "Each instance type has a quota per account and region for training jobs, another for spot and "
        "another for warm pools, and for large GPU types they begin at 0. Beyond them the submission is "
        "refused with ResourceLimitExceeded."
    ),
    remedy=(
        "Request an increase in Service Quotas for '<type> for training job usage' (or 'spot training job "
        "usage', 'training warm pool usage'), stop jobs and warm pools that hold the quota, or use fewer "
        "hosts."
    ),
    sources=(sources.SERVICE_QUOTAS, sources.DATA_PARALLEL_SUPPORT),
)

IMAGE_UNAVAILABLE = FailureMode(
    code="IMG001",
    title="image missing in the region, or the pull fails",
    cause=(
        "The tag does not exist in this region's registry, the role may not pull it, or the subnet has no "
        "way to ECR. The job then fails before the script starts, after waiting for its hosts. What is past "
        "AWS's end of patches is only said: such an image runs, with the defects that it has."
    ),
    remedy=(
        "Name a framework version that has an image, or `latest` for the newest patched one, or copy your "
        "own image into ECR in the job's region. Grant the role ecr:GetAuthorizationToken, "
        "ecr:BatchGetImage and ecr:GetDownloadUrlForLayer; in a VPC provide NAT, or endpoints for ecr.api, "
        "ecr.dkr and S3."
    ),
    sources=(sources.EXECUTION_ROLES, sources.TRAINING_IN_VPC, sources.PYTHON_SDK),
)

DRIVER_MISMATCH = FailureMode(
    code="IMG002",
    title="driver, CUDA or architecture mismatch",
    cause=(
        "The driver belongs to the host, CUDA to the image. An image whose CUDA is newer than the driver "
        "allows stops with 'CUDA driver version is insufficient'; a torch built without the GPU's "
        "architecture (sm_90 for H100, sm_100 for B200) with 'no kernel image is available'. On a host with "
        "Arm CPUs (p6e) no program of an image for x86 starts."
    ),
    remedy=(
        "Use an AWS deep learning container whose CUDA suits the type, and let requirements.txt not "
        "replace its torch; compile your own kernels for the type's architecture (TORCH_CUDA_ARCH_LIST)."
    ),
    sources=(sources.DDP_ERROR_ARTICLE, sources.CUDA_COMPATIBILITY),
)

EXTENSION_MISMATCH = FailureMode(
    code="IMG003",
    title="a compiled extension was built for another torch, CUDA or C++ library",
    cause=(
        "flash-attn, apex, xformers and other extensions hold machine code that calls into the torch they "
        "were compiled with. Beside another torch the loader does not find a function in it: 'undefined "
        "symbol', or 'GLIBCXX not found' where the image's C++ library is older. The import fails on every "
        "rank."
    ),
    remedy=(
        "Install the extension's wheel for exactly the image's torch, CUDA and Python, or build it in the "
        "image with `pip install --no-build-isolation`; leave torch out of requirements.txt, so that nothing "
        "replaces it afterwards."
    ),
    sources=(sources.EXTENSION_ISSUE, sources.PIP_REQUIREMENTS),
)

SCRIPT_RAISED = FailureMode(
    code="CODE001",
    title="the script raised",
    cause=(
        "An exception ended the script on one rank; the ranks that waited for it then failed too, with "
        "errors that are only consequences. The first rank's traceback is the one that counts. A file that "
        "is no valid Python raises on every rank."
    ),
    remedy=(
        "Repair what the traceback of the first failing rank names, and try it with "
        "`launch JOB.yaml --local` before paying for hosts. A main() decorated with "
        "torch.distributed.elastic.multiprocessing.errors.record keeps tracebacks of all ranks apart."
    ),
    sources=(sources.DDP_ERROR_ARTICLE, sources.TORCH_ELASTIC_ERRORS),
)

ENTRY_POINT_MISSING = FailureMode(
    code="CODE002",
    title="entry point missing, or arguments that the script does not accept",
    cause=(
        "The entry point or module is not in the source directory that is uploaded, or it is no program that "
        "the strategy starts (a shell script under torchrun), or the script's argument parser "
        "refuses a hyperparameter and exits with code 2. Each is found only after hosts, image and data "
        "were waited for. The container also refuses an archive that it cannot unpack, and one that is not "
        "the code which was submitted."
    ),
    remedy=(
        "Name the entry point relative to `code.source_dir`, and start shell scripts with `strategy: none`. "
        "Declare every hyperparameter with add_argument, or use parse_known_args, which lets the others "
        "pass. Where the archive is not what was submitted, find out who wrote to its folder on S3, remove "
        "it there, and launch again."
    ),
    sources=(sources.TRAINING_TOOLKIT, sources.PYTHON_SDK),
)

ENVIRONMENT_VALUE_NOT_STRING = FailureMode(
    code="CODE003",
    title="a value that is not a string put into os.environ",
    cause=(
        "os.environ holds strings only: `os.environ['GPU_NUM_DEVICES'] = 4`, as AWS's own guide shows it, "
        "raises TypeError ('str expected, not int') on every rank, once all hosts are up."
    ),
    remedy="Write `os.environ['NAME'] = str(value)`, or set the variable in the job file's `environment`.",
    sources=(sources.TRAINING_COMPILER_GUIDE, sources.PYTHON_ENVIRON),
)

NATIVE_CRASH = FailureMode(
    code="CODE004",
    title="a rank died in native code: SIGSEGV, SIGABRT, SIGBUS, SIGILL or SIGFPE",
    cause=(
        "The process was ended by a signal of its own making, without a Python traceback: SIGSEGV (exit "
        "code 139 or -11) in a C or CUDA extension, SIGABRT (exit code 134 or -6) by an assertion or an "
        "uncaught C++ exception, which torch's watchdog also raises after a time-out, SIGBUS (exit code 135 "
        "or -7) mostly of a full /dev/shm, SIGILL (exit code 132 or -4) of a binary built for another CPU, "
        "SIGFPE (exit code 136 or -8) of an integer that was divided by zero."
    ),
    remedy=(
        "Set PYTHONFAULTHANDLER to '1' in `environment`: the next time each thread's Python lines are "
        "printed. Then try the extension that they name in another version, fewer DataLoader workers, and "
        "one run with num_workers=0. Where it happened once in a long run, start again from the last "
        "checkpoint, on other hosts if it was the same host twice."
    ),
    sources=(sources.TORCH_PROCESS_FAILURE, sources.TORCH_ELASTIC_ERRORS),
)

REQUIREMENT_MISSING = FailureMode(
    code="CODE005",
    title="a package of requirements.txt cannot be installed, or was not and is missing",
    cause=(
        "The source folder's requirements.txt (or what `code.requirements` names) is installed with pip on "
        "every host before its ranks start. pip finds no such version, no versions that fit together with "
        "the image's torch, which is kept, or no way to the package index; or nothing was installed, and "
        "the script ends with 'No module named ...'."
    ),
    remedy=(
        "Add what the script imports to requirements.txt in the source folder, under the name that pip knows "
        "(import cv2 is opencv-python), and leave torch to the image. Where it is a module of your own, see "
        "that it lies in `code.source_dir` and is packed. In a VPC without a way out, set CA_REPOSITORY_ARN "
        "in `environment` to a repository of CodeArtifact, or pack wheels and write --no-index and "
        "--find-links ./wheels into the file."
    ),
    sources=(sources.TRAINING_TOOLKIT, sources.PYTHON_SDK, sources.PIP_REQUIREMENTS),
)

STOPPED = FailureMode(
    code="STOP001",
    title="ended from outside: stopped, out of time, or its hosts were taken",
    cause=(
        "Somebody stopped the job (Ctrl-C, `launch stop`, StopTrainingJob, a scheduler's signal), it ran "
        "into limits.max_runtime or limits.max_wait, its spot hosts were taken for good, or the launcher of "
        "a local run was killed. The ranks then end by SIGTERM, and what they and torchrun print about it "
        "(SignalException, ChildFailedError, closed connections) is no failure of the script."
    ),
    remedy=(
        "Nothing has to be repaired. Go on from the last checkpoint with `launch resume NAME`; where a limit "
        "ended the job, raise limits.max_runtime or limits.max_wait first."
    ),
    sources=(sources.TRAINING_JOB_API, sources.SPOT_TRAINING, sources.TORCH_RUN),
    severity=Severity.INFO,
    retry=Retry.SAME,
)

HUB_UNREACHABLE = FailureMode(
    code="HUB001",
    title="a model hub, package index or public data cannot be had",
    cause=(
        "The script downloads from a hub or a public server while all hosts are billed: the subnets have no "
        "way out to the internet, the server is down or too slow, or it refuses: too many requests (429), "
        "as each rank of each host asks for itself, or no permission for a gated model (401, 403)."
    ),
    remedy=(
        "Download once, beforehand, and give it to the job as an input channel (`inputs`), with "
        "HF_HUB_OFFLINE=1 and HF_HOME below it; then no host asks anybody. Otherwise give the subnets a "
        "NAT gateway, and let one process of each host download before the others go on."
    ),
    sources=(sources.HUGGING_FACE_HUB, sources.TRAINING_IN_VPC),
    retry=Retry.LATER,
)

DISK_FULL = FailureMode(
    code="DISK001",
    title="disk full",
    cause=(
        "'No space left on device': data, checkpoints or caches outgrew the disk. Types with local NVMe "
        "have that size and ignore volume_size_gb; other types have what was asked for; system folders "
        "such as /home and /usr are small on both."
    ),
    remedy=(
        "Write below /opt/ml or /tmp and point HF_HOME and other caches there, delete old checkpoints "
        "(deleting them locally deletes them in S3 too), raise `resources.volume_size_gb`, or read the "
        "data with FastFile or from Lustre."
    ),
    sources=(sources.TRAINING_STORAGE, sources.TRAINING_JOB_API),
)

SHARED_CACHE = FailureMode(
    code="DISK002",
    title="a compiler's or hub's cache on a file system that hosts share",
    cause=(
        "Triton, TorchInductor and the builder of C++ extensions write, rename and delete files in their "
        "cache, and rely on locks and on what a local disk promises. On NFS, EFS or Lustre, ranks of several "
        "hosts do so at once: a file that another host has just replaced ends in 'Stale file handle', an "
        "entry is read half written, or all ranks wait for a lock that a lost host held. A model hub's cache "
        "is written by every rank that downloads."
    ),
    remedy=(
        "Leave the cache where it is by default, on the host's own disk, or give each host a folder of its "
        "own below /tmp. Download models once, before the training, and read them from there."
    ),
    sources=(sources.TRITON_CACHE_ISSUE, sources.TORCH_EXTENSION_BUILDS, sources.HUGGING_FACE_HUB),
    severity=Severity.WARNING,
    retry=Retry.SAME,
)

LOSS_NOT_FINITE = FailureMode(
    code="NUM001",
    title="loss is not finite",
    cause=(
        "Once a NaN or infinity is in the loss, the gradient reduction spreads it to every rank and the "
        "weights are lost; the job runs and bills on without learning. Too high a learning rate, fp16 "
        "without loss scaling, and bad samples are the usual causes."
    ),
    remedy=(
        "Stop, and go back to the last checkpoint with a finite loss; lower the learning rate or lengthen "
        "the warm-up, clip gradients, prefer bf16 to fp16. `slipway.guard` ends the training at the first "
        "such loss, or skips the step or goes back to the last checkpoint on all ranks, and names rank and "
        "step. `profile: debug` turns on anomaly detection, which names the operation."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE, sources.TORCH_AMP),
)

"""What the programs around a training say when it dies, where they say it: libraries, schedulers, "
"hosts, pip."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis, Verdict
from tests.diagnosis.cases import records

STEPS = "\n".join(f"step {step} loss 2.{step}" for step in range(1, 20))

RAISED = [
    (
        "HUB001",
        "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://hub: offline mode is enabled.",
    ),
    ("HUB001", "huggingface_hub.errors.LocalTokenNotFoundError: Token is required, but no token found."),
    (
        "HUB001",
        "datasets.exceptions.DatasetNotFoundError: Dataset 'acme/corpus' is a gated dataset on the Hub.",
    ),
    ("HUB001", "ConnectionError: Couldn't reach 'acme/corpus' on the Hub (LocalEntryNotFoundError)"),
    ("HUB001", "ConnectionError: Server Disconnected"),
    (
        "HUB001",
        "OSError: Consistency check failed: file should be of size 98 but has size 41 (model.safetensors).",
    ),
    (
        "HUB001",
        "RuntimeError: Data processing error: CAS service error : ReqwestMiddleware Error: Request failed",
    ),
    (
        "DISK001",
        "RuntimeError: Data processing error: CAS service error : IO Error: No space left on device (os "
        "error 28)",
    ),
    (
        "HUB001",
        "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host huggingface.co:443 "
        "ssl:default "
        "[Connect call failed ('13.32.1.5', 443)]",
    ),
    ("CODE005", "ImportError: Using 4-bit quantization requires bitsandbytes: `pip install -U bitsandbytes`"),
    (
        "CODE005",
        "ImportError: tokenizers>=0.14 is required for a normal functioning of this module, but found "
        "0.13.3.",
    ),
    (
        "CODE005",
        "ImportError: \nLlamaTokenizer requires the SentencePiece library but it was not found in your "
        "environment.",
    ),
    ("CODE005", "importlib.metadata.PackageNotFoundError: No package metadata was found for bitsandbytes"),
    ("IMG003", "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"),
    ("IMG002", "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"),
    ("IMG003", "RuntimeError: apex.optimizers.FusedAdam requires cuda extensions"),
    ("IMG003", "ImportError: numpy.core.multiarray failed to import"),
    (
        "IMG003",
        "RuntimeError: \n        CUDA Setup failed despite GPU being available. Please run the following",
    ),
    (
        "IMG003",
        "RuntimeError: \nThe detected CUDA version (11.8) mismatches the version that was used to compile",
    ),
    ("IMG002", "RuntimeError: Triton Error [CUDA]: device kernel image is invalid"),
    (
        "IMG002",
        "RuntimeError: Internal Triton PTX codegen error\nUnsupported .version 8.7; current version is '8.4'",
    ),
    ("IMG002", "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)"),
    ("CKPT009", "_pickle.UnpicklingError: invalid load key, '\\x00'."),
    ("CKPT009", "safetensors_rust.SafetensorError: File does not contain tensor model.layers.31.weight"),
    ("CKPT009", "ValueError: Can't find a valid checkpoint at /opt/ml/checkpoints/checkpoint-1000"),
    (
        "CKPT009",
        "megatron.core.dist_checkpointing.core.CheckpointingException: /fsx/iter_10 is not a "
        "distributed checkpoint",
    ),
    ("DIST004", "RuntimeError: Mesh should not be bigger than default world size 8, but found 16 ranks!"),
    ("DIST004", "AssertionError: World size 8 is not divisible by tp_size 3 * pp_size 1 * sp_size 1"),
    (
        "MEM001",
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Attempting to reserve 15.32G at the bottom of "
        "memory.",
    ),
    (
        "NCCL004",
        "horovod.common.exceptions.HorovodInternalError: Mismatched allreduce tensor shapes: One rank "
        "sent a tensor "
        "of shape [2], but another rank sent a tensor of shape [3].",
    ),
    ("DISK002", "OSError: [Errno 39] Directory not empty: '/fsx/.triton/cache/Z/tmp.pid_47_8f' -> '/fsx/Z'"),
    (
        "HUB001",
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/api/models/m",
    ),
    ("CODE005", "ImportError: gptqmodel requires optimum version `1.24.0` or higher to be installed."),
    (
        "CODE005",
        "RuntimeError: Unable to JIT load the transformer_inference op due to ninja not being installed.",
    ),
    ("CODE005", "pkg_resources.DistributionNotFound: The 'tokenizers' distribution was not found"),
    (
        "CODE001",
        "ImportError: cannot import name 'AdamW' from 'transformers' (/opt/conda/transformers/__init__.py)",
    ),
    (
        "CKPT009",
        "FileNotFoundError: [Errno 2] No such file or directory: "
        "'/fsx/out/checkpoint-500/trainer_state.json'",
    ),
    ("CODE001", "ValueError: Invalid value for test_size: 2 of type <class 'int'>"),
    (
        "CODE001",
        "megatron.core.dist_checkpointing.core.CheckpointingException: Data dtype should match `dtype` "
        "attribute",
    ),
    ("CODE001", "ImportError: cannot import name 'install' from 'tools' (/opt/ml/code/tools.py)"),
    ("CODE001", "FileNotFoundError: [Errno 2] No such file or directory: '/fsx/out/labels.json'"),
    ("MEM001", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes"),
    ("MEM001", "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"),
    ("CODE005", "RuntimeError: WandbCallback requires wandb to be installed. Run `pip install wandb`."),
    ("CODE005", "ImportError: Install s3fs to access S3"),
    ("NUM001", "RuntimeError: Train loss contains a NaN."),
    (
        "S3001",
        "botocore.errorfactory.NoSuchKey: An error occurred (NoSuchKey) when calling the GetObject "
        "operation: The "
        "specified key does not exist.",
    ),
    ("CODE001", "FloatingPointError: Fatal error: gradients are inconsistent between workers."),
    ("CODE002", "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--lr', '1']"),
]
"""What a rank raises, each with its code."""

CUT = [
    "torch._dynamo.exc.Unsupported: Data-dependent branching",
    "Exception: data did not match any variant of untagged enum ModelWrapper at line 268080 column 3",
]
"""Exceptions whose names do not end in Error."""

BESIDE = [
    ("MEM002", "48213.0         python3 OUT_OF_ME+    0:125"),
    ("CODE002", "slurmstepd: error: execve(): torchrunn: No such file or directory"),
    ("CAP001", "srun: error: Unable to allocate resources: Requested node configuration is not available"),
    (
        "CAP002",
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)",
    ),
    ("IMG001", "slurmstepd: error: pyxis: failed to import docker image"),
    ("IMG001", "ResourceInitializationError: unable to pull secrets or registry auth: i/o timeout"),
    ("IMG001", "Warning  Failed  8s (x4 over 30s)  kubelet  Error: InvalidImageName"),
    (
        "DISK001",
        'Warning  Failed  12s  kubelet  Failed to pull image "a/b:1": failed to extract layer: write '
        "/var/lib/x.so: "
        "no space left on device: unknown",
    ),
    ("CAP001", "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector."),
    ("FSX005", '0/4 nodes are available: persistentvolumeclaim "fsx-claim" not found.'),
    ("FSX005", 'Multi-Attach error for volume "pvc-1a2b" Volume is already used by pod(s) trainer-0'),
    (
        "CAP002",
        'pods "train-0" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=8',
    ),
    (
        "MEM002",
        "Warning  SystemOOM  12s  kubelet  System OOM encountered, victim process: python3, pid: 4711",
    ),
    ("IMG002", "exec /usr/local/bin/start.sh: exec format error"),
    (
        "IMG002",
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open",
    ),
    ("NCCL011", "nvidia-container-cli: device error: 8: unknown device: unknown."),
    ("HW002", "nv-fabricmanager[1811]: detected NVSwitch fatal error 20034 on fid 0"),
    ("FSX005", "mount.nfs4: Connection timed out"),
    (
        "FSX005",
        "mount: /fsx: wrong fs type, bad option, bad superblock on fs-0.fsx.amazonaws.com@tcp:/abcdefgh",
    ),
    ("MPI001", "A process or daemon was unable to complete a TCP connection"),
    ("DIST003", "There are not enough slots available in the system to satisfy the 16"),
    ("NCCL004", "[gpu-1:4711] *** MPI_ERR_TRUNCATE: message truncated"),
    ("NCCL006", "[gpu-1:4711] tcp_peer_send_blocking: send() to socket 9 failed: Broken pipe (32)"),
    (
        "NCCL006",
        "[1763888888.123456] [gpu-1:4711 :0] ib_mlx5_log.c:171 Transport retry count exceeded on "
        "mlx5_0:1/RoCE",
    ),
    ("CODE005", "ERROR: Package 'transformers' requires a different Python: 3.7.16 not in '>=3.8.0'"),
    (
        "CODE005",
        "ERROR: Failed to build installable wheels for some pyproject.toml based projects (flash-attn)",
    ),
    ("CODE005", "  × No solution found when resolving dependencies:"),
    ("CODE005", "PackagesNotFoundError: The following packages are not available from current channels:"),
    ("CODE002", "Error: No such option: --foo"),
    ("CODE002", "FATAL Flags parsing error: Unknown command line flag 'learning_rat'."),
    (
        "IMG003",
        "Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open shared object file",
    ),
]
"""What a host, a scheduler or an installer prints by itself, each with its code."""

TAKEN = [
    "48213             train    TIMEOUT      0:0",
    "Normal  DisruptionTerminating  12s  karpenter  Disrupting Node: Underutilized/Delete",
    "Warning  SpotInterrupted  12s  karpenter  Spot interrupted warning was triggered for the node",
    "Normal  EvictedDueToPreempted  12s  kueue  Preempted to accommodate a workload (UID: 1a2b)",
    '"statusReason": "Host EC2 (instance i-0abc) terminated."',
    '"statusReason": "Job attempt duration exceeded timeout"',
]
"""What says that the job's place was taken."""

HARMLESS = [
    "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:",
    "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared "
    "object file: "
    "No such file or directory",
    "libibverbs: Warning: couldn't load driver 'libefa-rdmav34.so': libefa-rdmav34.so: cannot open "
    "shared object "
    "file: No such file or directory",
    "nv-fabricmanager[1811]: detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id "
    "00000000:84:00.0",
    "UserWarning: The installed version of bitsandbytes was compiled without GPU support.",
    "An error occurred (404) when calling the HeadObject operation: Not Found; no checkpoint yet, "
    "starting anew",
    "ERROR: Failed building wheel for mpi4py",
    "Host key verification failed.",
    "ssh: connect to host github.com port 22: Connection timed out",
    "train.sh: line 3: module: command not found",
    "Exception caught and ignored: ValueError: bad sample 17",
    "Warning: Permanently added 'algo-2,10.0.1.7' (ECDSA) to the list of known hosts.",
    "INFO:jax._src.xla_bridge:Unable to initialize backend 'cuda': not built with CUDA",
    "W1123 09:11:12 torch/_inductor/utils.py:1137] [0/0] Not enough SMs to use max_autotune_gemm mode",
    "pcieport 0000:52:00.0: AER: Corrected error message received from 0000:53:00.0",
    "ERROR: pip's dependency resolver does not currently take into account all the packages that are "
    "installed.",
]
"""What the same programs print without failing."""


def told(text: str) -> Diagnosis:
    return diagnose(records(text, host="algo-1"))


@pytest.mark.parametrize(("code", "exception"), RAISED)
def test_what_a_rank_raises_is_named(code: str, exception: str) -> None:
    frames = (
        'Traceback (most recent call last):\n  File "/opt/ml/code/train.py", line 9, in <module>\n    main()'
    )
    root = told(f"{STEPS}\n{frames}\n{exception}").root_cause
    assert root is not None and root.finding.code == code


@pytest.mark.parametrize("exception", CUT)
def test_of_a_traceback_that_was_cut_the_exception_is_told_by_its_name(exception: str) -> None:
    frames = '  File "/opt/ml/code/train.py", line 9, in <module>\n    main()'
    root = told(f"{frames}\n{exception}").root_cause
    assert root is not None and root.finding.code == "CODE001"
    assert exception.rpartition(".")[2][:20] in root.finding.message


@pytest.mark.parametrize(("code", "line"), BESIDE)
def test_what_stands_beside_the_ranks_lines_is_named(code: str, line: str) -> None:
    root = told(line).root_cause
    assert root is not None and root.finding.code == code


@pytest.mark.parametrize("line", TAKEN)
def test_a_job_whose_place_was_taken_did_not_fail(line: str) -> None:
    assert told(f"{STEPS}\n{line}").verdict is Verdict.STOPPED


@pytest.mark.parametrize(
    "line", ["48213.5 seconds elapsed, TIMEOUT is 86400", "48213 samples in state TIMEOUT were skipped"]
)
def test_a_word_that_is_also_a_state_of_slurm_ends_nothing(line: str) -> None:
    assert told(f"{STEPS}\n{line}\n{STEPS}").root_cause is None


@pytest.mark.parametrize("line", HARMLESS)
def test_what_harms_nothing_is_no_failure(line: str) -> None:
    for text in (line, f"{line}\n{STEPS}", f"{STEPS}\n{line}\ntraining completed"):
        assert told(text).verdict is not Verdict.FAILED


@pytest.mark.parametrize(
    "before",
    [
        "FailureReason: ",
        '"FailureReason": "',
        "sagemaker.exceptions.UnexpectedStatusException: Error for Training job pytorch-1: Failed. Reason: ",
    ],
)
def test_the_reason_of_the_service_is_read_like_a_line_wherever_it_is_quoted(before: str) -> None:
    root = told(f"{before}PermissionError: Access Denied").root_cause
    assert root is not None and root.finding.code == "S3002"

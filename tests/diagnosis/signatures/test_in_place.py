"""What programs say, where they say it: exceptions of a rank, warnings of NCCL, lines that harm nothing."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis, Verdict
from tests.diagnosis.cases import records

RAISED = [
    (
        "NCCL011",
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
    ),
    (
        "NCCL011",
        "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    ),
    (
        "IMG002",
        "RuntimeError: CUDA error: API call is not supported in the installed CUDA driver",
    ),
    (
        "HW002",
        "RuntimeError: CUDA driver error: unknown error",
    ),
    (
        "MEM001",
        "RuntimeError: Triton Error [CUDA]: out of memory",
    ),
    (
        "MEM001",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ),
    (
        "MEM002",
        "RuntimeError: std::bad_alloc",
    ),
    (
        "MEM002",
        "pyarrow.lib.ArrowMemoryError: malloc of size 4294967296 failed",
    ),
    (
        "NCCL006",
        "RuntimeError: Connection reset by peer",
    ),
    (
        "NCCL006",
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
    ),
    (
        "NCCL006",
        "RuntimeError: NCCL communicator was aborted on rank 3.",
    ),
    (
        "NCCL006",
        "RuntimeError: [../gloo/transport/tcp/pair.cc:525] Read error [10.0.0.7]:24: Connection timed out",
    ),
    (
        "NCCL007",
        "torch.distributed.DistBackendError: NCCL timeout in communicator initialization.",
    ),
    (
        "NCCL007",
        "RuntimeError: [enforce fail at /gloo/device.cc:83] ifa != nullptr. Unable to find address for: eth9",
    ),
    (
        "NCCL008",
        "RuntimeError: connect() timed out.",
    ),
    (
        "NCCL008",
        "RuntimeError: [../gloo/transport/tcp/pair.cc:799] connect [10.0.0.7]:20000: No route to host",
    ),
    (
        "NCCL009",
        "RuntimeError: [enforce fail at listener.cc:40] rv != -1. -1 vs -1. bind: Address already in use",
    ),
    (
        "DATA005",
        "RuntimeError: unable to resize file <filename not specified> to the right size: No "
        "space left on device (28)",
    ),
    (
        "DATA010",
        "RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: "
        "Too many open files (24)",
    ),
    (
        "DIST003",
        "ValueError: local_rank 8 exceeds available GPUs in CUDA_VISIBLE_DEVICES=0,1",
    ),
    (
        "DDP002",
        "RuntimeError: It looks like your LightningModule has parameters that were not used "
        "in producing the loss returned by training_step.",
    ),
    (
        "NUM001",
        "ValueError: The loss returned in `training_step` is nan.",
    ),
    (
        "S3001",
        "botocore.exceptions.ClientError: An error occurred (NoSuchBucket) when calling the "
        "GetObject operation: The specified bucket does not exist",
    ),
    (
        "CKPT009",
        "RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for "
        "fc.weight: copying a param with shape torch.Size([3, 2]) from checkpoint, the shape "
        "in current model is torch.Size([2, 2]).",
    ),
]
"""What a rank raises, each with its code."""

BEFORE = {
    "nothing": "",
    "a rank": "[rank3]: ",
    "Ray": "(RayTrainWorker pid=1234, ip=10.0.0.2) ",
    "a host": "algo-1 ",
    "containerd": "stderr F ",
}
"""What may stand before each line of a traceback."""

WARNED = [
    ("MEM001", "include/alloc.h:200 NCCL WARN Failed to CUDA calloc async 608 bytes"),
    ("HW002", "enqueue.cc:200 NCCL WARN Cuda failure 719 'unspecified launch failure'"),
    ("IMG002", "init.cc:200 NCCL WARN Cuda failure 802 'system not yet initialized'"),
    ("NCCL004", "misc/socket.cc:700 NCCL WARN Message truncated : received 1024 bytes instead of 256"),
    ("NCCL007", "graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found"),
    ("NCCL011", "graph/paths.cc:700 NCCL WARN P2P is disabled between NVLINK connected GPUs 1 and 0."),
    ("EFA005", "nccl_net_ofi_create_plugin:250 NCCL WARN NET/OFI Failed to initialize rdma protocol"),
    ("EFA005", "plugin/net.cc:300 NCCL WARN Error: network AWS Libfabric not found."),
    ("EFA007", "reg_mr_on_device:2000 NCCL WARN NET/OFI Could not register memory on rail 0 with flag 0"),
]
"""What NCCL and its plugin warn of before the rank raises, each with its code."""

HARMLESS = [
    "[W socket.cpp:464] [c10d] The server socket has failed to bind to [::]:29500 "
    "(errno: 98 - Address already in use).",
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to "
    "[::ffff:10.0.0.1]:7777 (errno: 111 - Connection refused).",
    "[W ProcessGroupGloo.cpp:685] Warning: Unable to resolve hostname to a (local) "
    "address. Using the loopback address as fallback. Manually set the network interface "
    "to bind to with GLOO_SOCKET_IFNAME.",
    "torch/cuda/__init__.py:138: UserWarning: CUDA initialization: CUDA unknown error - "
    "this may be due to an incorrectly set up environment",
    "torch/cuda/__init__.py:138: UserWarning: CUDA initialization: Unexpected error from "
    "cudaGetDeviceCount(). Did you run some cuda functions before? Error 304: OS call "
    "failed or operation not supported on this OS",
    "algo-1:88:141 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation",
    "algo-1:88:141 [0] graph/xml.cc:332 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:00",
    "algo-1:88:141 [0] ras/ras.cc:415 NCCL WARN NCCL version mismatch with remote peer "
    "10.0.0.2 (local: 2.27.3, remote 2.26.2)",
    "algo-1:88:141 [0] nccl_ofi_gdrcopy_init:10 NCCL WARN NET/OFI Failed to initialize GDRCopy: -1",
    "INFO CUDA out of memory. Tried to allocate 2.00 GiB, halving the batch size to 8",
    "WARNING: skipping sample 000123: loss is nan for this sample, ignored",
    "eval: error: 0.13, accuracy: 0.87",
    "INFO:__main__:No checkpoint found at /opt/ml/checkpoints, starting from scratch",
    "size mismatch for head.weight: copying a param with shape torch.Size([3, 2]) from "
    "checkpoint, the shape in current model is torch.Size([2, 2]).",
    "[W CUDAGuardImpl.h:115] Warning: CUDA warning: driver shutting down (function destroyEvent)",
    "No socket on (algo-1, 29500) is listening yet, will retry.",
]
"""What the same programs print without failing."""

BARRIER = (
    "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
    "(world_size={ranks}, worker_count={workers}, timeout=0:30:00)"
)


def raised(exception: str, before: str = "") -> str:
    lines = [
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 120, in <module>',
        "    main()",
        *exception.split("\n"),
    ]
    return "\n".join(before + line for line in lines)


def told(text: str) -> Diagnosis:
    return diagnose(records(text, host="algo-1"))


@pytest.mark.parametrize("before", [pytest.param(text, id=name) for name, text in BEFORE.items()])
@pytest.mark.parametrize(("code", "exception"), RAISED)
def test_what_a_rank_raises_is_named_whatever_stands_before_it(
    code: str, exception: str, before: str
) -> None:
    root = told(raised(exception, before)).root_cause
    assert root is not None and root.finding.code == code


@pytest.mark.parametrize(("code", "warning"), WARNED)
def test_what_nccl_warned_of_beats_what_it_then_raises(code: str, warning: str) -> None:
    error = "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error, NCCL version 2.21.5"
    text = f"algo-1:88:141 [3] {warning}\n{raised(f'torch.distributed.DistBackendError: {error}')}"
    root = told(text).root_cause
    assert root is not None and root.finding.code == code


@pytest.mark.parametrize("line", HARMLESS)
def test_what_harms_nothing_is_no_failure(line: str) -> None:
    steps = "\n".join(f"step {number} loss 2.{number}" for number in range(1, 9))
    for text in (line, f"{line}\n{steps}", f"{steps}\n{line}", f"{steps}\n{line}\ntraining completed"):
        assert told(text).verdict is not Verdict.FAILED


def test_more_processes_than_ranks_at_the_stores_barrier_are_the_failure() -> None:
    root = told(BARRIER.format(ranks=4, workers=8)).root_cause
    assert root is not None and root.finding.code == "NCCL008"
    assert "8 processes" in root.finding.message and "4 ranks" in root.finding.message


@pytest.mark.parametrize("workers", [1, 4])
def test_a_barrier_at_the_store_is_ordinary_until_more_than_all_ranks_are_there(workers: int) -> None:
    assert told(BARRIER.format(ranks=4, workers=workers)).root_cause is None

"""The figures in the catalogue's texts: what each is, and which source carries it.

A figure is a number that somebody measured, limited or chose, and that may change; ranks, exit codes and what
stands in backticks are none. `tests/failure_modes/test_figures.py` finds a text with a figure that is not
here, and a figure here that no text has any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from launcher.failure_modes import sources
from launcher.failure_modes.sources import Source


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as it is written in a text, what it is, and where it was read.

    `source` is None where nobody else says so: an example, a sum of other figures, a bound of our own, or a
    number by definition; `what` then says which of these it is.
    """

    number: str
    what: str
    source: Source | None


_ALL_TRAFFIC = Figure("-1", "the protocol number that means all traffic", sources.EC2_EFA_SECURITY_GROUP)
_NCCL_TIMEOUT = (
    Figure("10", "minutes that a collective of NCCL waits by default", sources.TORCH_NCCL_TIMEOUT),
    Figure("2.2", "torch from which on it is 10 minutes", sources.TORCH_NCCL_TIMEOUT),
    Figure("30", "minutes by default before, and for gloo", sources.TORCH_NCCL_TIMEOUT),
)

FIGURES: Final[Mapping[str, tuple[Figure, ...]]] = MappingProxyType(
    {
        "EFA001": (_ALL_TRAFFIC, Figure("0-65535", "all ports of TCP, by definition", None)),
        "EFA002": (_ALL_TRAFFIC,),
        "EFA003": (Figure("443", "the port of HTTPS, by definition", None),),
        "EFA004": (
            Figure("5", "addresses of a host with EFA, at least", sources.TRAINING_IN_VPC),
            Figure("2", "addresses of a host without EFA", sources.TRAINING_IN_VPC),
            Figure("5", "addresses of a subnet that AWS keeps", sources.SUBNET_SIZES),
            Figure("251", "addresses of a /24 without these: a sum", None),
            Figure("50", "hosts at 5 addresses each in a /24: a sum", None),
        ),
        "EFA005": (
            Figure("1.14", "plugin that writes 'provider' small", sources.EFA_PLUGIN_NETWORK),
            Figure("1.13", "plugin that is called Libfabric on GPUs", sources.EFA_PLUGIN_NETWORK),
        ),
        "EFA007": (
            Figure("1.18", "libfabric from which on the process is aborted", sources.LIBFABRIC_EFA),
            Figure("4", "the generation of Nitro from which on EFA reads by RDMA", sources.EC2_EFA),
            Figure("1.29.1", "the first EFA installer without the fault", sources.EFA_CHEATSHEET),
            Figure("2.19", "the first NCCL that meets it", sources.EFA_CHEATSHEET),
            Figure("1.7", "plugin from which on the variable is not needed", sources.EFA_PLUGIN_ENVIRONMENT),
            Figure("1.19.0", "the last libfabric that reads the variable", sources.LIBFABRIC_EFA),
        ),
        "NCCL002": (
            Figure("2.5", "NCCL that dropped the variable", sources.NCCL_ENVIRONMENT),
            Figure("2.2", "torch that renamed the variables", sources.TORCH_NCCL_ENVIRONMENT),
            Figure("3", "the default of the error handling", sources.TORCH_NCCL_ENVIRONMENT),
        ),
        "NCCL004": _NCCL_TIMEOUT,
        "NCCL008": (Figure("600", "seconds that torchrun waits for all hosts", sources.TORCH_RENDEZVOUS),),
        "DIST001": (Figure("8", "GPUs of p3.16xlarge, p3dn, p4d and later", sources.INSTANCE_TYPE_API),),
        "DIST002": (
            Figure("2.3.1", "the last PyTorch with SMDDP", sources.DATA_PARALLEL_SUPPORT),
            Figure("2.5.1", "the last PyTorch with SMP", sources.MODEL_PARALLEL_SUPPORT),
            Figure("1.12", "a PyTorch with the Training Compiler", sources.TRAINING_COMPILER_SUPPORT),
            Figure("1.13", "the last one with it", sources.TRAINING_COMPILER_SUPPORT),
        ),
        "CKPT002": (
            Figure("10", "billion parameters, from which AWS advises Lustre", sources.MODEL_PARALLEL_GUIDE),
            Figure("12", "bytes of a parameter and Adam's two states in 32 bits: a sum", None),
            Figure("16", "bytes with a master copy of each parameter: a sum", None),
            Figure("120", "GB, 12 bytes of each of 10 billion parameters: a sum", None),
        ),
        "FSX004": (
            Figure("988", "a port of Lustre", sources.FSX_ACCESS_CONTROL),
            Figure("1018-1023", "the other ports of Lustre", sources.FSX_ACCESS_CONTROL),
            Figure("1021-1023", "an example of too few", None),
        ),
        "FSX006": (Figure("500", "GB, a bound of our own", None),),
        "DATA005": (
            Figure("2", "batches that each worker prefetches", sources.TORCH_DATA),
            Figure("1.19", "the first libfabric that knows the variable", sources.LIBFABRIC_EFA),
        ),
        "DATA006": (
            Figure("96", "vCPUs of a p4d.24xlarge", sources.INSTANCE_TYPE_API),
            Figure("8", "GPUs of a p4d.24xlarge", sources.INSTANCE_TYPE_API),
            Figure("16", "workers of the example", None),
            Figure("128", "workers of a host in the example: a sum", None),
            Figure("11", "96 vCPUs by 8 processes, less one: a sum", None),
        ),
        "DDP005": (
            *_NCCL_TIMEOUT,
            Figure("60", "seconds, an example", None),
            Figure("300", "seconds, an example", None),
        ),
        "DDP006": (Figure("2.4", "torch from which on it warns", sources.TORCH_DISTRIBUTED),),
        "MEM001": (Figure("16", "bytes of parameter, gradient, copy and Adam's two states: a sum", None),),
        "HW002": (
            Figure("79", "XID of a GPU fallen off the bus", sources.XID_ERRORS),
            Figure("74", "XID of NVLink", sources.XID_ERRORS),
            Figure("48", "XID of a double-bit memory error", sources.XID_ERRORS),
            Figure("119", "XID of a GPU that answers no more", sources.XID_ERRORS),
            Figure("13", "XID that is mostly the program's own fault", sources.XID_ERRORS),
            Figure("31", "XID that is mostly the program's own fault", sources.XID_ERRORS),
        ),
        "XLA009": (
            Figure("1.13.1", "the last PyTorch with the compiler", sources.TRAINING_COMPILER_SUPPORT),
            Figure("2", "the PyTorch that torch.compile came with, by its name", None),
        ),
        "NET002": (
            Figure("500", "UDP port of the key exchange", sources.TRAFFIC_ENCRYPTION),
            Figure("50", "the protocol number of ESP, by definition", None),
        ),
        "SPEC001": (Figure("10,000", "nodes, a bound of our own (docs/job-file.md)", None),),
        "SPEC004": (
            Figure("100", "environment variables", sources.TRAINING_JOB_API),
            Figure("512", "characters of a value", sources.TRAINING_JOB_API),
            Figure("20", "channels", sources.TRAINING_JOB_API),
            Figure("5", "security groups", sources.TRAINING_JOB_API),
        ),
    }
)
"""By code, in the catalogue's order, and within a mode in the order of the texts."""

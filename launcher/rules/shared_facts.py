"""What rules of several rooms go by: what environment variables do to a job, and when a download is large.

The judgement of variables of NCCL, libfabric and torch needs no more than name, value and the version of
torch; the rules on jobs and on scripts share it. The bounds of what downloading a training set to every host
costs are shared by the rules on jobs and on the account.
"""

from __future__ import annotations

from dataclasses import replace

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import sources
from launcher.failure_modes.model import Figure
from launcher.frozen import frozen

FIGURES = (Figure("3", "default of TORCH_NCCL_ASYNC_ERROR_HANDLING", sources.TORCH_NCCL_ENVIRONMENT),)

SWITCHED_OFF = ("", "0")
"""The values of an environment variable that switch off what it is about."""

SWITCHED_ON = ("1", "true", "yes", "on")
"""The values, in lower case, by which libfabric takes a variable for switched on."""

# Since torch 2.2, which takes the old name for the new one (ProcessGroupNCCL.hpp; still so in torch 2.13).
_RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
}

_TIMEOUT = "the time-out of collectives is `timeout` of torch.distributed.init_process_group"

UNREAD_VARIABLES = {
    "NCCL_TIMEOUT": _TIMEOUT,
    "TORCH_NCCL_TIMEOUT": _TIMEOUT,
    "TORCH_DISTRIBUTED_TIMEOUT": _TIMEOUT,
    "PYTORCH_TIMEOUT": _TIMEOUT,
    "NCCL_SOCKET_TIMEOUT": _TIMEOUT,
    "NCCL_SOCKET_TIMEOUT_MS": _TIMEOUT,
    "TORCHELASTIC_MAX_CALLTIME": "torchrun waits for all hosts as long as its rendezvous does",
    "TORCH_DISTRIBUTED_DETAILED_LOGGING": "TORCH_DISTRIBUTED_DEBUG and TORCH_CPP_LOG_LEVEL are read",
    "NCCL_BUFFERSIZE": "the size of the buffers is NCCL_BUFFSIZE, which the plugin chooses",
    "NCCL_MIN_CHANNELS": "the variable is NCCL_MIN_NCHANNELS, and more channels starve EFA",
    "NCCL_MAX_CHANNELS": "the variable is NCCL_MAX_NCHANNELS",
    "NCCL_NET_MAX_REQUESTS": "it is a constant of NCCL, not a variable",
    "NCCL_NSOCKS": "the variable is NCCL_NSOCKS_PERTHREAD, and is for TCP sockets alone",
    "NSOCKS": "the variable is NCCL_NSOCKS_PERTHREAD, and is for TCP sockets alone",
    "FI_EFA_DEVICE_NAME": "libfabric chooses its devices by FI_EFA_IFACE",
}
"""What people set, AWS's own examples among them, and nothing reads; and what is read instead.

Looked for, on 2026-11-22, in NVIDIA/nccl (every tag from v2.3.5-5 to v2.30.7-1), torch 2.13.0 (the Python
files, libraries and headers of the wheel), aws-ofi-nccl 2daf7d30 and ofiwg/libfabric af8ddbe9.
"""

_REMOVED_VARIABLES = {
    "NCCL_TREE_THRESHOLD": "2.5",
    "NCCL_LL_THRESHOLD": "2.5",
    "NCCL_RINGS": "2.5",
    "NCCL_IB_CUDA_SUPPORT": "2.4",
    "NCCL_IB_GDR_LEVEL": "2.4",
}
"""What NCCL read once, and the first version that does not (the same tags)."""


@frozen
class Advice:
    """What a variable does to a job; not with the harmless values, and with some only where EFA is."""

    harm: str
    harmless: tuple[str, ...] = ("",)
    with_efa_only: bool = False

    @property
    def whatever_it_is(self) -> bool:
        """Whether the variable is set for nothing with any value that says something."""
        return self is _FOR_INFINIBAND


_LEFT_TO_THE_PLUGIN = Advice("overrides what the plugin chooses for this instance type", with_efa_only=True)

_FOR_INFINIBAND = Advice(
    "has no effect on EFA, which is not InfiniBand; it is a sign of settings copied from other hosts"
)

_NEARER_THAN_NEVER = ("", "NVL", "PIX", "PXB", "PHB", "NODE", "SYS", "1", "2", "3", "4", "5")
"""The distances of NCCL's levels but the first, LOC or 0, which is never (NCCL, environment variables)."""

VARIABLE_ADVICE = {
    "NCCL_IB_DISABLE": replace(_FOR_INFINIBAND, harmless=SWITCHED_OFF),
    "NCCL_PROTO": Advice("takes the other protocols from NCCL and disables the plugin's tuner"),
    "NCCL_ALGO": Advice("takes the other algorithms from NCCL and disables the plugin's tuner"),
    "NCCL_P2P_DISABLE": Advice("gives up NVLink and PCIe between the GPUs of a host", SWITCHED_OFF),
    "NCCL_SHM_DISABLE": Advice(
        "takes shared memory from the processes of a host: what GPUs without a direct way exchange goes over "
        "the network",
        SWITCHED_OFF,
    ),
    "NCCL_P2P_LEVEL": Advice("gives up NVLink and PCIe between the GPUs of a host", _NEARER_THAN_NEVER),
    "NCCL_NET_GDR_LEVEL": Advice(
        "copies every message through host memory", _NEARER_THAN_NEVER, with_efa_only=True
    ),
    "RDMAV_FORK_SAFE": Advice(
        "is of older guides: it slows registration down, and libfabric makes forking safe by itself",
        SWITCHED_OFF,
    ),
    "RDMAV_HUGEPAGES_SAFE": Advice(
        "is of older guides: it slows every memory registration down", SWITCHED_OFF
    ),
    "FI_EFA_USE_HUGE_PAGE": Advice(
        "contradicts the fork safety that the plugin asks for: where the kernel needs that, libfabric aborts "
        "over both, and elsewhere forking DataLoader workers can use up the huge pages",
        ("", "0", "false", "no", "off"),
        with_efa_only=True,
    ),
    "NCCL_IBEXT_DISABLE": _FOR_INFINIBAND,
    "NCCL_MIN_NCHANNELS": Advice("asks for more channels, which starve EFA", with_efa_only=True),
    **dict.fromkeys(
        ("NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_NTHREADS"),
        Advice("is for NCCL's TCP sockets, which EFA takes the place of", with_efa_only=True),
    ),
    **dict.fromkeys(
        (
            "NCCL_TUNER_PLUGIN",
            "NCCL_BUFFSIZE",
            "NCCL_P2P_NET_CHUNKSIZE",
            "NCCL_TOPO_FILE",
            "NCCL_NVLS_ENABLE",
            "NCCL_NVLSTREE_MAX_CHUNKSIZE",
            "NCCL_NVLS_CHUNKSIZE",
            "NCCL_NET_FORCE_FLUSH",
            "NCCL_NETDEVS_POLICY",
        ),
        _LEFT_TO_THE_PLUGIN,
    ),
}


def advice_on(name: str) -> Advice | None:
    """What setting a variable does to a job; None where that depends on more than its name."""
    return (
        _FOR_INFINIBAND
        if name not in VARIABLE_ADVICE and name.startswith("NCCL_IB_")
        else VARIABLE_ADVICE.get(name)
    )


def excludes_efa(providers: str) -> bool:
    """Whether a value of FI_PROVIDER excludes EFA, by its name or by naming others."""
    excluding = providers.strip().startswith("^")
    names = {part.strip().lower() for part in providers.strip().lstrip("^").replace(";", ",").split(",")} - {
        ""
    }
    return bool(names) and ("efa" in names) is excluding


def interface_harm(value: str) -> str | None:
    """Fixed names, and exclusions that meet SageMaker's own interface, which is called eth0 or ens5."""
    names = [name for name in value.lstrip("^").split(",") if name]
    if value.startswith("^"):
        met = [name for name in names if "eth0".startswith(name) or "ens5".startswith(name)]
        return f"excludes SageMaker's own interface with {met[0]}" if met else None
    return "names an interface that some host lacks; NCCL finds none there and stops" if names else None


def network_harm(name: str, value: str) -> str | None:
    """What a variable does to the network of any job, whatever its hosts are; None where it does nothing."""
    value = value.strip()
    if name == "FI_PROVIDER":
        return "turns EFA off: messages between hosts go over TCP" if excludes_efa(value) else None
    if name == "NCCL_NET" and value.lower() == "socket":
        return "turns EFA off: NCCL uses TCP sockets"
    if name == "NCCL_SOCKET_IFNAME":
        return interface_harm(value)
    advice = advice_on(name)
    if advice is None or advice.with_efa_only or value in advice.harmless:
        return None
    return None if (name, value.lower()) == ("NCCL_PROTO", "simple") else advice.harm


def why_obsolete(name: str, value: str, torch: tuple[int, int] | None) -> str | None:
    """What is vain about a variable, under this version of torch (None: unknown); None where nothing is."""
    if name in UNREAD_VARIABLES:
        return f"nothing reads it, so it changes nothing; {UNREAD_VARIABLES[name]}"
    if name in _REMOVED_VARIABLES:
        return f"gone since NCCL {_REMOVED_VARIABLES[name]}; it changes nothing"
    if name in ("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS"):
        new = name.replace("NRINGS", "NCHANNELS")
        return f"an old name of {new}; more channels starve EFA instead of making it faster"
    if name == "NCCL_AVOID_RECORD_STREAMS" and torch is not None and torch >= (2, 2):
        return f"torch {torch[0]}.{torch[1]} reads TORCH_NCCL_AVOID_RECORD_STREAMS instead"
    if name in _RENAMED and torch is not None and torch >= (2, 2):
        return (
            f"torch {torch[0]}.{torch[1]} takes it for {_RENAMED[name]}, and warns of the "
            "old name on every rank"
        )
    if name == "TORCH_NCCL_ASYNC_ERROR_HANDLING" and value.strip() not in ("", "3"):
        return "the flight recorder relies on the default of 3; a hang would leave no record of its cause"
    return None


_DEBUGGING_SWITCHES = {
    "CUDA_LAUNCH_BLOCKING": "makes every kernel wait for the one before it, and stabilises nothing",
    "TORCH_NCCL_BLOCKING_WAIT": "blocks the host at each collective and ends the watchdog that records hangs",
    "TORCH_NCCL_NAN_CHECK": "looks for NaN in what every collective sends",
    "TORCH_NCCL_DESYNC_DEBUG": "writes every collective of every rank into the store",
    "NCCL_CHECK_POINTERS": "checks the pointers of every collective",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "asks the driver for every tensor's memory, for which the device waits",
    "PYTHONTRACEMALLOC": "notes where every object was allocated",
    "PYTHONDEVMODE": "turns on the checks of Python's development mode",
}
"""What is on with any value but nothing and 0 (NCCL, environment variables; torch, ProcessGroupNCCL.hpp and
CUDA environment variables; Python, command line and environment)."""

_VERBOSE = "writes lines for each rank in which warnings are lost"
_DEBUGGING_LEVELS = {
    ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"): "compares every collective over all ranks before it runs",
    ("NCCL_DEBUG", "TRACE"): "floods the log with every call of every rank",
    ("FI_LOG_LEVEL", "DEBUG"): "floods the log with every call of every rank",
    ("FI_LOG_LEVEL", "TRACE"): "floods the log with every call of every rank",
    ("PYTHONMALLOC", "DEBUG"): "checks every allocation of Python",
}
_VERBOSE_LEVELS = {
    ("NCCL_DEBUG", "INFO"): "writes hundreds of lines for each rank at the start, in which warnings are lost",
    ("TORCH_CPP_LOG_LEVEL", "INFO"): _VERBOSE,
    ("FI_LOG_LEVEL", "INFO"): _VERBOSE,
}


def debugging_cost(name: str, value: str) -> str | None:
    """What a variable that is meant for debugging costs a normal run."""
    value = value.strip().upper()
    if name in _DEBUGGING_SWITCHES:
        return None if value in SWITCHED_OFF else _DEBUGGING_SWITCHES[name]
    return _DEBUGGING_LEVELS.get((name, value)) or _VERBOSE_LEVELS.get((name, value))


def is_only_verbose(name: str, value: str) -> bool:
    """Whether debugging costs no more than lines of the log."""
    return (name, value.strip().upper()) in _VERBOSE_LEVELS


# What downloading a training set to every host costs: the bounds of all rules about it.


LARGE_DATASET_BYTES = 500 * 1000**3
"""More than this is long to download at every start and every retry."""


def disk_bytes(facts: InstanceFacts | None, volume_size_gb: float) -> float | None:
    """Where downloads go: the host's own NVMe drives, else the volume; None for an unknown type."""
    return None if facts is None else (facts.local_nvme_gb or volume_size_gb) * 1e9

"""NCCL and the process groups built on it: settings, initialisation, time-outs."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Retry, Severity, Symptom

FIGHTS_THE_PLUGIN = FailureMode(
    code="NCCL001",
    title="environment that turns EFA off or fights the plugin",
    cause=(
        "aws-ofi-nccl tunes NCCL for each instance type and never over what the user set, so a setting "
        "copied from another cluster wins and harms. FI_PROVIDER=tcp or sockets, and NCCL_NET=Socket, turn "
        "EFA off; NCCL_NET with a name that no network of the image has ends the start; NCCL_PROTO and "
        "NCCL_ALGO disable the tuner; NCCL_P2P_DISABLE=1 gives up NVLink; a fixed NCCL_SOCKET_IFNAME names "
        "an interface that some host lacks; NCCL_IB_DISABLE and all NCCL_IB_ variables do nothing on EFA."
    ),
    remedy=(
        "Remove the variable and leave the choice to the plugin. The interface for NCCL_SOCKET_IFNAME is "
        "read in the container, from `network_interface_name` in resourceconfig.json."
    ),
    sources=(
        sources.EFA_PLUGIN_PLATFORM,
        sources.EFA_PLUGIN_ENVIRONMENT,
        sources.EFA_PLUGIN_TUNER_ISSUE,
        sources.NCCL_ENVIRONMENT,
        sources.DDP_GUIDE,
    ),
)

OBSOLETE_ENVIRONMENT = FailureMode(
    code="NCCL002",
    title="obsolete environment, or variables that nothing reads",
    cause=(
        "NCCL_TREE_THRESHOLD is gone since NCCL 2.5; NCCL_MIN_NRINGS and NCCL_MAX_NRINGS are old names of "
        "NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS, and more channels starve EFA instead of tuning it; "
        "NCCL_ASYNC_ERROR_HANDLING and NCCL_BLOCKING_WAIT carry a TORCH_ prefix since torch 2.2. "
        "NCCL_TIMEOUT, NCCL_SOCKET_TIMEOUT, TORCH_DISTRIBUTED_TIMEOUT and others were never read by "
        "anything, though published examples set them. Such settings do nothing, or something else than "
        "their author believed."
    ),
    remedy=(
        "Remove them. The time-out of collectives is `timeout` of init_process_group. "
        "TORCH_NCCL_ASYNC_ERROR_HANDLING stays at its default of 3, on which the flight recorder relies."
    ),
    sources=(
        sources.DDP_GUIDE,
        sources.NCCL_ENVIRONMENT,
        sources.NCCL_PARAMETERS,
        sources.TORCH_NCCL_ENVIRONMENT,
    ),
    severity=Severity.WARNING,
)

DEBUGGING_ENVIRONMENT = FailureMode(
    code="NCCL003",
    title="debugging environment in a normal run",
    cause=(
        "CUDA_LAUNCH_BLOCKING=1 makes every kernel wait for the one before it, "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL compares every collective over all ranks, "
        "TORCH_NCCL_BLOCKING_WAIT=1 blocks the host at each wait, and NCCL_DEBUG=TRACE floods the log. "
        "None of them makes training more stable; all of them slow it down for as long as they stay."
    ),
    remedy=(
        "Remove them from the job and use `profile: debug` for the run that needs them. NCCL_DEBUG=WARN "
        "and the flight recorder are cheap and always on."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_NCCL_ENVIRONMENT, sources.TORCH_DISTRIBUTED),
    severity=Severity.WARNING,
)

COLLECTIVE_TIMED_OUT = FailureMode(
    code="NCCL004",
    title="a collective timed out: ranks disagree or one is missing",
    cause=(
        "A collective ends only when every rank of its group has called it, in the same order and with the "
        "same shapes. If one rank is dead, slow or on another branch, the others wait until the watchdog "
        "ends them: after 10 minutes by default with NCCL since torch 2.2, 30 minutes before, and all hosts "
        "are billed for that time."
    ),
    remedy=(
        "Look at the rank that is behind or missing, not at those that reported: compare the last "
        "enqueued operation of each rank in the flight recorder's dumps (`torchfrtrace` reads them). Fix "
        "branches that differ between ranks; raise `timeout` in init_process_group only where a rank is "
        "rightly slow, as in saving a checkpoint."
    ),
    sources=(
        sources.DDP_GUIDE,
        sources.DDP_ERROR_ARTICLE,
        sources.TORCH_FLIGHT_RECORDER,
        sources.TORCH_NCCL_TIMEOUT,
    ),
    symptom=Symptom.EFFECT,
)

SYSTEM_ERROR = FailureMode(
    code="NCCL005",
    title="unhandled system error: usually a rank out of memory",
    cause=(
        "'ncclSystemError: System call (socket, malloc, munmap, etc) failed' names no cause. Most often a "
        "GPU has no memory left for NCCL's buffers; sometimes shared memory, locked memory or a socket "
        "failed."
    ),
    remedy=(
        "Search the same rank's log for an earlier out-of-memory line. Reduce the batch size, or "
        "`active_microbatches` with SMP, and balance the pipeline partitions by hand if one is larger; "
        "with NCCL_DEBUG=WARN the line before the error names the call that failed."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.NCCL_TROUBLESHOOTING),
    symptom=Symptom.EFFECT,
)

CLOSED_BY_PEER = FailureMode(
    code="NCCL006",
    title="connection closed by a peer: a symptom, never the root while another cause is in reach",
    cause=(
        "When one rank dies, its connections close and every other rank reports a remote error, a closed "
        "connection or a broken pipe, often more loudly than the first one did. These ranks are healthy."
    ),
    remedy=(
        "Find the rank that failed first, by time, and fix what stopped it. Only if no rank has a cause "
        "of its own, suspect a lost host: restart from the checkpoint on other hosts."
    ),
    sources=(sources.DDP_ERROR_ARTICLE, sources.NCCL_REMOTE_ERROR_ISSUE),
    # Without another cause in reach, a lost connection is a lost host.
    retry=Retry.OTHER_HOSTS,
    symptom=Symptom.ECHO,
)

INITIALISATION_STALLED = FailureMode(
    code="NCCL007",
    title="stall or failure at NCCL initialisation",
    cause=(
        "The communicators are built at the first collective, when every rank must reach every other over "
        "TCP and EFA. Rules missing in the security group, an interface that NCCL filters away, or one "
        "host that never came up leave all ranks waiting in silence."
    ),
    remedy=(
        "Run `launch check JOB.yaml --live` and fix EFA001 to EFA003 first. With `gate: on`, the default for "
        "several hosts, the pair of hosts is named before the ranks start. Else look for the host whose "
        "log is empty or ends earlier than the others': `launch logs NAME --host 2` shows one. Pass "
        "`device_id` to init_process_group, so that the communicator is built at once and fails early."
    ),
    sources=(
        sources.DATA_PARALLEL_GUIDE,
        sources.MODEL_PARALLEL_GUIDE,
        sources.TORCH_DISTRIBUTED,
    ),
)

RENDEZVOUS_TIMED_OUT = FailureMode(
    code="NCCL008",
    title="rendezvous or store timed out",
    cause=(
        "torchrun waits 600 s for all hosts to meet, and the ranks then wait for one another at the store "
        "of rank 0. A host that started late or died, a wrong number of hosts, or a closed TCP port ends "
        "in 'Timed out' or 'Broken pipe' on the hosts that did come."
    ),
    remedy=(
        "See why the missing host is missing: its log stream is empty or ends earlier. Take addresses, "
        "port and counts from the launcher, never from the script, and do slow work such as downloads or "
        "`pip install` before or after the rendezvous on every rank alike."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_RENDEZVOUS),
    # A host that came too late, as a port that is still held below, is of the moment.
    retry=Retry.SAME,
    symptom=Symptom.EFFECT,
)

PORT_IN_USE = FailureMode(
    code="NCCL009",
    title="rendezvous port already in use",
    cause=(
        "Rank 0 listens on MASTER_PORT. A number written into the script, a second job on the same "
        "machine or a process left over from an earlier run holds it already, and the start fails with "
        "EADDRINUSE."
    ),
    remedy=(
        "Use init_method='env://' with the MASTER_PORT that the launcher sets, and write no port into the "
        "script. On your own machine end the left-over processes, or let torchrun choose with "
        "`--rdzv-endpoint localhost:0`."
    ),
    sources=(sources.TORCH_RUN, sources.DDP_ERROR_ARTICLE),
    retry=Retry.SAME,
)

VERSIONS_DIFFER = FailureMode(
    code="NCCL010",
    title="NCCL versions differ between ranks",
    cause=(
        "All ranks of a communicator must run the same NCCL. A package installed at start on some hosts "
        "only, an unpinned requirement resolved at two moments, or another libnccl first on "
        "LD_LIBRARY_PATH ends in 'Mismatched NCCL version detected'."
    ),
    remedy=(
        "Give every host the same image, and leave torch and nvidia-nccl-cu* to it: the images' toolkit "
        "would replace them where requirements.txt names them. Take other copies of libnccl off "
        "LD_LIBRARY_PATH and LD_PRELOAD."
    ),
    sources=(sources.NCCL_BOOTSTRAP, sources.NCCL_TROUBLESHOOTING),
)

PEER_ACCESS_REFUSED = FailureMode(
    code="NCCL011",
    title="GPUs of a host cannot reach each other, or CUDA cannot be initialised on it",
    cause=(
        "Within a host NCCL maps the memory of one GPU into the process of another (CUDA IPC, peer access). "
        "Where the driver refuses that ('peer access is not supported between these two devices') or CUDA "
        "does not start for one process ('initialization error'), the group of all ranks is never made. On "
        "types whose GPUs are joined by NVLink the host is at fault: its fabric manager or driver."
    ),
    remedy=(
        "Run the job again on other hosts: a new job, not the same warm pool. Where every host says it, the "
        "type's GPUs have no peer access, or CUDA_VISIBLE_DEVICES differs between the processes of a host: "
        "give all of them the same devices and leave the choice to LOCAL_RANK."
    ),
    sources=(sources.NCCL_PEER_ACCESS_ISSUE, sources.NCCL_INITIALIZATION_ISSUE, sources.NCCL_TROUBLESHOOTING),
    retry=Retry.OTHER_HOSTS,
)

MPI_DAEMON_LOST = FailureMode(
    code="MPI001",
    title="mpirun lost its daemon on a host, or could not start it there",
    cause=(
        "mpirun starts a daemon on each host over ssh, and the daemon starts the ranks. When a host dies, "
        "its memory is full or its network is gone, mpirun says that it lost communication with the daemon "
        "and ends the job; where hosts do not find each other by name, or ssh is closed between them, no "
        "daemon "
        "starts at all."
    ),
    remedy=(
        "Look into the log of the host that is named for what happened there first, and run the job again on "
        "other hosts where there is nothing. Where no host starts, the security group has to let the hosts "
        "reach each other, as EFA001 demands, and the image needs sshd."
    ),
    sources=(sources.MPI_DAEMON_LOST_ISSUE, sources.TRAINING_TOOLKIT),
    retry=Retry.OTHER_HOSTS,
)

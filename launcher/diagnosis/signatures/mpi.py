"""mpirun's daemons, one on each host, and the way between its processes.

Texts: Open MPI 2 to 5 and PRRTE, as they stand in kubeflow/mpi-operator issue 152, aws/aws-parallelcluster
issue 301 and open-mpi/ompi issue 11830, and in Open MPI's help-mpi-btl-tcp.txt,
btl_tcp.c and PRRTE's oob/tcp; OpenSSH's client; UCX's uct/ib/mlx5.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import distribution, job_runtime, nccl

SIGNATURES = (
    Signature(
        mode=nccl.MPI_DAEMON_LOST,
        role=LineRole.SYMPTOM,
        literal="remote daemon: [",
        pattern=re.compile(r"^\s*Remote daemon: \[\S{1,100},\d{1,6}\] on node (?P<host>[\w.-]{1,255})"),
        example="  Remote daemon: [[64112,0],1] on node algo-2",
        near_miss="INFO the remote daemon: [64112] is up",
        says="mpirun lost its daemon on this host",
    ),
    Signature(
        mode=nccl.MPI_DAEMON_LOST,
        role=LineRole.SYMPTOM,
        literal="has lost communication with ",
        pattern=re.compile(r"\b(?:ORTE|PRTE) has lost communication with (?:a remote|its) daemon"),
        example="ORTE has lost communication with a remote daemon.",
        near_miss="INFO ORTE has lost communication with nobody",
        says="mpirun lost its daemon on a host",
        vague=True,
    ),
    Signature(
        mode=nccl.MPI_DAEMON_LOST,
        role=LineRole.SYMPTOM,
        literal=" daemon",
        pattern=re.compile(
            r"\b(?:ORTE|PRTE|prterun|mpirun|mpiexec) was unable to reliably start one or more daemons"
            r"|\bAn? (?:ORTE|PRTE) daemon has unexpectedly failed after launch"
        ),
        example="ORTE was unable to reliably start one or more daemons.",
        near_miss="INFO ORTE starts one daemon for each host",
        says="mpirun could not start its daemons on all hosts",
        vague=True,
    ),
    Signature(
        mode=nccl.MPI_DAEMON_LOST,
        role=LineRole.SYMPTOM,
        literal="failed to tcp connect to a peer",
        pattern=re.compile(r"Open MPI failed to TCP connect to a peer MPI process"),
        example="WARNING: Open MPI failed to TCP connect to a peer MPI process.  This should not happen.",
        near_miss="INFO the probe failed to TCP connect to a peer",
        says="MPI processes of two hosts do not reach each other",
        vague=True,
    ),
    Signature(
        mode=nccl.MPI_DAEMON_LOST,
        role=LineRole.SYMPTOM,
        literal="unable to reach each other for",
        pattern=re.compile(r"MPI processes are unable to reach each other for"),
        example="At least one pair of MPI processes are unable to reach each other for MPI communications.",
        near_miss="INFO the hosts were unable to reach each other for 3 s",
        says="MPI processes of two hosts do not reach each other",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="has unexpectedly disconnected",
        pattern=re.compile(r"An MPI communication peer process has unexpectedly disconnected"),
        example="An MPI communication peer process has unexpectedly disconnected.  This",
        near_miss="INFO the client has unexpectedly disconnected",
        says="an MPI process on another host went away without a word",
        vague=True,
    ),
    Signature(
        mode=nccl.MPI_DAEMON_LOST,
        role=LineRole.SYMPTOM,
        literal="unable to complete a tcp connection",
        pattern=re.compile(r"A process or daemon was unable to complete a TCP connection"),
        example="A process or daemon was unable to complete a TCP connection",
        near_miss="INFO unable to complete a TCP connection, trying the next port",
        says="mpirun's processes on two hosts do not reach each other",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="tcp_",
        pattern=re.compile(
            r"\b(?:mca_btl_tcp_\w{1,60}\] |tcp_peer_\w{1,60}: ).{0,80}(?:Connection reset by "
            r"peer|Broken pipe)"
        ),
        example="[gpu-1][[17231,1],3][btl_tcp.c:559:mca_btl_tcp_recv_blocking] recv(17) failed: Connection "
        "reset by peer (104)",
        near_miss="INFO tcp_nodelay is set",
        says="an MPI process on another host closed the connection",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="transport retry count exceeded on ",
        pattern=re.compile(r"\bTransport retry count exceeded on (?P<device>[\w:/.-]{1,60})"),
        example="ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend "
        "0x81 hw_synd 0/0)",
        near_miss="INFO if transport retry count exceeded on a link, it is reset",
        says="UCX got no answer from another host over {device}: the host or the link is gone",
    ),
    Signature(
        mode=nccl.MPI_DAEMON_LOST,
        role=LineRole.SYMPTOM,
        literal="ssh: co",
        pattern=re.compile(
            r"^ssh: (?!.{0,40}\b(?:git\w*|bitbucket)\.)(?:Could not resolve hostname "
            r"(?P<name>[\w.-]{1,200}): "
            r"|connect to host (?P<host>[\w.-]{1,200}) port \d{1,6}: )"
        ),
        example="ssh: Could not resolve hostname algo-2: No address associated with hostname",
        near_miss="ssh: Could not resolve hostname github.com: Name or service not known",
        says="ssh does not reach a host ({name}), so mpirun starts nothing there",
        vague=True,
    ),
    *(
        Signature(
            mode=distribution.MORE_PROCESSES_THAN_DEVICES,
            role=LineRole.INITIATOR,
            literal=text.lower(),
            pattern=re.compile(text),
            example=example,
            near_miss=f"INFO {text.lower()}",
            says="mpirun is to start more processes than the hosts have slots",
        )
        for text, example in (
            (
                "There are not enough slots available in the system",
                "There are not enough slots available in the system to satisfy the 16",
            ),
            (
                "All nodes which are allocated for this job are already filled",
                "All nodes which are allocated for this job are already filled.",
            ),
        )
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal="mpirun was unable to ",
        pattern=re.compile(
            r"mpirun was unable to (?:find the specified executable file|launch the specified "
            r"application as it could "
            r"not (?:access|find an executable))"
        ),
        example="mpirun was unable to find the specified executable file, and therefore",
        near_miss="INFO mpirun was unable to reach nobody",
        says="mpirun finds no such program to start",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="mpi_err_truncate",
        pattern=re.compile(r"\bMPI_ERR_TRUNCATE: message truncated"),
        example="[gpu-1:4711] *** MPI_ERR_TRUNCATE: message truncated",
        near_miss="INFO MPI_ERR_TRUNCATE is an error of MPI",
        says="ranks called a collective of MPI with other sizes, or another collective, than this one",
    ),
    Signature(
        mode=nccl.MPI_DAEMON_LOST,
        role=LineRole.SYMPTOM,
        literal="mpi process is unreachable",
        pattern=re.compile(r"MPI_INIT has failed because at least one MPI process is unreachable"),
        example="MPI_INIT has failed because at least one MPI process is unreachable",
        near_miss="INFO an MPI process is unreachable for a moment",
        says="MPI processes do not reach each other",
        vague=True,
    ),
    Signature(
        mode=nccl.SYSTEM_ERROR,
        role=LineRole.SYMPTOM,
        literal="ibv_reg_mr(",
        pattern=re.compile(r"UCX {1,4}ERROR ibv_reg_mr\(.{1,120}\) failed: Cannot allocate memory"),
        example="UCX  ERROR ibv_reg_mr(address=0x7f1a, length=1073741824, access=0xf) failed: Cannot "
        "allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)",
        near_miss="INFO calling ibv_reg_mr(0x7f1a)",
        says="UCX cannot register memory with the network: the limit of locked memory (ulimit -l) is too low",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="ucx",
        pattern=re.compile(
            r"(?:\bUCX {1,4}ERROR |pml_ucx\.c:\d{1,6} +Error: ).{1,200}(?:Connection reset by "
            r"(?:peer|remote peer)"
            r"|Destination is unreachable|Endpoint is not connected|Broken pipe)"
        ),
        example="[1763888888.12] [gpu-1:4711 :0]  tcp_ep.c:1217 UCX  ERROR tcp_ep 0x1a: send(20) failed: "
        "Connection reset by peer",
        near_miss="INFO UCX uses tcp",
        says="UCX lost its connection to another process",
        vague=True,
    ),
)

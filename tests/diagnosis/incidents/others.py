"""What the ranks that did not fail print, and what any job prints that fails of nothing."""

# ruff: noqa: E501 - the lines are those of programs

from __future__ import annotations

from collections.abc import Iterable

from tests.diagnosis.incidents.job import AGENT, CPP, PER_HOST, Job

_SIGNALS = {
    -9: ("SIGKILL", "Killed"),
    -11: ("SIGSEGV", "Segmentation fault"),
    -7: ("SIGBUS", "Bus error"),
    -6: ("SIGABRT", "Aborted"),
}
PYTHON = "/opt/conda/lib/python3.11/site-packages"


def traceback(
    *lines: str,
    source: str = "loss = step(batch)",
    file: str = "/opt/ml/code/train.py",
    uncaught: bool = True,
) -> tuple[str, ...]:
    outermost = (f'  File "{file}", line 120, in <module>', "    main()") if uncaught else ()
    return (
        "Traceback (most recent call last):",
        *outermost,
        f'  File "{file}", line 88, in main',
        f"    {source}",
        *lines,
    )


def steps(job: Job, first: int, last: int, start: float) -> float:
    """Every host, every rank or the first one prints its steps, two seconds each; when they end."""
    speakers = {
        "first": (0,),
        "hosts": range(0, job.ranks, PER_HOST),
        "all": range(job.ranks),
    }[job.steps_of]
    for number in range(first, last + 1):
        for rank in speakers:
            at = start + 2.0 * (number - first) + job.chance.uniform(0, 0.3)
            job.of_rank(at, rank, f"\x03step {number} loss {3.0 - number / 1000:.3f} lr 0.0003")
    return start + 2.0 * (last - first)


def timed_out(
    job: Job, at: float, rank: int, sequence: int, operation: str = "ALLREDUCE", ahead: int = 0
) -> None:
    """The watchdog of a rank gives up; `ahead` are the collectives that it called after that one."""
    numel = ", NumelIn=16777216, NumelOut=16777216" if job.release >= (2, 2) else ""
    work = f"WorkNCCL(SeqNum={sequence}, OpType={operation}{numel}, Timeout(ms)=600000)"
    late = 600000 + job.chance.randrange(1, 900)
    caught = f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {late} milliseconds before timing out."
    last, group, mark = sequence + ahead, job.group(rank), job.mark(rank)
    lines = [f"{mark}[{CPP}E ProcessGroupNCCL.cpp:{607 if job.release >= (2, 5) else 475}] {caught}"]
    if job.release >= (2, 5):
        lines.append(
            f"{mark}[{CPP}E ProcessGroupNCCL.cpp:2268] {group}  failure detected by watchdog at work sequence id: "
            f"{sequence} PG status: last enqueued work: {last}, last completed work: {sequence - 1}"
        )
    elif job.release >= (2, 3):
        lines.append(
            f"{mark}[{CPP}E ProcessGroupNCCL.cpp:1537] {group} Timeout at NCCL work: {sequence}, last enqueued "
            f"NCCL work: {last}, last completed NCCL work: {sequence - 1}."
        )
    job.of_rank(at, rank, *lines, whole=True)
    job.of_rank(
        at + 0.01,
        rank,
        f"{mark}[{CPP}E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out. Due to the "
        "asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        f"{mark}[{CPP}E ProcessGroupNCCL.cpp:460] To avoid data inconsistency, we are taking the entire process down.",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        f"  what():  {group} Process group watchdog thread terminated with exception: {caught}",
    )


def lost(job: Job, at: float, rank: int) -> None:
    """A rank notices that another one is gone, in one of NCCL's, torch's or gloo's ways."""
    mark, peer = job.mark(rank), job.chance.randrange(40000, 60000)
    remote = (
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, "
        "remote process exited or there was a network error, NCCL version 2.20.5",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "Last error:",
        f"socketProgress: Connection closed by remote peer ip-10-0-0-9.ec2.internal<{peer}>",
    )
    way = job.chance.randrange(5)
    if way == 0:
        closed = (
            f"NCCL WARN socketProgress: Connection closed by remote peer ip-10-0-0-9.ec2.internal<{peer}>"
        )
        job.of_rank(at, rank, job.nccl(rank, "misc/socket.cc:49", closed))
        job.of_rank(
            at + 0.2,
            rank,
            job.nccl(
                rank,
                "proxy.cc:1495",
                "NCCL WARN [Service thread] Error encountered progressing operation=Connect, res=3, closing connection",
            ),
            f"{mark}[{CPP}E ProcessGroupNCCL.cpp:1182] {job.group(rank)} Process group watchdog thread terminated with "
            "exception: NCCL error: remote process exited or there was a network error, NCCL version 2.20.5",
        )
    elif way == 1:
        job.of_rank(
            at,
            rank,
            *job.uncaught(
                rank,
                *traceback(
                    f'  File "{PYTHON}/torch/distributed/distributed_c10d.py", line 2501, in all_reduce',
                    "    work = group.allreduce([tensor], opts)",
                    *remote,
                ),
            ),
        )
    elif way == 2:
        job.of_rank(
            at,
            rank,
            *job.uncaught(
                rank,
                *traceback(
                    f'  File "{PYTHON}/torch/autograd/graph.py", line 769, in _engine_run_backward',
                    "    return Variable._execution_engine.run_backward(",
                    f"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.1.5]:{peer}",
                ),
            ),
        )
    elif way == 3:
        job.of_rank(
            at,
            rank,
            f"{mark}[{CPP}W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=93, addr=[ip-10-0-0-7]:{peer}, "
            "remote=[algo-1]:29500): Connection reset by peer",
            f'{mark}[{CPP}W ProcessGroupNCCL.cpp:1662] {job.group(rank)} Failed to check the "should dump" flag on '
            "TCPStore, (maybe TCPStore server has shut down too early), with error: Connection reset by peer",
        )
    else:
        job.of_rank(
            at,
            rank,
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            f"  what():  {job.group(rank)} NCCL watchdog thread terminated with exception: NCCL error: remote process "
            "exited or there was a network error, NCCL version 2.20.5",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        )


def table(job: Job, at: float, rank: int, code: int, *, whole: bool = False) -> None:
    """torchrun ends the ranks of a host of which this one ended first, and tells of it; under other launchers
    they tell."""
    host = rank // PER_HOST
    if job.layout == "mpirun":
        lines = (
            (
                f"mpirun noticed that process rank {rank} with PID {9000 + rank} on node algo-{host + 1} exited on "
                f"signal {-code} ({_SIGNALS[code][1]}).",
            )
            if code < 0
            else (
                "mpirun detected that one or more processes exited with non-zero status, thus causing",
                "the job to be terminated. The first process to do so was:",
                f"  Process name: [[42061,1],{rank}]",
                f"  Exit code:    {code}",
            )
        )
        job.of_host(at, 0, *lines, whole=whole)
        return
    if job.layout == "srun":
        dumped = " (core dumped)" if code != -9 else ""
        how = f"{_SIGNALS[code][1]}{dumped}" if code < 0 else f"Exited with exit code {code}"
        job.of_host(at, 0, f"srun: error: algo-{host + 1}: task {rank}: {how}", whole=whole)
        return
    for local in range(PER_HOST):
        if local != rank % PER_HOST and job.chance.random() < 0.5:
            job.of_host(
                at,
                host,
                f"{AGENT}W torch/distributed/elastic/multiprocessing/api.py:897] Sending process {100 + local} closing signal SIGTERM",
            )
    name = f"trainer-{host}" if job.layout == "kubectl" else f"algo-{host + 1}"
    ended = f"failed (exitcode: {code}) local_rank: {rank % PER_HOST} (pid: {100 + rank % PER_HOST}) of binary: /opt/conda/bin/python"
    first = (
        f"{AGENT}E torch/distributed/elastic/multiprocessing/api.py:869] {ended}"
        if job.clock != "none"
        else f"ERROR:torch.distributed.elastic.multiprocessing.api:{ended}"
    )
    signal = _SIGNALS[code][0] if code < 0 else None
    lines = (
        first,
        "Traceback (most recent call last):",
        '  File "/opt/conda/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        f'  File "{PYTHON}/torch/distributed/launcher/api.py", line 264, in launch_agent',
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "============================================================",
        "train.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : \x04",
        f"  host      : {name}",
        f"  rank      : {rank} (local_rank: {rank % PER_HOST})",
        f"  exitcode  : {code} (pid: {100 + rank % PER_HOST})",
        "  error_file: <N/A>",
        f"  traceback : Signal {-code} ({signal}) received by PID {100 + rank % PER_HOST}"
        if signal
        else "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
        "============================================================",
    )
    job.of_host(at + 0.5, host, *lines, whole=whole)
    if job.sagemaker:
        job.of_host(
            at + 2,
            host,
            "\x05 sagemaker-training-toolkit ERROR    Reporting training FAILURE",
            "\x05 sagemaker-training-toolkit ERROR    ExecuteUserScriptError:",
            f"ExitCode {1}",
            'ErrorMessage "raise ChildFailedError(',
            ' torch.distributed.elastic.multiprocessing.errors.ChildFailedError"',
            'Command "torchrun --nnodes 2 --nproc_per_node 8 train.py"',
            "\x05 sagemaker-training-toolkit ERROR    Encountered exit_code 1",
        )


def tables_of_the_others(job: Job, at: float, but: Iterable[int] = ()) -> None:
    """On every other host a rank ended first, of what it had noticed."""
    for host in set(range(job.hosts)) - set(but):
        rank = host * PER_HOST + job.chance.randrange(PER_HOST)
        if job.has_agents or job.chance.random() < 0.3:
            table(job, at + job.chance.uniform(0, 5), rank, job.chance.choice((1, -6, -6)))


def noise(job: Job, at: float) -> None:
    """What healthy jobs print as well, before anything fails."""
    ways = (
        (
            f"[{CPP}W socket.cpp:601] [c10d] The client socket has failed to connect to [algo-1]:29500 (errno: 111 - Connection refused).",
        ),
        (
            "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f12>",
            *traceback(
                f'  File "{PYTHON}/torch/utils/data/dataloader.py", line 1604, in __del__',
                "    self._shutdown_workers()",
                "AssertionError: can only test a child process",
                uncaught=False,
            ),
        ),
        (
            "/opt/conda/lib/python3.11/site-packages/torch/nn/parallel/distributed.py:1112: UserWarning: find_unused_parameters=True was specified",
        ),
        ("gc: collectable <cell 0x7f2a10>", "gc: uncollectable <dict 0x7f2a11>"),
        ("\x03WARNING: gradient overflow, skipping this step, loss scale 32768",),
    )
    for _ in range(job.chance.randrange(5)):
        job.of_rank(at + job.chance.uniform(0, 8), job.chance.randrange(job.ranks), *job.chance.choice(ways))


def survived(job: Job, at: float) -> None:
    """The first rank logs an exception that it has dealt with, in the midst of its steps."""
    job.of_rank(
        at,
        0,
        "\x03ERROR wandb: the upload failed, it will be tried again",
        *traceback(
            f'  File "{PYTHON}/wandb/sdk/internal.py", line 4, in upload',
            "    post(data)",
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.wandb.ai', port=443): read timed out",
            uncaught=False,
        ),
    )

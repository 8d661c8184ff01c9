"""The signal that ended a process, by its exit code or its name, as whoever started it says.

A shell, a container and the service say 128 and the number of the signal, Python and torch its negative.
SIGKILL is mostly the kernel's, for want of memory; SIGABRT often follows from what went wrong before, as
torch's watchdog raises it after a time-out; SIGTERM comes from outside.

Texts: torch/distributed/elastic/multiprocessing/api.py and errors/__init__.py;
torch/multiprocessing/spawn.py; CPython's subprocess.py and faulthandler.c; sagemaker-training-toolkit's
errors.py; FailureReason of the SageMaker API; docker compose; bash; srun; Open MPI and MPICH; UCX's
debug.c; DeepSpeed's launcher/launch.py; Composer's cli/launcher.py; Lightning's subprocess_script.py;
Horovod's runner/gloo_run.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware, job_runtime
from launcher.failure_modes.model import FailureMode


@dataclass(frozen=True)
class _SignalSaid:
    """A signal: its name and number, how the C library words it, and what its end means.

    `by_srun`: SLURM ends the other tasks of a step by SIGKILL and SIGTERM itself, and torchrun its ranks:
    `by_table` tells whether its table of failures may be read for it.
    """

    signal: str
    number: int
    words: str
    mode: FailureMode
    role: LineRole
    what: str
    vague: bool = True
    by_srun: bool = True
    by_table: bool = True

    @property
    def codes(self) -> str:
        """A pattern of its exit codes."""
        return rf"(?P<exit>{128 + self.number}|-{self.number})(?!\d|\.\d)"


_BY_MPIRUN = r"(?:process rank (?P<rank>\d{1,6}) with PID \S{1,20} on node (?P<host>[\w.-]{1,255}) )?"
"""Whom mpirun, or prterun, names before it says how a process ended."""

_CRASHED = (job_runtime.NATIVE_CRASH, LineRole.INITIATOR)
_SIGNALS = (
    _SignalSaid(
        "SIGSEGV", 11, "Segmentation fault", *_CRASHED, "died of SIGSEGV, an access to memory not its own"
    ),
    _SignalSaid("SIGBUS", 7, "Bus error", *_CRASHED, "died of SIGBUS: mostly /dev/shm was full"),
    _SignalSaid(
        "SIGILL", 4, "Illegal instruction", *_CRASHED, "died of SIGILL, an instruction unknown to the CPU"
    ),
    _SignalSaid(
        "SIGFPE", 8, "Floating point exception", *_CRASHED, "died of SIGFPE: an integer was divided by zero"
    ),
    _SignalSaid(
        "SIGABRT",
        6,
        "Aborted",
        job_runtime.NATIVE_CRASH,
        LineRole.CASCADE,
        "was ended by SIGABRT: it aborted",
    ),
    _SignalSaid(
        "SIGKILL",
        9,
        "Killed",
        hardware.HOST_OUT_OF_MEMORY,
        LineRole.INITIATOR,
        "was killed (SIGKILL): the usual reason is the host's memory",
        by_srun=False,
        by_table=False,
    ),
    _SignalSaid(
        "SIGTERM",
        15,
        "Terminated",
        job_runtime.STOPPED,
        LineRole.CASCADE,
        "got the signal SIGTERM",
        vague=False,
        by_table=False,
    ),
)


def _row(
    ending: _SignalSaid,
    who: str,
    literal: str,
    pattern: str,
    example: str,
    near_miss: str,
    role: LineRole | None = None,
) -> Signature:
    return Signature(
        mode=ending.mode,
        role=role or ending.role,
        literal=literal,
        pattern=re.compile(pattern),
        example=example,
        near_miss=near_miss,
        says=f"{who} {ending.what}",
        vague=ending.vague,
    )


def _by_number(ending: _SignalSaid) -> tuple[Signature, ...]:
    shell, negative = 128 + ending.number, -ending.number
    torchrun = (
        _row(
            ending,
            "local rank {local_rank}",
            "failed (exitcode: ",
            rf"failed \(exitcode: {ending.codes}\) local_rank: (?P<local_rank>\d+)",
            f"torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: {negative}) "
            "local_rank: 3 (pid: 104) of binary: /opt/conda/bin/python",
            "elastic/multiprocessing/api.py:984] failed (exitcode: 1) local_rank: 3 (pid: 7)",
        ),
    )
    return (
        # STOPPED's own row also knows SIGINT and SIGHUP there.
        *(torchrun if ending.mode is not job_runtime.STOPPED else ()),
        _row(
            ending,
            "local rank {local_rank}",
            "failed (exitcode ",
            # torchrun before 1.10, of a rank that left no file with its error.
            rf"\(local_rank (?P<local_rank>\d{{1,6}})\) FAILED \(exitcode {ending.codes}\)",
            f"Child process 2791 (local_rank 0) FAILED (exitcode {negative})",
            "Child process 2791 (local_rank 0) FAILED (exitcode 1)",
        ),
        _row(
            ending,
            "the script",
            "exitcode",
            # The images' toolkit, and the status of a pod.
            rf"\b(?:ExitCode |exitCode\"?: ){ending.codes}",
            f'ExitCode {shell} ErrorMessage "" Command "/opt/conda/bin/python train.py"',
            f"INFO ExitCode {shell}0 is none",
            # The line before it already says that the script failed.
            LineRole.SYMPTOM if ending.signal == "SIGABRT" else None,
        ),
        _row(
            ending,
            "a process",
            "exit code",
            # Composer and mpirun say of which rank; mpirun in the line before.
            r"(?:(?:\bRank |Process name: \[\S{1,120},)(?P<rank>\d{1,6})(?: crashed with |\]\n\s*))?"
            rf"(?i:\bexit code:? {{0,12}}'?){ending.codes}",
            f"AlgorithmError: , exit code: {shell}",
            f"AlgorithmError: , exit code: {shell}0",
        ),
        _row(
            ending,
            "a process",
            "exit status",
            rf"\bexit status {ending.codes}",
            f"CalledProcessError: Command 'python train.py' returned non-zero exit status {shell}.",
            "subprocess.CalledProcessError: Command 'python train.py' returned non-zero exit status 2.",
        ),
        _row(
            ending,
            "rank {rank}",
            " exit with status code ",
            rf"\bProcess (?P<rank>\d{{1,6}}) exit with status code {ending.codes}",
            f"Process 3 exit with status code {shell}.",
            f"Process 3 exit with status code {shell}0.",
        ),
        _row(
            ending,
            "a process",
            "exited with code",
            rf"(?:\bGlobal rank (?P<rank>\d{{1,6}}) \(PID \d{{1,10}}\) )?\bexited with code {ending.codes}",
            f"algo-1-x7k2p exited with code {shell}",
            "algo-1-x7k2p exited with code 0",
        ),
        _row(
            ending,
            "a process",
            "terminated with code",
            r"\[rank: (?P<rank>\d{1,6})\] Child process with PID \d{1,10} terminated with code "
            rf"{ending.codes}",
            f"[rank: 1] Child process with PID 21418 terminated with code {negative}. Forcefully ...",
            "[rank: 1] Child process with PID 21418 terminated with code 1. Forcefully ...",
        ),
        _row(
            ending,
            "a process",
            "return code = ",
            rf"exits with return code = {ending.codes}",
            f"[2024-01-15 09:20:17,001] [ERROR] [launch.py:321:sigkill_handler] ['python'] exits with return "
            f"code = {negative}",
            f"INFO exits with return code = {negative}9",
        ),
    )


def _by_name(ending: _SignalSaid) -> tuple[Signature, ...]:
    name, number, words = ending.signal, ending.number, re.escape(ending.words)
    table = rf"|Signal {number} \({name}\) received by PID" if ending.by_table else ""
    srun = (
        _row(
            ending,
            "task {task}",
            f": {ending.words.lower()}",
            rf"^\s{{0,40}}srun: error: (?P<host>[\w.-]{{1,100}}): "
            rf"(?:task (?P<task>\d{{1,7}})|tasks (?P<tasks>[\d,-]{{1,4000}})): {words}\b",
            f"srun: error: gpu20-15: task 7: {ending.words} (core dumped)",
            f"srun: error: gpu20-15: what task 7 says: {ending.words}",
        ),
    )
    return (
        *(srun if ending.by_srun else ()),
        _row(
            ending,
            "a process",
            name.lower(),
            rf"died with <Signals\.{name}: {number}>|terminated with signal {name}\b"
            rf"|interrupted by signal {number}: {name}{table}",
            f"torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal {name}",
            f"INFO {name} is handled",
        ),
        _row(
            ending,
            "a process",
            ending.words.lower(),
            rf"{_BY_MPIRUN}exited on signal {number} \({words}(?:: \d{{1,4}})?\)"
            rf"|EXIT STRING: {words} \(signal {number}\)"
            rf"|^\[\S{{1,100}}:\d{{1,9}}\] Signal: {words} \({number}\)|Caught signal {number} \({words}: "
            rf"|: line \d{{1,9}}: +\d{{1,9}} {words}\b"
            rf"|^{words}(?: \(core dumped\))?$|^Fatal Python error: {words}"
            # An interactive shell of one of its jobs: bash, and zsh, which tells the process.
            rf"|^\[\d{{1,4}}\][ +-]{{1,8}}(?:\d{{1,9}} )?(?i:{words})(?: \(core dumped\))? {{2,60}}\S",
            f"./train.sh: line 30: 7 {ending.words}                 (core dumped) python train.py",
            f"INFO {ending.words} is what it would say in line 30",
        ),
    )


SIGNATURES = (
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        # Of torchrun's table it is read what failed first; the others it ended itself.
        role=LineRole.CASCADE,
        literal="sigkill) received",
        pattern=re.compile(r"\bSignal 9 \(SIGKILL\) received by PID"),
        example="  traceback : Signal 9 (SIGKILL) received by PID 2198",
        near_miss="INFO 9 (SIGKILL) received by no handler",
        says="a process was killed (SIGKILL): the usual reason is the host's memory",
        vague=True,
    ),
    *(row for ending in _SIGNALS for row in (*_by_number(ending), *_by_name(ending))),
)

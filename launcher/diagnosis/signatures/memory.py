"""Memory of the GPU and of the host.

Texts: c10/cuda/CUDACachingAllocator.cpp and c10/core/impl/alloc_cpu.cpp of PyTorch 1.13 to 2.8, XLA, the
Linux kernel's mm/oom_kill.c of 4.19 to 6.12, torch/distributed/elastic/multiprocessing/api.py, Kubernetes'
pod status, slurmstepd and srun.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import Context, LineRole, Signature
from launcher.failure_modes import hardware, job_runtime

_SIZE = r"(?<![\d.])[\d.]++ ?[KMGT]i?B"
_FREE = r"(?<![\d.])[\d.]++ ?(?:[KMGT]i?B|bytes)"

SIGNATURES = (
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="out of memory",
        pattern=re.compile(
            r"(?:CUDA|HIP) out of memory\. Tried to allocate (?P<asked>" + _SIZE + r")\.? "
            r".{0,60}?(?:\(GPU \d{1,4}; |capaci?ty of )(?P<total>" + _SIZE + r")"
            r".{0,160}?(?P<free>" + _FREE + r")(?: is)? free"
        ),
        example="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5 has a total "
        "capacity of 23.43 GiB of which 198.06 MiB is free.",
        near_miss="INFO CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5 is free",
        says="the GPU is full: asked for {asked} with {free} free of {total}",
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="out of memory",
        pattern=re.compile(
            r"(?:CUDA|HIP) out of memory(?!\.? Tried to allocate more than 1EB)\.?(?: Tried to allocate "
            r"(?P<asked>" + _SIZE + r"))?"
            r"(?:.{0,160}?(?P<free>" + _SIZE + r")(?: is)? free)?",
        ),
        example="RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB; 11.19 MiB free",
        near_miss="INFO retry after CUDA  out-of-memory is off; host ran out of memory 0 times",
        says="the GPU is full: asked for {asked} with {free} free",
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="out of memory",
        pattern=re.compile(
            r"CUDA (?:driver )?[Ee]rror: out of memory|on GPU:\d{1,4} failed\. Status: out of "
            r"memory"
            r"|Cuda failure \d+ 'out of memory'"
            r"|Triton Error \[CUDA\]: out of memory"
            r"|Cuda failure 'out of memory'|cuda runtime error \(2\) : out of memory"
        ),
        example="algo-1:101:140 [2] init.cc:1019 NCCL WARN Cuda failure 2 'out of memory'",
        near_miss="INFO the allocator was out of memory in the last run",
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="out of memory",
        pattern=re.compile(
            r"RESOURCE_EXHAUSTED: .{0,80}?Out of memory (?:while trying to allocate|allocating) (?P<asked>"
            + _FREE
            + ")"
        ),
        example="jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
        "allocate 3221225472 bytes.",
        near_miss="INFO out of memory while trying to allocate 3 GiB, trying again",
        says="the GPU is full: XLA asked for {asked}",
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="failed to allocate request for ",
        # What XLA says of a request of the program itself, rather than of what it compiles.
        pattern=re.compile(
            r"RESOURCE_EXHAUSTED: .{0,80}?[Ff]ailed to allocate request for (?P<asked>" + _SIZE + r") "
            r"\(\d+B\) on device ordinal"
        ),
        example="jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for "
        "176.00MiB (184549376B) on device ordinal 0",
        near_miss="INFO failed to allocate request for 176.00MiB, trying again",
        says="the GPU is full: XLA asked for {asked}",
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="_status_alloc_failed",
        pattern=re.compile(r"CUDA error: CUBLAS_STATUS_ALLOC_FAILED|cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        example="RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        near_miss="INFO mapping CUBLAS_STATUS_ALLOC_FAILED to code 3",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="killed",
        pattern=re.compile(r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: Killed"),
        example="RuntimeError: DataLoader worker (pid 10231) is killed by signal: Killed.",
        near_miss="RuntimeError: DataLoader worker (pid 10231) is killed by signal: Bus error.",
        says="a DataLoader worker was killed: the host's memory was full",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="out of memory",
        # The kernel before 5.0 says `Kill process`, and in the next line what it killed.
        pattern=re.compile(
            r"(?P<full>Out of memory|Memory cgroup out of memory): "
            r"Kill(?:ed)? process (?P<pid>\d+),? \(?(?P<process>[^(),]{1,40})\)?"
        ),
        example="[ 8123.4] Out of memory: Killed process 10231 (python3) total-vm:92123456kB",
        near_miss="Out of memory guard is on for process 10231",
        says="the kernel killed {process} (process {pid}): {full}",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="oom-kill:constraint=",
        pattern=re.compile(
            r"oom-kill:constraint=CONSTRAINT_MEMCG,.{0,300}?oom_memcg=(?P<cgroup>[^,]{1,200}),"
            r".{0,300}?task=(?P<process>[^,]{1,40}),pid=(?P<pid>\d+)"
        ),
        example="[ 8123.4] "
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,oom_memcg=/slurm/uid_1000/job_77,task_memcg=/slurm/uid_1000/job_77/step_0,task=python3,pid=10231,uid=1000",
        near_miss="oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom",
        says="the memory that the cgroup {cgroup} may take was full, and the kernel killed {process} "
        "(process {pid})",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="oom-kill",
        pattern=re.compile(r"invoked oom-killer|oom-kill(?: event|:constraint)"),
        example="slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.batch.",
        near_miss="INFO the oom-kill policy is default",
        says="the host's memory was full and the kernel killed a process",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="oomkilled",
        pattern=re.compile(r"\bOOMKilled\b(?!['\"]?\s*[:=] ?[Ff]alse)"),
        example="containers: - name: app reason: OOMKilled code: 137",
        near_miss='"State": {"OOMKilled": false}',
        says="the container took more memory than it may and was killed",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="instance type with more memory",
        pattern=re.compile(r"ClientError: .*use an instance type with more memory"),
        example="ClientError: Please use an instance type with more memory, or reduce the size of training "
        "data processed on an instance.",
        near_miss="INFO an instance type with more memory is cheaper here",
        says="the host's memory was full",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="exceeded the request memory",
        pattern=re.compile(r"killed by docker due to it exceeded the request memory"),
        example="Exit Reason: User Container killed by docker due to it exceeded the request memory",
        near_miss="INFO warn when usage exceeded the request memory",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="defaultcpuallocator",
        pattern=re.compile(
            r"DefaultCPUAllocator: (?:can't|not enough memory).*?(?:allocate (?P<asked>\d+) bytes)"
        ),
        example="RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't "
        "allocate memory: you tried to allocate 94371840000 bytes. Error code 12",
        near_miss="INFO DefaultCPUAllocator: will allocate 64 bytes aligned",
        says="the host's memory is full: asked for {asked} bytes",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="memoryerror",
        pattern=re.compile(
            r"^(?:numpy\S*\.|pyarrow\.lib\.)?_?(?:Array|Arrow)?MemoryError\b|torch\.\w*\.?CPUOutOfMemoryError"
        ),
        example="MemoryError: Unable to allocate 12.0 GiB for an array",
        near_miss="INFO except MemoryError: is handled",
        says="the host's memory is full",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="oom_kill",
        pattern=re.compile(r"Detected (?P<events>[1-9]\d*) oom_kill event"),
        example="slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have "
        "been OOM Killed.",
        near_miss="memory.events: oom_kill 0",
        says="the host's memory was full and the kernel killed a process",
    ),
    Signature(
        mode=hardware.CLOSE_TO_MEMORY_LIMIT,
        role=LineRole.ADVISORY,
        literal="allocator cache flushes",
        pattern=re.compile(r"(?<!\d)(?P<times>\d+) pytorch allocator cache flushes since last step"),
        example="[WARNING] [stage3.py:1850:step] 3 pytorch allocator cache flushes since last step. this "
        "happens when there is high memory pressure",
        near_miss="INFO counting allocator cache flushes",
        says="PyTorch emptied its cache {times} times in a step: the GPU is close to full",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="out of memory",
        pattern=re.compile(
            r"^\s{0,40}srun: error: (?P<host>[\w.-]{1,100}): (?:task (?P<task>\d{1,7})"
            r"|tasks [\d,-]{1,4000}): Out Of Memory"
        ),
        example="srun: error: gpu20-15: task 0: Out Of Memory",
        near_miss="INFO srun: error: gpu20-15: task 0: Out Of Memory is what it says",
        says="the task took more memory than it may and was killed",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="memory limit",
        pattern=re.compile(
            r"^slurmstepd\S{0,100}: error: (?:Exceeded (?:job|step) memory limit$"
            r"|\S.{0,60} exceeded memory limit \((?P<used>\d+) > (?P<limit>\d+)\), being killed)"
        ),
        example="slurmstepd: error: StepId=4711.0 exceeded memory limit (4200000 > 4194304), being killed",
        near_miss="slurmstepd: error: Exceeded step memory limit at some point.",
        says="the task took more memory than it may and was killed",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.CASCADE,
        literal="killed",
        pattern=re.compile(
            r"^\s{0,40}srun: error: (?P<host>[\w.-]{1,100}): (?:task (?P<task>\d{1,7})"
            r"|tasks [\d,-]{1,4000}): Killed\b"
        ),
        example="srun: error: gpu20-15: tasks 0-3: Killed",
        near_miss="srun: error: gpu20-15: task 0 was never Killed",
        says="tasks were killed (SIGKILL): by SLURM, after something else failed, or for the host's memory",
        vague=True,
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="would exceed allowed memory",
        pattern=re.compile(
            r"OutOfMemoryError: Allocation on device (?P<gpu>\d{1,4} )?would exceed allowed memory"
        ),
        example="torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)",
        near_miss="INFO what would exceed allowed memory is split",
        says="the GPU is full",
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="caught outofmemoryerror in ",
        # torch/_utils.py, of DataParallel's threads and DataLoader's workers; the error itself stands below.
        pattern=re.compile(
            r"(?:Error|Exception): Caught OutOfMemoryError in (?P<where>replica \d{1,6} on device \d{1,6}"
            r"|DataLoader worker process \d{1,6}|pin memory thread for device \d{1,6})\."
        ),
        example="torch.cuda.OutOfMemoryError: Caught OutOfMemoryError in replica 0 on device 0.",
        near_miss="INFO caught OutOfMemoryError in replica 0, trying a smaller batch",
        says="the GPU is full, in {where}",
        vague=True,
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.SYMPTOM,
        literal="nccl warn failed to cuda ",
        pattern=re.compile(
            r"NCCL WARN Failed to CUDA (?:[cm]alloc(?: async)?|host alloc) (?P<asked>\d{1,20}) bytes"
        ),
        example="algo-1:88:141 [3] include/alloc.h:200 NCCL WARN Failed to CUDA calloc async 608 bytes",
        near_miss="INFO NCCL WARN Failed to CUDA calloc is what it says",
        says="NCCL got no memory on the GPU: asked for {asked} bytes",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="bad_alloc",
        pattern=re.compile(
            r"^RuntimeError: std::bad_alloc|terminate called after throwing an instance of "
            r"'std::bad_alloc'"
        ),
        example="terminate called after throwing an instance of 'std::bad_alloc'",
        near_miss="INFO std::bad_alloc is handled",
        says="the host's memory is full",
    ),
)

CONTEXTS = (
    Context(
        mode=hardware.HOST_OUT_OF_MEMORY,
        of=(job_runtime.SCRIPT_RAISED,),
        literal="cpu virtual memory",
        pattern=re.compile(r"CPU Virtual Memory: +used = [\d.]+ GB, percent = (?:8[5-9]|9\d|100)(?:\.\d+)?%"),
        example="[2024-01-15 09:20:11,403] [INFO] CPU Virtual Memory:  used = 27.1 GB, percent = 86.2%",
        near_miss="[2024-01-15 09:20:11,403] [INFO] CPU Virtual Memory:  used = 27.1 GB, percent = 36.2%",
    ),
)

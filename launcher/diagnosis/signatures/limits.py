"""File descriptors and threads, of which a process may have so many.

Texts: the C library's strerror; CPython's multiprocessing/reduction.py and threading; torch/utils/data/
dataloader.py; OpenBLAS' blas_server.c; GCC's libgomp.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import data

SIGNATURES = (
    Signature(
        mode=data.DESCRIPTORS_USED_UP,
        role=LineRole.INITIATOR,
        literal="too many open files",
        pattern=re.compile(
            r"\[Errno 2[34]\] Too many open files|^RuntimeError: Too many open files\. Communication"
            r"|(?:NCCL WARN |gloo/transport/tcp/|errno: 24 - ).{0,120}Too many open files"
            r"|unable to (?:open|mmap|write|resize)\b.{1,160}: Too many open files \(24\)"
        ),
        example="OSError: [Errno 24] Too many open files: '/opt/ml/input/data/train/part-7.tar'",
        near_miss="WARNING too many open files are bad for you",
        says="the process has as many files open as it may",
    ),
    Signature(
        mode=data.DESCRIPTORS_USED_UP,
        role=LineRole.INITIATOR,
        literal=" items of ancdata",
        pattern=re.compile(r"^RuntimeError: received \d{1,6} items of ancdata"),
        example="RuntimeError: received 0 items of ancdata",
        near_miss="INFO RuntimeError: received 0 items of ancdata means that files run out",
        says="no file descriptor is left to receive a batch from a DataLoader worker",
    ),
    Signature(
        mode=data.DESCRIPTORS_USED_UP,
        role=LineRole.INITIATOR,
        literal="can't start new thread",
        pattern=re.compile(r"^RuntimeError: can't start new thread"),
        example="RuntimeError: can't start new thread",
        near_miss="INFO can't start new threads here, using one",
        says="the process cannot start another thread: their limit is reached",
    ),
    Signature(
        mode=data.DESCRIPTORS_USED_UP,
        role=LineRole.INITIATOR,
        literal="resource temporarily unavailable",
        pattern=re.compile(
            r"blas_thread_init: pthread_create(?: failed for thread \d{1,6} of \d{1,6})?: Resource "
            r"temporarily"
            r"|^libgomp: Thread creation failed: Resource temporarily"
            r"|^OMP: System error #11: Resource temporarily"
            r"|'std::system_error'\n\s{1,8}what\(\): {1,4}Resource temporarily"
        ),
        example="OpenBLAS blas_thread_init: pthread_create failed for thread 50 of 64: Resource temporarily "
        "unavailable",
        near_miss="curl: Resource temporarily unavailable, trying again",
        says="no more threads can be started: the limit of processes and threads is reached",
    ),
)

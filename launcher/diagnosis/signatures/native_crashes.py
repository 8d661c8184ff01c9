"""What native code prints where it ends a process: the kernel, the runtime of C++, glibc's malloc.

Texts: Linux' arch/x86/mm/fault.c; libstdc++'s vterminate.cc; glibc's malloc.c.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

SIGNATURES = (
    Signature(
        mode=job_runtime.NATIVE_CRASH,
        role=LineRole.INITIATOR,
        literal="]: segfault at ",
        # Linux, arch/x86/mm/fault.c; it knows a thread by its name, torch's main one since 2.5 as well.
        pattern=re.compile(
            r"\b(?P<program>python[\d.]{0,8}|pt_main_thread)\[\d{1,9}\]: segfault at [0-9a-f]{1,16} ip "
            r"[0-9a-f]{1,16} sp [0-9a-f]{1,16} error \d{1,4}(?: in (?P<library>[\w.+-]{1,100}))?"
        ),
        example="[Mon Jun 23 19:39:31 2025] python3.10[3078129]: segfault at 60 ip 00007f24b8cf2616 sp "
        "00007ffc0f212680 error 4 in libc10_cuda.so[7f24b8cc8000+5c000]",
        near_miss="[Mon Jun 23 19:39:31 2025] nautilus[778129]: segfault at 60 ip 00007f24b8cf2616 sp "
        "00007ffc0f212680 error 4",
        says="the kernel tells of {program} that it died of SIGSEGV, in {library}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.NATIVE_CRASH,
        role=LineRole.CASCADE,
        literal="terminate called ",
        pattern=re.compile(
            r"terminate called (?:after throwing an instance of '(?P<type>[^']+)'|without an active)"
        ),
        example="terminate called after throwing an instance of 'c10::Error'",
        near_miss="INFO terminate called after throwing nothing",
        says="a process aborted with {type}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.NATIVE_CRASH,
        role=LineRole.CASCADE,
        literal="__cxxabiv1::__terminate(",
        # In the stack that a handler of SIGABRT prints.
        pattern=re.compile(r"\[0x[0-9a-f]{1,16}\] __cxxabiv1::__terminate\("),
        example="/opt/conda/lib/libstdc++.so.6(+0xb135a) [0x7f51208b135a] __cxxabiv1::__terminate()",
        near_miss="INFO what calls __cxxabiv1::__terminate()",
        says="a process aborted: nobody caught an exception of C++",
        vague=True,
    ),
    Signature(
        mode=job_runtime.NATIVE_CRASH,
        role=LineRole.CASCADE,
        literal="(): invalid ",
        pattern=re.compile(
            r"^(?:free|malloc|realloc|munmap_chunk|malloc_consolidate)\(\): (?P<damage>invalid \w+)"
        ),
        example="free(): invalid pointer",
        near_miss="INFO load(): invalid value",
        says="a process aborted: its heap is damaged ({damage})",
        vague=True,
    ),
    Signature(
        mode=job_runtime.NATIVE_CRASH,
        role=LineRole.CASCADE,
        literal="double free or corruption",
        pattern=re.compile(r"^(?P<damage>double free or corruption) \("),
        example="double free or corruption (!prev)",
        near_miss="INFO looking for a double free or corruption",
        says="a process aborted: its heap is damaged",
        vague=True,
    ),
)

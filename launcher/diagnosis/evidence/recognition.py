"""What a file is, by its first bytes, and what it says as evidence."""

from __future__ import annotations

import re
from collections.abc import Callable

from launcher.cluster.sagemaker_names import host_in
from launcher.diagnosis.evidence.kernel_log import is_kernel_log, read_kernel_log
from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.evidence.nccl_ras import is_ras_report, read_ras_report
from launcher.diagnosis.evidence.nvidia_smi import is_nvidia_smi, read_nvidia_smi
from launcher.diagnosis.evidence.nvidia_smi_samples import is_clock_samples, read_clock_samples
from launcher.diagnosis.evidence.plain_pickle import LARGEST
from launcher.diagnosis.evidence.recordings import is_recording, read_recording
from launcher.diagnosis.evidence.stacks import is_stack_dump, read_stacks
from launcher.diagnosis.evidence.torch_analyser import is_analysis, read_analysis

HEAD = 4096
"""So many bytes of a file tell what it is."""

_RANK = re.compile(r"(?:rank|dump|trace|stack|stacks)[_.-]?(?P<rank>\d{1,7})(?!\d)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(?P<rank>\d{1,7})(?:\.[A-Za-z]{1,12})?$")

Read = Callable[[int], bytes]
"""Gives the content of a file, of which no more is read than so many bytes and one."""


def evidence_of(name: str, head: bytes, read: Read) -> FileEvidence | None:
    """What a file says that is evidence by itself; None for any other, such as a log.

    `name` is its path as it was found, which tells rank and host; `head` are its first HEAD bytes; `read`
    gives its content. A dump that cannot be read is named in `unread`.
    """
    if is_recording(head):
        return _recorded(name, read)
    if is_ras_report(head):
        return read_ras_report(read(LARGEST).decode("utf-8", "replace"))
    if is_nvidia_smi(head):
        return read_nvidia_smi(read(LARGEST).decode("utf-8", "replace"), host_in(name))
    if is_clock_samples(head):
        return read_clock_samples(read(LARGEST).decode("utf-8", "replace"), host_in(name))
    if is_analysis(head):
        return read_analysis(read(LARGEST).decode("utf-8", "replace"))
    if is_kernel_log(head):
        return read_kernel_log(read(LARGEST).decode("utf-8", "replace"), host_in(name))
    if is_stack_dump(head):
        text = read(LARGEST).decode("utf-8", "replace")
        stacks = read_stacks(text, rank_in(name), host_in(name))
        return FileEvidence(stacks=stacks, has_lines=True) if stacks else None
    return None


def _recorded(name: str, read: Read) -> FileEvidence:
    rank = rank_in(name)
    if rank is None:
        why = "its name says no rank, as rank_3 does"
        return FileEvidence(unread=(f"{name}: a flight recorder's dump, but {why}",))
    try:
        return FileEvidence(recordings=(read_recording(read(LARGEST), rank, host_in(name)),))
    except ValueError as error:
        return FileEvidence(unread=(f"{name}: {error}",))


def rank_in(name: str) -> int | None:
    """The rank whose file it is: behind a word such as `rank` or `dump`, else the number at its end."""
    file = name.replace("\\", "/").rpartition("/")[2]
    found = _RANK.search(file) or _LAST_NUMBER.search(file)
    return int(found["rank"]) if found else None

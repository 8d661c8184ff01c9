"""What Ray says of a worker that is gone.

Texts: Ray's raylet/node_manager.cc (HandleClientConnectionError, the summary of what the memory monitor
killed), core_worker and python/ray/exceptions.py of 2.0 to 2.49.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware, nccl

SIGNATURES = (
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="killed due to memory pressure (oom)",
        pattern=re.compile(
            r"(?<!\d)(?P<workers>[1-9]\d{0,5}) Workers \(tasks / actors\) killed due to memory pressure "
            r"\(OOM\)"
        ),
        example="(raylet) [2023-04-09 07:23:59,445 E 395 395] (raylet) node_manager.cc:3049: 10 Workers "
        "(tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons",
        near_miss="node_manager.cc:3049: 0 Workers (tasks / actors) killed due to memory pressure (OOM)",
        says="the host's memory was nearly full, and Ray's memory monitor killed {workers} workers",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="due to the node running low on memory",
        pattern=re.compile(
            r"(?:Task|Actor|Worker)\b.{0,80} was killed due to the node running low on memory"
        ),
        example="ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        near_miss="INFO tasks are killed due to the node running low on memory",
        says="the host's memory was nearly full, and Ray's memory monitor killed a worker",
    ),
    Signature(
        mode=hardware.CUDA_OUT_OF_MEMORY,
        role=LineRole.SYMPTOM,
        # Ray's own error of this name, of the host's memory, comes with the words of the monitor.
        literal="raytaskerror(outofmemoryerror)",
        pattern=re.compile(r"^ray\.exceptions\.RayTaskError\(OutOfMemoryError\): "),
        example="ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.update_actor() (pid=118848, "
        "ip=10.0.0.7)",
        near_miss="INFO a RayTaskError(OutOfMemoryError) is raised for it",
        says="an actor's GPU is full: torch raised OutOfMemoryError in it",
        vague=True,
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.CASCADE,
        literal="worker unexpectedly exits with a connection error code",
        pattern=re.compile(
            r"Worker exit type: \w{1,40} Worker exit detail: Worker unexpectedly exits with a connection "
            r"error code \d{1,6}\. End of file"
        ),
        example="Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a "
        "connection error code 2. End of file. There are some potential root causes.",
        near_miss="INFO what a Worker unexpectedly exits with a connection error code 2 for",
        says="a Ray worker's process ended without a word: mostly it was killed for the host's memory, or it "
        "died in native code",
        vague=True,
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="could not find any running ray instance",
        pattern=re.compile(r"^ConnectionError: Could not find any running Ray instance"),
        example="ConnectionError: Could not find any running Ray instance. Please specify the one to "
        "connect to by setting `--address` flag or `RAY_ADDRESS` environment variable.",
        near_miss="INFO Could not find any running Ray instance, starting one",
        says="the script joins a Ray cluster, and there is none on this host",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="objectstorefullerror: ",
        pattern=re.compile(r"^(?:ray\.exceptions\.)?ObjectStoreFullError: (?P<what>.{1,200})"),
        example="ray.exceptions.ObjectStoreFullError: Failed to put object ffff in object store because "
        "it is full.",
        near_miss="INFO an ObjectStoreFullError: it is tried again",
        says="Ray's object store, which lies in the host's memory, is full: {what}",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="error: ",
        pattern=re.compile(
            r"^(?:ray\.exceptions\.)?(?:NodeDiedError: (?P<what>.{1,200})"
            r"|\w+Error: The actor died because its node has died)"
        ),
        example="ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead "
        "or unavailable.",
        near_miss="INFO on NodeDiedError: the task is started anew",
        says="a host of Ray's cluster is gone: {what}",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="failed to connect to gcs",
        pattern=re.compile(r"Error: .{0,60}Failed to connect to GCS"),
        example="ray.exceptions.RaySystemError: System error: Failed to connect to GCS at address "
        "10.0.1.5:6379",
        near_miss="INFO failed to connect to GCS, trying again",
        says="Ray's head does not answer",
    ),
)

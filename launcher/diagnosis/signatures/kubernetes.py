"""What Kubernetes writes into a pod's status, and into its events, when it ends the pod.

Texts: pkg/kubelet/eviction/helpers.go of 1.8 to 1.36, active_deadline.go, preemption.go, nodeshutdown and
kuberuntime (BackOff); pkg/util/node of the node controller (NodeLost); the scheduler's preemption and its
FitError; the job controller; kubectl's table of pods (pkg/printers/internalversion), its describe.go, a pod
as YAML or JSON. That a container was killed for its memory (OOMKilled) is in `memory`, what a volume lacks in
`storage`.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware, job_runtime, nccl, storage

SIGNATURES = (
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="crashloopbackoff",
        # A row of `kubectl get pods`: name, containers that are ready, status, restarts.
        pattern=re.compile(
            r"^(?:[\w-]{1,63} +)?(?P<pod>[a-z0-9][a-z0-9.-]{0,252}) +\d{1,6}/\d{1,6} +"
            r"(?:Init:)?CrashLoopBackOff +(?P<times>\d{1,6})\b"
        ),
        example="pytorchjob-example-master-0         0/2     CrashLoopBackOff   8          2m32s",
        near_miss="pytorchjob-example-master-0 is not in CrashLoopBackOff 8 minutes later",
        says="a container of pod {pod} ended {times} times; its own error is not in the log: see "
        "`kubectl logs --previous`",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="restarting failed container",
        pattern=re.compile(
            r"\b[Bb]ack-off (?:[\dhms]{2,12} )?restarting failed container"
            r"(?:[= ](?P<container>[\w.-]{1,63}))?"
        ),
        example="Warning  BackOff  2m (x10 over 5m)  kubelet  Back-off restarting failed container pytorch "
        "in pod trainer-0_default(0b1c)",
        near_miss="INFO restarting failed containers is on",
        says="container {container} of the pod ended over and over; its own error is not in the log: see "
        "`kubectl logs --previous`",
        vague=True,
    ),
    *(
        Signature(
            mode=job_runtime.SCRIPT_RAISED,
            role=LineRole.CASCADE,
            literal=literal,
            # Signals, by 128 and their number, are in `exit_codes`; with 128 nothing was started.
            pattern=re.compile(
                rf"(?m)^[ \t]{{0,40}}{name}(?P<exit>(?!(?:12[89]|1[3-6]\d)(?!\d))[1-9]\d*),?\r?$"
            ),
            example=example,
            near_miss=near_miss,
            says="a container ended with exit code {exit}; its own error is not in the log: see "
            "`kubectl logs --previous`",
            vague=True,
        )
        for literal, name, example, near_miss in (
            ("exit code: ", "Exit Code: {1,12}", "      Exit Code:    1", "      Exit Code:    0"),
            ("exitcode", '"?exitCode"?: ', "        exitCode: 1", '        "exitCode": 0,'),
        )
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="the node ",
        pattern=re.compile(
            r"\bThe node (?:was low on resource: memory\b|had condition: \[[\w ]{0,80}\bMemoryPressure\b)"
        ),
        example="Message:      The node was low on resource: memory. Threshold quantity: 100Mi, available: "
        "61716Ki. Container pytorch was using 388Gi, request is 0, has larger consumption of memory.",
        near_miss="INFO the node was low on resource: memory, before it was grown",
        says="Kubernetes evicted the pod: the host's memory was full",
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="the node ",
        pattern=re.compile(
            r"\bThe node (?:was low on resource: "
            r"(?P<what>ephemeral-storage|inodes|nodefs(?:Inodes)?|imagefs(?:Inodes)?|disk)\b"
            r"|had condition: \[[\w ]{0,80}\bDiskPressure\b)"
        ),
        example="Message: The node was low on resource: ephemeral-storage. Container pytorch was using 96Gi, "
        "which exceeds its request of 0.",
        near_miss="The node was low on resource: pids.",
        says="Kubernetes evicted the pod: the host's disk was full",
    ),
    Signature(
        mode=job_runtime.DISK_FULL,
        role=LineRole.INITIATOR,
        literal="exceed",
        pattern=re.compile(
            r"\b(?P<what>Container [\w.-]{1,80} exceeded its local ephemeral storage limit \"[^\"]{1,20}\""
            r"|Pod ephemeral local storage usage exceeds the total limit of containers [\w.]{1,20}"
            r"|Usage of EmptyDir volume \"[^\"]{1,80}\" exceeds the limit \"[^\"]{1,20}\")"
        ),
        example='Usage of EmptyDir volume "dshm" exceeds the limit "8Gi".',
        near_miss="INFO warn before usage of a volume exceeds the limit",
        says="Kubernetes evicted the pod: {what}",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="deadline",
        pattern=re.compile(
            r"\b(?:Pod was active on the node longer than the specified deadline"
            r"|Job was active longer than specified deadline)"
        ),
        example="Warning  DeadlineExceeded  pod/trainer-0  Pod was active on the node longer than the "
        "specified deadline",
        near_miss="INFO the pod may be active until its deadline",
        says="Kubernetes ended it: it ran for longer than its deadline allows",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="preempted ",
        pattern=re.compile(
            r"\bPreempted (?:in order to admit critical pod|by (?:pod )?[\w./-]{1,200} on node [\w.-]{1,100})"
        ),
        example="Normal   Preempted  41s  default-scheduler  Preempted by default/urgent-0 on node gpu-17",
        near_miss="INFO preempted by nobody",
        says="Kubernetes gave its place to a pod of higher priority (preemption)",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal="node shutdown",
        pattern=re.compile(r"\bPod was terminated in response to imminent node shutdown\b"),
        example="Message:      Pod was terminated in response to imminent node shutdown.",
        near_miss="INFO no node shutdown is planned",
        says="Kubernetes ended it: its host was shut down",
    ),
    Signature(
        mode=job_runtime.STOPPED,
        role=LineRole.CASCADE,
        literal=" is unresponsive",
        pattern=re.compile(
            r"\bNode (?P<host>[\w.-]{1,100}) which was running pod [\w.-]{1,200} is unresponsive\b"
        ),
        example="Message:   Node gpu-17 which was running pod trainer-3 is unresponsive",
        near_miss="INFO the node is unresponsive for a moment",
        says="Kubernetes lost the host on which the pod ran (NodeLost)",
    ),
    Signature(
        mode=job_runtime.NO_CAPACITY,
        role=LineRole.SYMPTOM,
        literal=" nodes are available: ",
        pattern=re.compile(
            r"\b0/(?P<hosts>\d{1,6}) nodes are available: .{0,400}?\d{1,6} Insufficient "
            r"(?P<what>[\w.-]{1,60}/[\w.-]{1,60}|cpu|memory)"
        ),
        example="Warning  FailedScheduling  2m  default-scheduler  0/5 nodes are available: 1 Insufficient "
        "nvidia.com/gpu, 4 node(s) didn't match Pod's node affinity/selector.",
        near_miss="default-scheduler  0/5 nodes are available: 5 node(s) had untolerated taint.",
        says="Kubernetes finds no host for the pod: of {hosts} none has enough {what} free",
        remedy="Ask for no more than one host of the cluster has, add hosts, or wait for those that are "
        "busy. Where hosts have such devices and offer none, their device plugin does not run.",
        vague=True,
    ),
    Signature(
        mode=job_runtime.NO_CAPACITY,
        role=LineRole.SYMPTOM,
        literal=" nodes are available: ",
        pattern=re.compile(
            r"\b0/(?P<hosts>\d{1,6}) nodes are available: "
            r"(?!.{0,400}Insufficient|.{0,200}persistentvolumeclaim)"
            r".{0,200}?\d{1,6} node\(s\) (?P<what>didn't match Pod's node affinity|had untolerated taint)"
        ),
        example="default-scheduler  0/4 nodes are available: 4 node(s) didn't match Pod's node "
        "affinity/selector.",
        near_miss="default-scheduler  0/4 nodes are available: 4 node(s) were unschedulable.",
        says="Kubernetes finds no host for the pod: none of {hosts} is of the kind that it asks for",
        remedy="Compare the pod's nodeSelector, affinity and tolerations with the labels and taints of the "
        "hosts (`kubectl describe nodes`), or add hosts of that kind.",
        vague=True,
    ),
    Signature(
        mode=job_runtime.QUOTA_TOO_SMALL,
        role=LineRole.INITIATOR,
        literal="exceeded quota: ",
        pattern=re.compile(r"is forbidden: exceeded quota: (?P<what>.{1,300})"),
        example='Error creating: pods "train-0" is forbidden: exceeded quota: gpu-quota, requested: '
        "requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
        near_miss="INFO nobody has exceeded quota: 8",
        says="the namespace's quota is used up: {what}",
        remedy="Ask for less, end what holds the quota, or have it raised: `kubectl describe "
        "resourcequota` shows it.",
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="system oom encountered",
        pattern=re.compile(r"\bSystem OOM encountered, victim process: (?P<process>[\w.:/-]{1,80})"),
        example="Warning  SystemOOM  12s  kubelet  System OOM encountered, victim process: python3, "
        "pid: 4711",
        near_miss="INFO no System OOM encountered",
        says="the host's memory was full, and its kernel killed {process}",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.INITIATOR,
        literal="multi-attach error for volume",
        pattern=re.compile(r"Multi-Attach error for volume \"(?P<volume>[^\"]{1,120})\""),
        example='Multi-Attach error for volume "pvc-1a2b" Volume is already used by pod(s) train-worker-0',
        near_miss="INFO a Multi-Attach error for volumes of one host",
        says="volume {volume} is held by another host, and can be at one only",
        remedy="Use a file system that many hosts mount (FSx for Lustre, EFS: ReadWriteMany), or wait until "
        "the pod that holds the volume is gone.",
    ),
    *(
        Signature(
            mode=job_runtime.STOPPED,
            role=LineRole.CASCADE,
            literal=literal,
            pattern=re.compile(rf"(?:^|\s){re.escape(literal)}", re.I),
            example=f"Normal  {reason}  12s  controller  {text}",
            near_miss=f"INFO not:{literal}",
            says=f"Kubernetes took its host or its place: {says}",
        )
        for literal, reason, text, says in (
            (
                "disrupting node:",
                "DisruptionTerminating",
                "Disrupting Node: Underutilized",
                "Karpenter removed the host",
            ),
            (
                "spot interrupted warning was triggered",
                "SpotInterrupted",
                "Spot interrupted warning was triggered",
                "a spot host was taken back",
            ),
            (
                "preempted to accommodate a workload",
                "EvictedDueToPreempted",
                "Preempted to accommodate a workload",
                "Kueue gave it to another workload",
            ),
            (
                "marking for deletion pod",
                "TaintManagerEviction",
                "Marking for deletion Pod default/train-0",
                "the host was not ready any more",
            ),
        )
    ),
    Signature(
        mode=job_runtime.IMAGE_UNAVAILABLE,
        role=LineRole.INITIATOR,
        literal="invalidimagename",
        pattern=re.compile(r"\bError: InvalidImageName\b"),
        example="Warning  Failed  8s (x4 over 30s)  kubelet  Error: InvalidImageName",
        near_miss="INFO an error of the kind InvalidImageName",
        says="the image's name is none: it has capitals, or a character that no name may have",
    ),
    Signature(
        mode=storage.LUSTRE_MOUNT_FAILED,
        role=LineRole.SYMPTOM,
        literal="persistentvolumeclaim",
        pattern=re.compile(
            r"persistentvolumeclaim \"(?P<volume>[^\"]{1,120})\" (?:not found|bound to non-existent|is "
            r"being deleted)"
        ),
        example='0/4 nodes are available: persistentvolumeclaim "fsx-claim" not found.',
        near_miss='INFO persistentvolumeclaim "fsx-claim" created',
        says="Kubernetes has no volume for the pod's claim {volume}",
    ),
    Signature(
        mode=nccl.PEER_ACCESS_REFUSED,
        role=LineRole.SYMPTOM,
        literal="allocate failed due to ",
        pattern=re.compile(
            r"Allocate failed due to (?P<what>(?:requested number of devices unavailable for|no healthy "
            r"devices "
            r"present; cannot allocate unhealthy devices) \S{1,60})"
        ),
        example="Warning  UnexpectedAdmissionError  12s  kubelet  Allocate failed due to requested number "
        "of devices unavailable for nvidia.com/gpu. Requested: 8, Available: 7, which is unexpected",
        near_miss="INFO Allocate failed due to rpc error",
        says="a GPU of the host was gone when the pod was to get it: {what}",
    ),
    Signature(
        mode=job_runtime.NO_CAPACITY,
        role=LineRole.SYMPTOM,
        literal="pod didn't trigger scale-up",
        pattern=re.compile(r"pod didn't trigger scale-up: (?P<why>.{1,200})"),
        example="Normal  NotTriggerScaleUp  12s  cluster-autoscaler  pod didn't trigger scale-up: 3 max "
        "node group size reached",
        near_miss="INFO a pod didn't trigger scale-up",
        says="the cluster's autoscaler adds no host for the pod: {why}",
        vague=True,
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="container init was oom-killed",
        pattern=re.compile(r"container init was OOM-killed"),
        example="OCI runtime create failed: container init was OOM-killed (memory limit too low?): unknown",
        near_miss="INFO no container init was oom-killed",
        says="the container's limit of memory is too low for it to start",
    ),
)

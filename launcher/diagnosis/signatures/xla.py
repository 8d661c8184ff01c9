"""What stands around XLA: JAX's coordination service, XLA's rendezvous, torch_xla's mesh, Neuron's compiler.

Texts: coordination_service.cc and coordination_service_agent.cc of TensorFlow 2.9 on and XLA to 2026; XLA's
service/rendezvous.cc, collective_ops_utils.h and pjrt/distributed/client.h; torch_xla's mesh_service.cc of
1.5 to 1.13; libneuronxla's wrapper of the compiler as aws-neuron/aws-neuron-sdk issues 881, 947 and 948 have
it.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import hardware, job_runtime, nccl, training_compiler

_TASK = r"/job:\w{1,60}/(?:replica:\d{1,6}/)?task:"
_NOT_ALL_CAME = (
    "Look into the logs of the processes that did not come, whose tasks the lines name, and whether as many "
    "were started as jax.distributed.initialize is told. Where hosts only need longer to start, give it a "
    "longer initialization_timeout."
)
_COMPILER = (
    "The compiler of Neuron refused a graph of the model, before anything ran on a device. Its message names "
    "the operation: change it in the model, or take another version of neuronx-cc. A failure stays in the "
    "compile cache: run again with --retry_failed_compilation in NEURON_CC_FLAGS."
)

SIGNATURES = (
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="barrier timed out. ",
        pattern=re.compile(r"\bBarrier timed out\. (?:Barrier_id|Id): (?P<barrier>\S{1,160}?)\.? "),
        example="jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: "
        "PjRT_Client_Connect. Timed out task names:",
        near_miss="INFO no Barrier timed out. Id: none",
        says="not all processes came to JAX's barrier {barrier}",
        remedy=_NOT_ALL_CAME,
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="cluster registration failed",
        pattern=re.compile(r"Stopping coordination service as cluster registration failed"),
        example="Stopping coordination service as cluster registration failed. This may be due to 1) some "
        "tasks crashed earlier before connecting, 2) some tasks were never scheduled",
        near_miss="INFO cluster registration failed once, trying again",
        says="not all processes registered at JAX's coordination service",
        remedy=_NOT_ALL_CAME,
        vague=True,
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="coordinationservice/registertask",
        pattern=re.compile(r"while calling /tensorflow\.CoordinationService/RegisterTask:"),
        example="Additional GRPC error information from remote target coordination_service while calling "
        "/tensorflow.CoordinationService/RegisterTask:",
        near_miss="INFO calling /tensorflow.CoordinationService/RegisterTask",
        says="could not register at JAX's coordination service, which the process with id 0 runs",
        remedy=_NOT_ALL_CAME,
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal=" heartbeat timeout",
        pattern=re.compile(r"\bTask " + _TASK + r"(?P<rank>\d{1,6}) heartbeat timeout"),
        example="UNAVAILABLE: Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates that "
        "the remote task has failed, got preempted, or crashed unexpectedly.",
        near_miss="INFO Task /job:jax_worker has a heartbeat timeout of 100 s",
        says="JAX's coordination service heard no more of this process",
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="coordination service",
        pattern=re.compile(
            r"Failed to send RPC to coordination service\. Either the leader"
            r"|Polled an error from coordination service"
        ),
        example="UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was "
        "preempted/died/restarted unexpectedly or this task is experiencing network issues.",
        near_miss="INFO connected to the coordination service",
        says="JAX's coordination service told of another process' failure, or was gone itself",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="distributed service detected fatal errors",
        pattern=re.compile(
            r"Terminating process because the (?:JAX )?distributed service detected fatal errors"
        ),
        example="client.h:77] Terminating process because the JAX distributed service detected fatal errors. "
        "This most likely indicates that another task died; see the other task logs for more details.",
        near_miss="INFO no distributed service detected fatal errors",
        says="JAX ended this process because another one had died",
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="exiting to ensure a consistent program state",
        pattern=re.compile(
            r"Termination timeout for `(?P<what>[^`]{1,300})`.{0,300} of (?P<seconds>\d{1,9}) seconds "
            r"exceeded\. Exiting to ensure"
        ),
        example="rendezvous.cc:60] Termination timeout for `first call to collective operation 0; "
        "run_id=7` of 40 seconds exceeded. Exiting to ensure a consistent program state.",
        near_miss="INFO exiting to ensure a consistent program state",
        says="XLA waited {seconds} s in vain for the other participants in {what}",
    ),
    Signature(
        mode=nccl.INITIALISATION_STALLED,
        role=LineRole.CASCADE,
        # XLA says it of any rendezvous that takes some seconds, and later that it was none: only weak.
        literal="this thread has been waiting for ",
        pattern=re.compile(
            r"This thread has been waiting for `initialize clique[^`]{0,200}.{0,400}may be stuck"
        ),
        example="rendezvous.cc:38] This thread has been waiting for `initialize clique for rank 6; "
        "clique=devices=[0,1]; stream=0; run_id=724` for 10 seconds and may be stuck.",
        near_miss="INFO this thread has been waiting for work",
        says="XLA waits for all participants of a new NCCL communicator, and not all have come",
        vague=True,
    ),
    Signature(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.CASCADE,
        literal="this thread has been waiting for ",
        pattern=re.compile(
            r"This thread has been waiting for (?!`initialize clique)(?:`[^`]{1,300}`.{0,300}|\d{1,9}ms for )"
            r"(?:and )?may be stuck|This thread has been waiting for \d{1,9}ms for and may be stuck"
        ),
        example="collective_ops_utils.h:310] This thread has been waiting for 5000ms for and may be stuck: "
        "participant AllReduceParticipantData{rank=1, element_count=7840}",
        near_miss="INFO This thread has been waiting for 5000ms for work",
        says="XLA waits in a collective for participants that have not come",
        vague=True,
    ),
    Signature(
        mode=nccl.CLOSED_BY_PEER,
        role=LineRole.CASCADE,
        literal="failed to meet rendezvous '",
        pattern=re.compile(
            r"Failed to meet rendezvous '(?P<tag>[^']{1,100})': "
            r"(?P<why>Socket closed|Connection reset by peer)"
        ),
        example="Exception in device=TPU:3: tensorflow/compiler/xla/xla_client/mesh_service.cc:247 : Failed "
        "to meet rendezvous 'init': Socket closed (14)",
        near_miss="INFO nobody failed to meet rendezvous 'init'",
        says="the process that keeps torch_xla's rendezvous had ended ({tag}: {why})",
    ),
    Signature(
        mode=nccl.RENDEZVOUS_TIMED_OUT,
        role=LineRole.SYMPTOM,
        literal="failed to ",
        pattern=re.compile(
            r"Failed to meet rendezvous '[^']{1,100}': (?!Socket closed|Connection reset)(?P<why>.{1,80})"
            r"|^Failed to connect to client mesh master: (?P<peer>\S{1,200})"
        ),
        example="RuntimeError: tensorflow/compiler/xla/xla_client/mesh_service.cc:294 : Failed to meet "
        "rendezvous 'init': Deadline Exceeded (4)",
        near_miss="INFO failed to meet rendezvous goals",
        says="the processes of torch_xla did not meet: {why}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.SYMPTOM,
        literal="||neuron_cc_wrapper||: ",
        pattern=re.compile(
            r"ERROR \|\|NEURON_CC_WRAPPER\|\|: "
            r"(?:Failed compilation with|Got a cached failed neff|There was a compilation error)"
        ),
        example="2024-08-15 14:51:41.000622:  2216  ERROR ||NEURON_CC_WRAPPER||: Failed compilation with "
        "['neuronx-cc', 'compile', '--target=trn1']",
        near_miss="2024-08-15 14:51:41.000622:  2216  INFO ||NEURON_CC_WRAPPER||: Call compiler with cmd: x",
        says="Neuron's compiler failed on a graph of the model",
        remedy=_COMPILER,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="[ncc_",
        pattern=re.compile(r"\[NCC_(?P<number>[A-Z]{1,6}\d{1,6})\] (?P<what>\S.{0,200})"),
        example="ERROR: [NCC_EVRF004] Complex data types are not supported on the Neuron device: complex64.",
        near_miss="INFO see [NCC_EVRF004]",
        says="Neuron's compiler refused a graph (NCC_{number}): {what}",
        remedy=_COMPILER,
    ),
    Signature(
        mode=hardware.HOST_OUT_OF_MEMORY,
        role=LineRole.INITIATOR,
        literal="neuronx-cc was forcibly killed",
        pattern=re.compile(r"\[F137\] neuronx-cc was forcibly killed"),
        example="[F137] neuronx-cc was forcibly killed - This most commonly occurs due to insufficient "
        "system memory.",
        near_miss="INFO why neuronx-cc was forcibly killed",
        says="the host's memory was full, and Neuron's compiler was killed",
    ),
    Signature(
        mode=training_compiler.GPU_NUM_DEVICES_WRONG,
        role=LineRole.INITIATOR,
        literal="missing xla configuration",
        pattern=re.compile(r"(?:RuntimeError:|computation_client\.cc).*Missing XLA configuration"),
        example="RuntimeError: tensorflow/compiler/xla/xla_client/computation_client.cc:234 : Missing XLA "
        "configuration",
        near_miss="INFO 'missing XLA configuration' means GPU_NUM_DEVICES",
        says="torch_xla does not know its devices",
    ),
    Signature(
        mode=training_compiler.NO_MP_FN,
        role=LineRole.INITIATOR,
        literal="'_mp_fn'",
        pattern=re.compile(r"^AttributeError: module '(?P<module>[\w.]{1,200})' has no attribute '_mp_fn'"),
        example="AttributeError: module 'train' has no attribute '_mp_fn'",
        near_miss="AttributeError: 'Trainer' object has no attribute '_mp_fn'",
        says="the entry point {module} has no function _mp_fn, which the launcher calls on each worker",
    ),
)

"""Rules on the hosts of a job: their type, number, network and capacity, their processes and their image.

Also the variables of their environment that turn EFA off, hide or fight its plugin, or are obsolete;
SageMaker Training Compiler (torch_xla), which has images and GPUs of its own, and whether there are
UltraServers where hosts are to be placed on them (SPEC003).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from launcher.cluster.instances import find_hint, instance_facts, nearest_instance_types
from launcher.failure_modes import (
    data,
    distribution,
    images,
    job_file,
    nccl,
    network,
    notices,
    training_compiler,
)
from launcher.failure_modes.model import FailureMode, Finding, Path, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.script_inputs import WORKER_NAMES, find_given_numbers
from launcher.jobs.specification import Strategy
from launcher.planning.image_choice import efa_plugin_version, job_image_software
from launcher.planning.images import (
    image_release,
    image_versions,
    is_registry_of_aws,
    nearest_versions,
    parse_aws_image,
    registry_accounts,
    torch_version,
)
from launcher.planning.job_cost import part_cost_in_words
from launcher.planning.settings import PLUGIN_CHOOSES_PROVIDER
from launcher.planning.strategies.catalogue import TUNING_STRATEGIES
from launcher.planning.strategies.strategy import SHELL_ENDING, TENSORFLOW
from launcher.rules.job.access_rules import framework_of
from launcher.rules.job.start_scripts import in_shell_script, line_of_option, shell_starts, shell_text
from launcher.rules.job.subject import GivenVariable, JobSubject
from launcher.rules.shared_facts import (
    SWITCHED_ON,
    advice_on,
    debugging_cost,
    excludes_efa,
    interface_harm,
    is_only_verbose,
    why_obsolete,
)
from launcher.source.start_line import PROCESS_OPTIONS
from launcher.source.start_script import BatchJob, read_batch_script
from launcher.text.values import parse_image_uri

# The instance type against the types that the training API accepts.


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def known_instance_type(subject: JobSubject) -> Iterator[Finding]:
    """A type outside of the API's TrainingInstanceType enum is refused by the service."""
    if subject.facts is None:
        yield _check_type_is_known(subject.job.resources.instance_type, ("resources", "instance_type"))


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def known_alternatives(subject: JobSubject) -> Iterator[Finding]:
    """A retry on an unknown type would be refused, when the first one has failed already."""
    for index, instance_type in enumerate(subject.job.resources.instance_types):
        if instance_facts(instance_type) is None:
            yield _check_type_is_known(instance_type, ("resources", "instance_types", index))


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def alternatives_need_retries(subject: JobSubject) -> Iterator[Finding]:
    """Other types are for retries, of which there are none unless asked for, or for the service to choose."""
    resources = subject.job.resources
    tried_later = resources.instance_types and resources.instance_choice == "launcher"
    if tried_later and not subject.job.limits.max_retries:
        yield job_file.INVALID_VALUE.at(
            ("resources", "instance_types"),
            "resources.instance_types are what a retry tries when there is no capacity, and "
            "limits.max_retries is 0: they have no effect",
            remedy="Set `limits.max_retries`, or `instance_choice: service`, or remove them.",
            severity=Severity.INFO,
        )


def _check_type_is_known(instance_type: str, path: Path) -> Finding:
    near = nearest_instance_types(instance_type)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return job_file.BREAKS_API_MODEL.at(
        path,
        f"{instance_type} is not a training instance type that this version knows",
        remedy=f"{hint}If it is newer than this version, accept it with `ignore: [SPEC004]` and give "
        f"`distribution.processes_per_host`.{find_hint(near[0] if near else instance_type)}",
    )


# What connects the hosts of a job.


@finds(Stage.SPEC, network.HOSTS_WITHOUT_EFA)
def several_hosts_have_efa(subject: JobSubject) -> Iterator[Finding]:
    """Accelerators on several hosts wait for the network at every step."""
    facts, hosts = subject.facts, subject.job.resources.instance_count
    if facts is None or hosts < 2 or not facts.accelerators:
        return
    if not facts.has_efa:
        lack = "has no EFA: gradients would go over TCP, and the accelerators wait for them at every step"
    elif facts.gpudirect_rdma is False:
        lack = "has EFA, but no GPUDirect RDMA: every message would be copied through host memory"
    else:
        return
    yield network.HOSTS_WITHOUT_EFA.at(
        ("resources", "instance_type"),
        f"{hosts} hosts of {facts.instance_type}: the type {lack}",
    )


# UltraServers.


_OF_ULTRA_SERVERS = ("ml.p6e-", "ml.trn2u.")
"""How the types begin of which UltraServers are made: SageMaker's API reference (UltraServerSummary) names
ml.u-p6e-gb200x72, and trn2u is what EC2 calls trn2 in an UltraServer."""


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def hosts_are_of_ultra_servers(subject: JobSubject) -> Iterator[Finding]:
    """The API has placement for the capacity of UltraServers alone."""
    resources = subject.job.resources
    if resources.placement is None or resources.instance_type.startswith(_OF_ULTRA_SERVERS):
        return
    yield job_file.INVALID_VALUE.at(
        ("resources", "placement"),
        f"{resources.instance_type} is not a type of which UltraServers are made, and only on those hosts "
        "can be placed: the service would refuse the job",
        remedy="Remove `placement`, or use a type of UltraServers, such as ml.p6e-gb200.36xlarge.",
    )


# The storage volume of the hosts.


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def volume_has_a_meaning(subject: JobSubject) -> Iterator[Finding]:
    """Types with disks of their own use those, whatever volume is asked for."""
    resources = subject.job.resources
    given = "volume_size_gb" in resources.model_fields_set
    if given and subject.facts is not None and subject.facts.local_nvme_gb:
        yield job_file.INVALID_VALUE.at(
            ("resources", "volume_size_gb"),
            f"resources.volume_size_gb ({resources.volume_size_gb}) has no effect: {resources.instance_type} "
            f"uses its own {subject.facts.local_nvme_gb} GB of local disks",
            remedy="Remove it.",
            severity=Severity.INFO,
        )


# Processes per host against the accelerators of the host.


@finds(Stage.SPEC, distribution.PROCESSES_DIFFER_FROM_ACCELERATORS)
def one_process_per_accelerator(subject: JobSubject) -> Iterator[Finding]:
    """Fewer processes than accelerators leave some idle and can end in network timeouts.

    More of them than there are devices is DIST003, which the plan finds.
    """
    given = subject.job.distribution.processes_per_host
    if given is None or subject.facts is None:
        return
    if subject.job.distribution.strategy is Strategy.NONE:
        expected, owner = 1, "the strategy none starts one process per host"
    elif subject.facts.accelerators:
        expected = subject.facts.processes_per_host
        if given > expected:
            return
        owner = f"{subject.facts.instance_type} has {expected} accelerators per host"
    else:
        return
    if given != expected:
        instead = f"or set it to {expected}"
        if subject.here and expected > 1:
            instead = f"and give --processes {given}, which is for this machine alone"
        yield distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.at(
            ("distribution", "processes_per_host"),
            f"processes_per_host is {given}, but {owner}",
            remedy=f"Leave `processes_per_host` out, {instead}.",
        )


@finds(
    Stage.SPEC,
    distribution.PROCESSES_DIFFER_FROM_ACCELERATORS,
    distribution.MORE_PROCESSES_THAN_DEVICES,
)
def shells_start_one_process_per_accelerator(subject: JobSubject) -> Iterator[Finding]:
    """The number of processes that a shell script gives to torchrun, accelerate or deepspeed on each host."""
    facts, hosts = subject.facts, subject.job.resources.instance_count
    if facts is None or not facts.accelerators or subject.here:
        return
    started: list[tuple[int, int, BatchJob]] = []
    for job in shell_starts(subject):
        given = "" if job.start.processes is None else job.start.processes.text
        if given.isdecimal():
            in_all = hosts if job.start.starter == "accelerate" else 1
            started.append((int(given), facts.processes_per_host * in_all, job))
    if any(number == devices for number, devices, _ in started):
        return  # What is started otherwise prepares, or looks at what came out.
    for number, devices, job in started:
        more = number > devices
        mode = (
            distribution.MORE_PROCESSES_THAN_DEVICES
            if more
            else distribution.PROCESSES_DIFFER_FROM_ACCELERATORS
        )
        where = "in all" if job.start.starter == "accelerate" else "on each host"
        finding = mode.at(
            ("code", "entry_point"),
            f"{subject.source.entry_point_name} starts {number} processes {where}, where there are {devices} "
            f"devices: " + ("some of them would share one" if more else "the others stand idle"),
            severity=None if more else Severity.WARNING,
        )
        yield in_shell_script(subject, finding, line_of_option(subject, job, *PROCESS_OPTIONS))


@finds(
    Stage.SPEC,
    distribution.PROCESSES_DIFFER_FROM_ACCELERATORS,
    distribution.MORE_PROCESSES_THAN_DEVICES,
)
def processes_are_shown_their_devices(subject: JobSubject) -> Iterator[Finding]:
    """CUDA_VISIBLE_DEVICES of the job with fewer GPUs than each host starts processes; or of the only command
    of its shell script, to which the other GPUs of the host stay hidden."""
    facts, processes = subject.facts, subject.plan.processes_per_host
    if facts is None or not facts.has_gpus or processes is None or subject.here:
        return
    starts = [each.start for each in shell_starts(subject)]
    for variable in _variables(subject):
        shown = [each.strip() for each in variable.value.split(",")]
        if variable.name != "CUDA_VISIBLE_DEVICES" or not all(each.isdecimal() for each in shown):
            continue
        visible = f" shows {len(shown)} of the {facts.accelerators} GPUs"
        started = processes
        if variable.line is not None:
            started = (starts[0].processes_per_host or 1) if len(starts) == 1 else 0
        if len(shown) < started:
            yield _on_variable(
                subject,
                variable,
                distribution.MORE_PROCESSES_THAN_DEVICES,
                f"{visible}, and {started} processes are started on each host",
                remedy="Take it out: each process takes the device of its LOCAL_RANK.",
            )
        elif variable.line is not None and started and len(shown) < facts.accelerators:
            yield _on_variable(
                subject,
                variable,
                distribution.PROCESSES_DIFFER_FROM_ACCELERATORS,
                f"{visible} to the only training that is started: the others stand idle, and are billed",
                remedy="Take it out, or choose an instance type with as many GPUs.",
                severity=Severity.WARNING,
            )


def _on_variable(
    subject: JobSubject,
    variable: GivenVariable,
    mode: FailureMode,
    said: str,
    *,
    remedy: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    """What is `said` of a variable, where it is given: in the job file, or at a line of its shell script."""
    message = f"{variable.name}={variable.value}{said}"
    finding = mode.at(variable.path, message, remedy=remedy, severity=severity)
    return finding if variable.line is None else in_shell_script(subject, finding, variable.line)


def _variables(subject: JobSubject) -> Iterator[GivenVariable]:
    """The variables of the job, and those that its shell script exports with a value that is written out."""
    yield from subject.variables()
    if text := shell_text(subject):
        for name, value, line in read_batch_script(text.decode("utf-8", "replace")).handed_on():
            yield GivenVariable(name, value, ("code", "entry_point"), line)


_SPREADS = (
    *("MirroredStrategy", "MultiWorkerMirroredStrategy", "pmap", "make_mesh", "NamedSharding"),
    "DataParallel",
)
"""What spreads one process over the host's devices, with TensorFlow, JAX and PyTorch."""

_TORCHRUN_USES_ALL = "Set `distribution: {strategy: torchrun}`, which starts a process for each of them"
_USES_ALL = {
    "tensorflow": "Build and compile the model in the scope of a tf.distribute.MirroredStrategy(), which "
    "uses all of a host, or start a process for each with Horovod and `distribution: {strategy: mpi}`",
    "jax": "Shard the arrays over jax.devices() (jax.make_mesh, NamedSharding), which uses all of a host",
}
"""By framework: torchrun is PyTorch's."""


@finds(Stage.SPEC, distribution.PROCESSES_DIFFER_FROM_ACCELERATORS)
def no_accelerators_idle_without_a_launcher(subject: JobSubject) -> Iterator[Finding]:
    """One Python process per host, which is also what no `distribution` means, uses one accelerator.

    Unless it starts others, of which the rules on the script speak, or spreads itself over them, which cannot
    be seen: so a warning, and none for a shell script, which starts its ranks itself, nor where the one
    process was asked for.
    """
    facts, job = subject.facts, subject.job
    if (
        job.distribution.strategy is not Strategy.NONE
        or job.distribution.processes_per_host is not None
        or facts is None
        or facts.processes_per_host == 1
        or subject.here
        or subject.starts_ranks
        or (job.code.entry_point or "").endswith(SHELL_ENDING)
        or (subject.program is not None and subject.program.mentioning(*_SPREADS))
    ):
        return
    total = facts.processes_per_host * job.resources.instance_count
    idle = total - job.resources.instance_count
    devices = "GPUs" if facts.has_gpus else "NeuronCores"
    view = subject.plan.view
    cost = part_cost_in_words(view, subject.plan.region, idle / total) if view else None
    given = "distribution" in job.model_fields_set
    framework = framework_of(subject.program) if subject.program is not None else None
    if job.framework is not None and job.framework.name == TENSORFLOW:
        framework = TENSORFLOW
    yield distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.at(
        ("distribution", "strategy") if given else ("resources", "instance_type"),
        f"{'the strategy none' if given else 'a job without `distribution`'} starts one process per host: "
        f"{idle} of the {total} {devices} {'stands' if idle == 1 else 'stand'} idle "
        "unless the script spreads itself over them" + (f", and cost {cost}" if cost else ""),
        remedy=f"{_USES_ALL.get(framework or '', _TORCHRUN_USES_ALL)}, or choose a type with one. Where the "
        "script uses all of them itself, say so with `distribution: {processes_per_host: 1}`.",
        severity=Severity.WARNING,
    )


# DataLoader workers against the CPUs of the host.


@finds(Stage.SPEC, data.TOO_MANY_WORKERS)
def workers_have_their_cpus(subject: JobSubject) -> Iterator[Finding]:
    """Where the job file gives the script a number of workers, by any name and way known for it."""
    processes = subject.plan.processes_per_host
    if subject.facts is None or processes is None:
        return
    cpus = max(1, subject.facts.vcpus // processes)
    job = subject.job
    for given in find_given_numbers(job.hyperparameters, job.code.arguments, job.environment):
        if given.plain_name in WORKER_NAMES and given.value > cpus:
            yield data.TOO_MANY_WORKERS.at(
                given.path,
                f"{given.name} is {given.value} for each process: {processes} processes make "
                f"{given.value * processes} workers on the {subject.facts.vcpus} vCPUs of "
                f"{subject.facts.instance_type}",
                remedy=f"Use at most {max(1, cpus - 1)}: {cpus} vCPUs for each process, less one for itself.",
            )


# An image that the job file names by its URI: what the URI says of it.


_REGISTRY = re.compile(r"\d{12}\.dkr[.-]ecr[.-]")
"""How the address of every registry of ECR begins, whatever the partition calls its domain."""


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def image_has_the_toolkit(subject: JobSubject) -> Iterator[Finding]:
    """In a tuning job it has to start the script by itself, where the boot would do so otherwise."""
    job = subject.job
    if job.tuning is None or job.image is None:
        return
    if job.distribution.strategy in TUNING_STRATEGIES:
        yield distribution.UNSUPPORTED_COMBINATION.at(
            ("image",),
            f"in a tuning job the image's own entry point starts the script: {job.image} must have the "
            "SageMaker training toolkit, or each training job runs something else",
            remedy="Build it on an AWS deep learning container, or install sagemaker-training in it.",
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def image_is_in_ecr(subject: JobSubject) -> Iterator[Finding]:
    """Training jobs pull from ECR; from another registry only with TrainingImageConfig, which is not sent.

    Source: the SageMaker API reference, AlgorithmSpecification and TrainingImageConfig.
    """
    uri = subject.job.image
    reference = parse_image_uri(uri or "")
    in_china = reference is not None and reference.region.startswith("cn-")
    has_domain = reference is None or in_china is (".com.cn/" in reference.uri)
    if uri is None or not subject.on_sagemaker or (_REGISTRY.match(uri) and has_domain):
        return
    yield images.IMAGE_UNAVAILABLE.at(
        ("image",),
        f"{uri} is not the address of an image in Amazon ECR: CreateTrainingJob would refuse it",
        remedy="Copy it into ECR in the job's region and name it as "
        "ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG; or name one of AWS's images by `framework`.",
    )


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def image_of_aws_is_known(subject: JobSubject) -> Iterator[Finding]:
    """A warning, as AWS may have built images since the table was made."""
    reference = parse_image_uri(subject.job.image or "")
    if reference is None or not subject.on_sagemaker or not is_registry_of_aws(reference.account):
        return
    image = parse_aws_image(reference.uri)
    release = image_release(image.framework, image.version) if image else None
    of_aws = reference.repository in ("pytorch-training", "tensorflow-training")
    python = re.search(r"\bpy\d+\b", reference.tag or "") if of_aws else None
    owners = registry_accounts(reference.region)
    if owners and reference.account not in owners:
        problem = f"in {reference.region} AWS's training images are not in account {reference.account}"
        remedy = f"There they are in {' and '.join(owners)}; or name the image by `framework`."
    elif reference.repository.endswith(("-inference", "-inference-arm64")):
        problem = f"{reference.repository} is made to serve models: it lacks what training needs"
        remedy = "Take the repository of the same name with `training`, or name the image by `framework`."
    elif release is not None and python is not None and python[0] not in (release.python or python[0]):
        problem = f"AWS is not known to have {reference.repository}:{reference.tag}: it has no {python[0]}"
        remedy = f"The image of this version has {' or '.join(release.python)}."
    elif image is not None and release is None:
        known = image_versions(image.framework)
        problem = f"AWS is not known to have {image.name}, and the pull would fail after waiting for hosts"
        remedy = (
            f"Versions near it are {', '.join(nearest_versions(image.version, known))}, the newest is "
            f"{known[-1]}; `launch check JOB.yaml --live` asks the registry."
        )
    elif reference.tag == "latest":
        problem = f"{reference.uri} names no version, and no tag `latest` is known of AWS's training images"
        remedy = "Name the image by `framework: {version: latest}`, which chooses one and says which."
    else:
        return
    yield images.IMAGE_UNAVAILABLE.at(("image",), problem, remedy=remedy, severity=Severity.WARNING)


@finds(Stage.SPEC, images.DRIVER_MISMATCH)
def image_uses_the_gpus(subject: JobSubject) -> Iterator[Finding]:
    """A warning: an image for CPUs runs on a host with GPUs, and uses none of them."""
    image = parse_aws_image(subject.job.image or "")
    facts = subject.facts
    if (
        image is None
        or facts is None
        or not subject.on_sagemaker
        or image.processor != "cpu"
        or not facts.has_gpus
    ):
        return
    yield images.DRIVER_MISMATCH.at(
        ("image",),
        f"{image.name} is built for CPUs: torch.cuda.is_available() is false in it, and the "
        f"{facts.accelerators} GPUs of {facts.instance_type} stand idle",
        remedy="Take the image with gpu in its tag, name it by `framework`, or choose a type without GPUs.",
        severity=Severity.WARNING,
    )


# SageMaker Training Compiler (torch_xla).


@finds(Stage.SPEC, training_compiler.GPU_NUM_DEVICES_WRONG)
def compiler_knows_its_gpus(subject: JobSubject) -> Iterator[Finding]:
    """A number of the user that is not the GPUs of the host; without one the plan sets it."""
    if not _is_compiled(subject) or subject.facts is None or not subject.facts.has_gpus:
        return
    gpus = subject.facts.accelerators
    for variable in _variables(subject):
        if variable.name == "GPU_NUM_DEVICES" and variable.value.strip() != str(gpus):
            yield _on_variable(
                subject,
                variable,
                training_compiler.GPU_NUM_DEVICES_WRONG,
                f", but {subject.facts.instance_type} has {gpus} GPUs: "
                "the workers would not start, or leave GPUs idle",
                remedy=f"Remove it, and the plan sets {gpus}.",
            )


@finds(Stage.SPEC, training_compiler.DIVERGES_FROM_NATIVE, training_compiler.NO_GAIN_IN_TIME)
def compiled_training_is_compared(subject: JobSubject) -> Iterator[Finding]:
    """A run with the compiler is compared with one without it, and given a larger batch."""
    if not _is_compiled(subject):
        return
    batch = subject.job.data.batch_size if subject.job.data else None
    size = f"a batch of {batch} per process" if batch else "a batch"
    for mode, message in (
        (
            training_compiler.DIVERGES_FROM_NATIVE,
            "whether the compiled model converges as the native one does shows only beside a run without "
            "the compiler that is equal in all else",
        ),
        (
            training_compiler.NO_GAIN_IN_TIME,
            f"{size} that was chosen without the compiler gains little with it: compiled, a larger one fits",
        ),
    ):
        yield mode.at(
            ("distribution", "strategy"),
            message,
        )


@finds(Stage.SPEC, training_compiler.NO_RELEASES)
def compiler_is_maintained(subject: JobSubject) -> Iterator[Finding]:
    """That AWS has stopped working on it is said wherever it is used."""
    if _is_compiled(subject):
        yield training_compiler.NO_RELEASES.at(
            ("distribution", "strategy"),
            f"{notices.TRAINING_COMPILER_FROZEN.text}: its images end at PyTorch 1.13.1",
        )


def _is_compiled(subject: JobSubject) -> bool:
    return subject.job.distribution.strategy is Strategy.TORCH_XLA


# The variables of the environment: those that turn EFA off, fight its plugin, or are obsolete.


# The plugin that is called Libfabric, and answers to OFI and to its old name too
# (aws-ofi-nccl src/nccl_ofi_interface_nvidia.c of v1.13.0).
HAS_SHORT_NAMES = Version("1.13")


@finds(Stage.SPEC, nccl.FIGHTS_THE_PLUGIN)
def efa_is_not_turned_off(subject: JobSubject) -> Iterator[Finding]:
    """Providers and networks other than EFA's, where there is EFA; networks by a name that is not there."""
    if subject.facts is None:
        return
    for variable in _variables(subject):
        if variable.name == "FI_PROVIDER":
            harm = _provider_harm(variable.value, subject)
        elif variable.name == "NCCL_NET":
            harm = _network_harm(variable.value, subject)
        else:
            continue
        if harm:
            yield _on_variable(subject, variable, nccl.FIGHTS_THE_PLUGIN, f" {harm}")


@finds(Stage.SPEC, nccl.FIGHTS_THE_PLUGIN)
def settings_are_left_to_the_plugin(subject: JobSubject) -> Iterator[Finding]:
    """What NCCL and the plugin choose for each instance type is better left to them."""
    for variable in _variables(subject):
        harm = _setting_harm(variable, subject)
        if harm:
            yield _on_variable(
                subject, variable, nccl.FIGHTS_THE_PLUGIN, f" {harm}", severity=Severity.WARNING
            )


@finds(Stage.SPEC, network.EFA_NOT_USED)
def plugin_is_found(subject: JobSubject) -> Iterator[Finding]:
    """Without the plugin NCCL falls back to TCP, and says so only in a verbose log."""
    if not subject.has_efa:
        return
    for variable in _variables(subject):
        value = variable.value
        if variable.name == "NCCL_NET_PLUGIN" and value.lower() == "none":
            harm = "keeps NCCL from loading aws-ofi-nccl: every message would go over TCP"
            yield _on_variable(subject, variable, network.EFA_NOT_USED, f" {harm}")
        elif variable.name == "NCCL_NET_PLUGIN" and value and not _names_the_plugin(value):
            harm = "loads another plugin than aws-ofi-nccl; without that one NCCL falls back to TCP"
            yield _on_variable(subject, variable, network.EFA_NOT_USED, f" {harm}", severity=Severity.WARNING)
        elif variable.name in ("LD_LIBRARY_PATH", "LD_PRELOAD") and not _names_the_plugin(value):
            harm = (
                "replaces the image's own value, by which NCCL finds libnccl-net.so of aws-ofi-nccl and "
                "libfabric; where they are not found it falls back to TCP"
            )
            yield _on_variable(
                subject,
                variable,
                network.EFA_NOT_USED,
                f" {harm}",
                severity=Severity.WARNING,
                remedy=f"Do not set {variable.name} for the job; extend it in the script's own start, or put "
                "the libraries on the loader's path in an image of your own.",
            )


@finds(Stage.SPEC, network.DEVICE_RDMA_FAILS)
def device_rdma_only_where_it_is(subject: JobSubject) -> Iterator[Finding]:
    """Forced on an EFA device that cannot read by RDMA, libfabric aborts the process (since 1.18)."""
    if not subject.has_efa or subject.facts is None or subject.facts.efa_rdma_read is not False:
        return
    if _has_plugin_before(PLUGIN_CHOOSES_PROVIDER, subject):  # then its libfabric is from before 1.18 as well
        return
    for variable in _variables(subject):
        if variable.name == "FI_EFA_USE_DEVICE_RDMA" and variable.value.strip().lower() in SWITCHED_ON:
            harm = (
                f"forces reads by RDMA, which the EFA device of {_type_in_words(subject)} cannot do: "
                "libfabric would abort every process at its start"
            )
            yield _on_variable(subject, variable, network.DEVICE_RDMA_FAILS, f" {harm}")


def _provider_harm(value: str, subject: JobSubject) -> str | None:
    if subject.has_efa and excludes_efa(value):
        return f"turns EFA off on {_type_in_words(subject)}: every message between hosts would go over TCP"
    return None


def _network_harm(value: str, subject: JobSubject) -> str | None:
    network_name = value.strip().lower()
    is_the_plugins = network_name in ("libfabric", "aws libfabric", "ofi")
    if is_the_plugins and subject.has_efa:
        if network_name != "aws libfabric" and _has_plugin_before(HAS_SHORT_NAMES, subject):
            return "names no network that this image has, whose plugin is called 'AWS Libfabric': no start"
        return None
    if not network_name:
        return None
    if is_the_plugins:
        return f"asks for EFA's network, which {_type_in_words(subject)} does not have: NCCL would not start"
    if network_name == "ib":
        return "asks for InfiniBand, which no training instance has: NCCL would not start"
    if network_name == "socket" and subject.has_efa:
        return f"turns EFA off on {_type_in_words(subject)}: NCCL would use TCP sockets"
    return None


def _setting_harm(variable: GivenVariable, subject: JobSubject) -> str | None:
    value = variable.value.strip()
    if variable.name == "NCCL_SOCKET_IFNAME":
        return interface_harm(value)
    if variable.name == "FI_EFA_USE_DEVICE_RDMA":
        return _device_rdma_harm(value, subject)
    if variable.name == "FI_PROVIDER":
        is_wanted = value.lower() == "efa" and subject.facts is not None and not subject.has_efa
        return (
            f"asks for EFA, which {_type_in_words(subject)} does not have; NCCL uses TCP"
            if is_wanted
            else None
        )
    if variable.name == "FI_EFA_FORK_SAFE":
        return _fork_harm(value, subject)
    is_simple = (variable.name, value.lower()) == ("NCCL_PROTO", "simple")
    if is_simple and _has_plugin_before(PLUGIN_CHOOSES_PROVIDER, subject):
        return None
    advice = advice_on(variable.name)
    if advice is None or value in advice.harmless or (advice.with_efa_only and not subject.has_efa):
        return None
    if subject.facts and subject.facts.plugin_environment.get(variable.name) == value:
        return None
    return advice.harm


def _device_rdma_harm(value: str, subject: JobSubject) -> str | None:
    """What it does where libfabric does not abort; whether it does is another rule's."""
    facts = subject.facts
    if facts is None:
        return None
    if not facts.has_efa:
        return f"does nothing on {_type_in_words(subject)}, which has no EFA" if value else None
    if facts.gpudirect_rdma and facts.efa_rdma_read and value.lower() in ("0", "false", "no", "off"):
        return "copies every message through host memory"
    return None


def _fork_harm(value: str, subject: JobSubject) -> str | None:
    if not subject.has_efa or not value:
        return None
    if value.lower() in SWITCHED_ON:
        return "is set by the plugin already"
    return (
        "takes back the fork safety that the plugin asks for: where the kernel needs it, libfabric ends a "
        "rank whose DataLoader forks workers"
    )


def _has_plugin_before(version: Version, subject: JobSubject) -> bool:
    """Whether the image's plugin is known to be older."""
    plugin = efa_plugin_version(job_image_software(subject.job, subject.facts))
    return plugin is not None and plugin < version


def _names_the_plugin(value: str) -> bool:
    return "ofi" in value.lower() or "nccl-net" in value.lower()


def _type_in_words(subject: JobSubject) -> str:
    return subject.job.resources.instance_type


# Obsolete variables, and debugging variables in a normal run.


@finds(Stage.SPEC, nccl.OBSOLETE_ENVIRONMENT)
def no_obsolete_environment(subject: JobSubject) -> Iterator[Finding]:
    """Variables that no longer do anything, or do something else than their author believed."""
    for variable in _variables(subject):
        harm = why_obsolete(variable.name, variable.value, torch_version(subject.job))
        if harm:
            yield _on_variable(subject, variable, nccl.OBSOLETE_ENVIRONMENT, f": {harm}")


@finds(Stage.SPEC, nccl.DEBUGGING_ENVIRONMENT)
def no_debugging_in_a_normal_run(subject: JobSubject) -> Iterator[Finding]:
    """What makes a run slow for as long as it stays; `profile: debug` asks for it openly."""
    if subject.job.profile == "debug":
        return
    for variable in _variables(subject):
        harm = debugging_cost(variable.name, variable.value)
        if harm:
            yield _on_variable(
                subject,
                variable,
                nccl.DEBUGGING_ENVIRONMENT,
                f" in a normal run {harm}",
                severity=Severity.INFO if is_only_verbose(variable.name, variable.value) else None,
            )

"""AWS's training images: which there are, what they hold, what a URI says, and where they run.

The table `images.json` is generated from the SageMaker SDK's data files (tools/generate/image_table.py), and
a test compares every entry with the SDK's own answer. Its frameworks are the SDK's: `pytorch`, with the
images on Amazon Linux 2023, `pytorch-smp` (SMP version 2, by PyTorch version), `pytorch-training-compiler`,
`pytorch-neuron`, with those for Trainium that the SDK does not have, and `tensorflow`, the latter from
version 2 on.

The table `image_releases.json` says what the images hold and until when AWS patches them. It is kept by hand,
from the places that it names under `source`. None means unknown: no rule may judge by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any, Literal

from packaging.version import InvalidVersion, Version

from launcher.cluster.instances import InstanceFacts
from launcher.facts import read_data_file
from launcher.frozen import frozen
from launcher.jobs.specification import JobSpec
from launcher.text.values import nearest, parse_image_uri


class ImageUnavailableError(Exception):
    """No image fits: `message` says what was asked for, `remedy` what there is."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@frozen
class ImageRelease:
    """A framework's version in full, and the Python versions that its image comes with.

    `python` is empty where that is not known. `accelerators` are those that it has a driver's library for,
    None where it does not depend on them.
    """

    version: str
    python: tuple[str, ...]
    accelerators: tuple[str, ...] | None = None


def training_image(
    framework: str, version: str, python: str | None, region: str, processor: str, instance_type: str = ""
) -> str:
    """The URI of the training image.

    `version` may be an alias (2.8 for 2.8.0), `python` None for the newest that the version has,
    `processor` is `cpu`, `gpu` or `neuron`, and `instance_type` matters where a release has images for
    several drivers. Raises ImageUnavailableError, naming the nearest there is.
    """
    table = _image_table()
    releases = table["frameworks"][framework]
    full = releases["aliases"].get(version, version)
    release = releases["versions"].get(full)
    if release is None:
        known = list(releases["versions"])
        near = nearest_versions(full, known)
        raise ImageUnavailableError(
            f"there is no {framework} {version} training image",
            f"Use one of the versions near it: {', '.join(near)}; the newest is {known[-1]}. For another, "
            "give `image` explicitly.",
        )
    if python is not None and release["python"] and python not in release["python"]:
        raise ImageUnavailableError(
            f"the {framework} {full} training image has no {python}",
            f"Use {' or '.join(release['python'])}.",
        )
    if processor not in release["processors"]:
        raise ImageUnavailableError(
            f"there is no {framework} {full} training image for {processor}",
            "Choose an instance type with GPUs." if processor == "cpu" else "Give `image` explicitly.",
        )
    account = table["registries"][release["registries"]].get(region)
    if account is None:
        raise ImageUnavailableError(
            f"the {framework} {full} training image is not in the region {region}",
            "Choose another region, or copy the image into a registry of your own and give `image`.",
        )
    suffix = table["dns_suffixes"].get(region, "amazonaws.com")
    if "tags" in release:
        tag = release["tags"][processor]
    else:
        parts = [full, processor, python or release["python"][-1]]
        parts.append(_tag_suffix(release.get("suffixes", {}), instance_type))
        tag = "-".join(part for part in parts if part)
    return f"{account}.dkr.ecr.{region}.{suffix}/{release['repository']}:{tag}"


def image_release(framework: str, version: str) -> ImageRelease | None:
    """The release that a version or its alias names, or None where there is none."""
    releases = _image_table()["frameworks"][framework]
    full = releases["aliases"].get(version, version)
    release = releases["versions"].get(full)
    if release is None:
        return None
    accelerators = release.get("accelerators")
    return ImageRelease(full, tuple(release["python"]), None if accelerators is None else tuple(accelerators))


def image_python(named: str | None, pythons: Sequence[str]) -> str | None:
    """The Python of an image, as "3.12": the one that a job names as "py312", or the newest that it has.

    None where neither is known.
    """
    minor = (named or (pythons[-1] if pythons else "")).removeprefix("py3")
    return f"3.{minor}" if minor.isdecimal() else None


def image_versions(framework: str) -> list[str]:
    """The versions of a framework of the table, in full, oldest first."""
    return list(_image_table()["frameworks"][framework]["versions"])


def nearest_versions(version: str, known: list[str], *, most: int = 3) -> list[str]:
    """The known versions that are nearest to the given one, the nearest first.

    Releases of one major version are nearer than those of another, and so on down to the patch. What is not a
    version at all is compared as text; the newest, where it is like none.
    """
    try:
        wanted = Version(version)
    except InvalidVersion:
        return nearest(version, known, most=most, likeness=0.5) or known[: -most - 1 : -1]

    def place(release: Version) -> int:
        return (release.major * 1000 + release.minor) * 1000 + release.micro

    # From the newest, which is the better of two that are as far away.
    newest_first = known[::-1]
    return sorted(newest_first, key=lambda other: abs(place(Version(other)) - place(wanted)))[:most]


def is_registry_of_aws(account: str) -> bool:
    """Whether an account is one of those from whose registries AWS gives its training images."""
    return any(account in accounts.values() for accounts in _image_table()["registries"].values())


def registry_accounts(region: str) -> list[str]:
    """The accounts that give AWS's training images in a region; none where that is not known."""
    registries = _image_table()["registries"].values()
    return sorted({accounts[region] for accounts in registries if region in accounts})


def _tag_suffix(suffixes: Mapping[str, str], instance_type: str) -> str:
    for part, suffix in suffixes.items():
        if part and part in instance_type:
            return suffix
    return suffixes.get("", "")


@cache
def _image_table() -> dict[str, Any]:
    return read_data_file(__file__, "images.json")


# What the images hold, by framework and version, and until when AWS patches them.


@frozen
class ImageSoftware:
    """The software of one release of AWS's images.

    `version` is the framework's in full. `cuda` is the toolkit's version (`12.8`), `nccl` and `efa_plugin`
    (aws-ofi-nccl) are those that the image with GPUs loads, `efa_installer` is what brought libfabric.
    `architectures` are the CPUs that it runs on, as in the instance table. `compute_capabilities` are the
    oldest and the newest that its CUDA makes code for. `patched_until` is the last day on which AWS patches
    it.
    """

    framework: str
    version: str
    python: tuple[str, ...]
    cuda: str | None
    nccl: str | None
    efa_installer: str | None
    efa_plugin: str | None
    compute_capabilities: tuple[str, str] | None
    patched_until: date | None
    architectures: tuple[str, ...] = ("x86_64",)
    """AWS builds its training images for SageMaker for x86 alone (the buildspecs' `arch_type`)."""


def image_software(framework: str, version: str) -> ImageSoftware | None:
    """What the image of a release holds; None where the table has no such image.

    `framework` is one of the image table, `version` may be an alias (2.8 for 2.8.0).
    """
    release = image_release(framework, version)
    if release is None:
        return None
    row = _release_table()["frameworks"].get(framework, {}).get(release.version, {})
    until = row.get("patched_until")
    cuda = row.get("cuda")
    return ImageSoftware(
        framework=framework,
        version=release.version,
        python=release.python,
        cuda=cuda,
        nccl=row.get("nccl"),
        efa_installer=row.get("efa_installer"),
        efa_plugin=row.get("efa_plugin"),
        compute_capabilities=cuda_compute_capabilities(cuda) if cuda else None,
        patched_until=date.fromisoformat(until) if until else None,
    )


def cuda_compute_capabilities(cuda: str) -> tuple[str, str] | None:
    """The oldest and the newest compute capability that a version of CUDA makes code for."""
    pair = _release_table()["cuda_gpus"].get(cuda)
    return None if pair is None else (pair[0], pair[1])


def first_cuda_for(capability: str) -> str | None:
    """The oldest version of CUDA of the table that makes code for GPUs of a compute capability."""
    able = [cuda for cuda, pair in _release_table()["cuda_gpus"].items() if _within(capability, pair)]
    return min(able, key=Version, default=None)


def is_patched(framework: str, version: str, today: date) -> bool | None:
    """Whether AWS still patches a release; None where nothing is known of its end.

    One without a date is as its neighbours are: older than one that has ended it has ended too, and newer
    than all whose end is known it is patched.
    """
    software = image_software(framework, version)
    if software is None:
        return None
    if software.patched_until is not None:
        return today <= software.patched_until
    ends = {
        Version(release): date.fromisoformat(row["patched_until"])
        for release, row in _release_table()["frameworks"].get(framework, {}).items()
        if "patched_until" in row
    }
    own = Version(software.version)
    if any(own < release and end < today for release, end in ends.items()):
        return False
    return True if ends and own > max(ends) else None


def _within(capability: str, pair: list[str]) -> bool:
    return Version(pair[0]) <= Version(capability) <= Version(pair[1])


@cache
def _release_table() -> dict[str, Any]:
    return read_data_file(__file__, "image_releases.json")


# What the URI of an image says: framework, version, processor and CUDA. Only images in AWS's own registries
# are read: what somebody built is known by no name.


Processor = Literal["cpu", "gpu", "neuron"]

FRAMEWORK_OF = {
    "pytorch": "pytorch",
    "pytorch-training": "pytorch",
    "sagemaker-pytorch": "pytorch",
    "pytorch-training-arm64": "pytorch",
    "huggingface-pytorch-training": "pytorch",
    "pytorch-trcomp-training": "pytorch-training-compiler",
    "huggingface-pytorch-trcomp-training": "pytorch-training-compiler",
    "smdistributed-modelparallel": "pytorch-smp",
    "pytorch-training-neuron": "pytorch-neuron",
    "pytorch-training-neuronx": "pytorch-neuron",
    "huggingface-pytorch-training-neuronx": "pytorch-neuron",
    "tensorflow-training": "tensorflow",
}
"""The framework of the image table by AWS's repository; all their tags begin with its version."""


@frozen
class AwsImage:
    """One of AWS's training images.

    `framework` is one of the image table, `version` the framework's as the tag has it, in full or not. `cuda`
    is the toolkit's version (`12.8`), by the tag or by what is known of the release; None where neither
    says. `cpu_architecture` is as in the instance table.
    """

    repository: str
    tag: str
    framework: str
    version: str
    processor: Processor
    cuda: str | None
    cpu_architecture: str

    @property
    def name(self) -> str:
        """Repository and tag."""
        return f"{self.repository}:{self.tag}"

    @property
    def compute_capabilities(self) -> tuple[str, str] | None:
        """The oldest and newest GPUs that its CUDA makes code for; None where that is not known."""
        return cuda_compute_capabilities(self.cuda) if self.cuda else None


def parse_aws_image(uri: str) -> AwsImage | None:
    """The image that a URI names; None for any other than AWS's frameworks, and for one without a tag."""
    reference = parse_image_uri(uri)
    if reference is None or reference.tag is None or not is_registry_of_aws(reference.account):
        return None
    framework = FRAMEWORK_OF.get(reference.repository)
    words = reference.tag.split("-")
    if framework is None or not words[0][:1].isdecimal():
        return None
    toolkit = next((word for word in words if word[:2] == "cu" and word[2:].isdecimal()), None)
    processor: Processor = "gpu"
    if "neuron" in reference.repository:
        processor = "neuron"
    elif "cpu" in words:
        processor = "cpu"
    return AwsImage(
        repository=reference.repository,
        tag=reference.tag,
        framework=framework,
        version=words[0],
        processor=processor,
        cuda=_cuda(toolkit, framework, words[0]) if processor == "gpu" else None,
        cpu_architecture="arm64" if reference.repository.endswith("-arm64") else "x86_64",
    )


def _cuda(toolkit: str | None, framework: str, version: str) -> str | None:
    """`cu128` is 12.8; without it, what the release of that version is known to hold."""
    if toolkit is not None:
        return f"{toolkit[2:-1]}.{toolkit[-1]}"
    software = image_software(framework, version)
    return software.cuda if software else None


# Whether an image runs on a machine: CPU, accelerator, and the GPUs that its CUDA knows (IMG002). What is
# not known, of an image of the user's own or of the type, is not judged.


NO_P2_FROM = {"pytorch": "1.13", "tensorflow": "2.12"}
"""SageMaker runs these versions and later ones on no p2: sagemaker.core.image_uris,
_validate_instance_deprecation."""


@frozen
class Misfit:
    """Why an image does not run on a machine, and what to do."""

    message: str
    remedy: str


def find_misfit(uri: str, facts: InstanceFacts | None) -> Misfit | None:
    """What keeps the image of a URI from running on an instance type; None where nothing known does."""
    image = parse_aws_image(uri)
    if image is None or facts is None:
        return None
    return _cpu_misfit(image, facts) or _accelerator_misfit(image, facts) or _gpu_misfit(image, facts)


def _cpu_misfit(image: AwsImage, facts: InstanceFacts) -> Misfit | None:
    if image.cpu_architecture == facts.cpu_architecture:
        return None
    return Misfit(
        f"{image.name} is built for {image.cpu_architecture}, and the CPUs of {facts.instance_type} are "
        f"{facts.cpu_architecture}: no program in it would start",
        f"AWS has no training image for SageMaker on {facts.cpu_architecture}: build one and give `image`, "
        "or choose another instance type."
        if facts.cpu_architecture != "x86_64"
        else "Use the image without arm64 in its name.",
    )


def _accelerator_misfit(image: AwsImage, facts: InstanceFacts) -> Misfit | None:
    on_neuron = facts.accelerator_kind == "neuron"
    if on_neuron == (image.processor == "neuron"):
        release = image_release(image.framework, image.version)
        if on_neuron and release is not None and facts.accelerator not in (release.accelerators or ()):
            return Misfit(
                f"{image.name} is from before {facts.accelerator}, the accelerator of {facts.instance_type}",
                "Use a newer version in the repository pytorch-training-neuronx.",
            )
        return None
    if on_neuron:
        return Misfit(
            f"{image.name} holds no Neuron SDK, and {facts.instance_type} has {facts.accelerator}",
            "Use an image of the repository pytorch-training-neuronx, or name `framework`.",
        )
    return Misfit(
        f"{image.name} is for Neuron devices, and {facts.instance_type} has none",
        "Use a type of the families trn1 and trn2, or another image.",
    )


def _gpu_misfit(image: AwsImage, facts: InstanceFacts) -> Misfit | None:
    """An image for CPUs is judged by the name of the type alone."""
    retired = NO_P2_FROM.get("tensorflow" if image.framework == "tensorflow" else "pytorch", "")
    if facts.instance_type.startswith("ml.p2.") and _version_numbers(image.version) >= Version(retired):
        return Misfit(
            f"SageMaker runs {image.name} on no p2 ({facts.instance_type}): their K80 ended with the images "
            f"before {retired}",
            "Use ml.g4dn.xlarge or newer.",
        )
    if image.processor != "gpu" or image.framework == "tensorflow":
        return None  # TensorFlow's own wheels hold code that the driver translates for newer GPUs.
    known, has = image.compute_capabilities, facts.compute_capability
    if known is None or has is None:
        return None
    if _makes_code(known, has):
        return None
    older = Version(has) < Version(known[0])
    makes = f"no older than {known[0]}" if older else f"no newer than {known[1]}"
    return Misfit(
        f"{image.name} is built with CUDA {image.cuda}, which makes code for GPUs of compute capability "
        f"{makes}; the {facts.accelerator} of {facts.instance_type} has {has}, and its first kernel would "
        "end with 'no kernel image is available'",
        _nearest_fitting_version(image.framework, has, older=older),
    )


def _nearest_fitting_version(framework: str, capability: str, *, older: bool) -> str:
    """The nearest version whose CUDA makes code for the GPU."""
    able = [
        (software.version, software.cuda)
        for software in (image_software(framework, version) for version in image_versions(framework))
        if software is not None
        and software.compute_capabilities is not None
        and _makes_code(software.compute_capabilities, capability)
    ]
    if not able:
        needed = first_cuda_for(capability)
        return f"Use an image with CUDA {needed} or later." if needed and not older else "Use another type."
    version, cuda = able[-1] if older else able[0]
    return f"Use PyTorch {version} (CUDA {cuda}) or {'before' if older else 'later'}."


def _makes_code(known: tuple[str, str], capability: str) -> bool:
    """Code for a GPU runs on newer ones of the same major capability, and on no older ones."""
    oldest, newest, has = Version(known[0]), Version(known[1]), Version(capability)
    return oldest <= has and (has <= newest or has.major == newest.major)


def _version_numbers(text: str) -> Version:
    """A version of a tag; one that is none counts as the oldest."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def torch_version(job: JobSpec) -> tuple[int, int] | None:
    """Major and minor version of PyTorch, such as (2, 8); None where an own image hides it.

    An image in a repository that is called as one of AWS's is taken for a copy of it, whoever's registry it
    is in.
    """
    if job.framework is not None:
        return _major_and_minor(job.framework.version) if job.framework.name == "pytorch" else None
    repository, _, tag = (job.image or "").rpartition("/")[2].partition(":")
    return _major_and_minor(tag) if FRAMEWORK_OF.get(repository, "").startswith("pytorch") else None


def _major_and_minor(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None

"""Whether one of AWS's images runs on a machine: CPU, accelerator, and the GPUs that its CUDA knows (IMG002).

What is not known, of an image of the user's own or of the type, is not judged.
"""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from launcher.cluster.instances import InstanceFacts
from launcher.planning.aws_image import AwsImage, aws_image
from launcher.planning.image_software import first_cuda_for, image_software
from launcher.planning.images import image_release, image_versions

NO_P2_FROM = {"pytorch": "1.13", "tensorflow": "2.12"}
"""SageMaker runs these versions and later ones on no p2: sagemaker.core.image_uris,
_validate_instance_deprecation."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why an image does not run on a machine, and what to do."""

    message: str
    remedy: str


def misfit(uri: str, facts: InstanceFacts | None) -> Misfit | None:
    """What keeps the image of a URI from running on an instance type; None where nothing known does."""
    image = aws_image(uri)
    if image is None or facts is None:
        return None
    return _other_cpu(image, facts) or _other_accelerator(image, facts) or _other_gpu(image, facts)


def _other_cpu(image: AwsImage, facts: InstanceFacts) -> Misfit | None:
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


def _other_accelerator(image: AwsImage, facts: InstanceFacts) -> Misfit | None:
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


def _other_gpu(image: AwsImage, facts: InstanceFacts) -> Misfit | None:
    """An image for CPUs is judged by the name of the type alone."""
    retired = NO_P2_FROM.get("tensorflow" if image.framework == "tensorflow" else "pytorch", "")
    if facts.instance_type.startswith("ml.p2.") and _number(image.version) >= Version(retired):
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
        _fitting(image.framework, has, older=older),
    )


def _fitting(framework: str, capability: str, *, older: bool) -> str:
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


def _number(text: str) -> Version:
    """A version of a tag; one that is none counts as the oldest."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")

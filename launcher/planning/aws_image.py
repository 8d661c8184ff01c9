"""What the URI of one of AWS's training images says: framework, version, processor and CUDA.

Only images in AWS's own registries are read: what somebody built is known by no name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from launcher.account.images import parse_image_uri
from launcher.planning.image_software import compute_capabilities, image_software
from launcher.planning.images import is_registry_of_aws

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


@dataclass(frozen=True, slots=True)
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
        return compute_capabilities(self.cuda) if self.cuda else None


def aws_image(uri: str) -> AwsImage | None:
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

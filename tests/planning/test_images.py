"""AWS's images: the table against the SDK's answers, what they hold, what URIs say, and where they run."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from datetime import date
from importlib import resources
from pathlib import Path

import pytest

from launcher.jobs.load_job import load_job
from launcher.planning.images import (
    ImageUnavailableError,
    cuda_compute_capabilities,
    first_cuda_for,
    image_release,
    image_software,
    image_versions,
    is_patched,
    nearest_versions,
    parse_aws_image,
    torch_version,
    training_image,
)

TABLE = json.loads(resources.files("launcher.planning").joinpath("images.json").read_text("utf-8"))
FRAMEWORKS = sorted(TABLE["frameworks"])
INSTANCES_OF = {
    "cpu": ("ml.m5.xlarge",),
    "gpu": ("ml.g5.12xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.48xlarge"),
    "neuron": ("ml.trn1.32xlarge",),
}

NEURONX = {
    "2.6.0": "2.6.0-neuronx-py310-sdk2.23.0-ubuntu22.04",
    "2.7.0": "2.7.0-neuronx-py310-sdk2.25.0-ubuntu22.04",
    "2.8.0": "2.8.0-neuronx-py311-sdk2.26.1-ubuntu22.04",
    "2.9.0": "2.9.0-neuronx-py312-sdk2.30.0-ubuntu24.04",
}
"""aws/deep-learning-containers at e0ecedea, docs/src/data/pytorch-training-neuronx: the tag of each PyTorch
with the newest Neuron SDK. The SageMaker SDK has none of them for PyTorch."""

Theirs = Callable[..., str]


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Theirs:
    """The SDK's image for a framework of the table."""
    from sagemaker.core import common_utils, image_uris
    from sagemaker.core.training_compiler_config import TrainingCompilerConfig

    # The SDK reads both anew for every image: 40 ms and 2 ms for each of some 3,000.
    monkeypatch.setattr(common_utils, "_botocore_resolver", functools.cache(common_utils._botocore_resolver))
    monkeypatch.setattr(image_uris, "config_for_framework", functools.cache(image_uris.config_for_framework))
    smp = {"torch_distributed": {"enabled": True}, "smdistributed": {"modelparallel": {"enabled": True}}}
    particular = {
        "pytorch-smp": {"distribution": smp},
        "pytorch-training-compiler": {"compiler_config": TrainingCompilerConfig()},
    }

    def image(framework: str, version: str, python: str, region: str, instance_type: str) -> str:
        if on_amazon_linux(framework, version):
            # The SDK has them under a framework of its own, by two numbers.
            short = version if version.count(".") == 1 else version.rpartition(".")[0]
            return image_uris.retrieve(
                "pytorch-amzn2023", region, short, instance_type=instance_type, image_scope="training"
            )
        return image_uris.get_training_image_uri(
            region,
            "tensorflow" if framework == "tensorflow" else "pytorch",
            framework_version=version,
            py_version=python,
            instance_type=instance_type,
            **particular.get(framework, {}),
        )

    return image


def on_amazon_linux(framework: str, version: str) -> bool:
    release = TABLE["frameworks"][framework]["versions"][version]
    return bool(release["repository"] == "pytorch")


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_image_is_the_one_that_the_sdk_names(framework: str, theirs: Theirs) -> None:
    compared = 0
    for version, release in TABLE["frameworks"][framework]["versions"].items():
        if framework == "pytorch-neuron" and version in NEURONX:
            continue
        for region in TABLE["registries"][release["registries"]]:
            for processor in release["processors"]:
                for instance_type in INSTANCES_OF[processor]:
                    # One Python per version and region is enough: the tag is all that it changes.
                    python = release["python"][-1] if release["python"] else None
                    ours = training_image(framework, version, python, region, processor, instance_type)
                    assert ours == theirs(framework, version, python, region, instance_type)
                    compared += 1
    assert compared >= {"pytorch": 2000, "pytorch-neuron": 17}.get(framework, 50)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_python_of_a_version_is_in_the_sdks_data(framework: str, theirs: Theirs) -> None:
    for version in image_versions(framework):
        if framework == "pytorch-neuron" and version in NEURONX:
            continue
        release = image_release(framework, version)
        processor = TABLE["frameworks"][framework]["versions"][version]["processors"][-1]
        for python in release.python:
            instance_type = INSTANCES_OF[processor][0]
            ours = training_image(framework, version, python, "us-west-2", processor, instance_type)
            assert ours == theirs(framework, version, python, "us-west-2", instance_type)


def test_every_version_of_the_sdks_data_is_in_the_table() -> None:
    from sagemaker.core import image_uris

    for framework in ("pytorch", "pytorch-neuron", "pytorch-training-compiler"):
        listed = [*image_uris.list_versions(framework, "training")]
        if framework == "pytorch":
            listed += image_uris.list_versions("pytorch-amzn2023", "training")
            listed.remove("latest")  # the SDK's word for the newest
        assert [version for version in listed if image_release(framework, version) is None] == []


def test_smp_is_listed_by_the_pytorch_version_that_its_tags_carry() -> None:
    # SageMaker developer guide, distributed-model-parallel-support-v2. The SDK's data lists the library's
    # versions 2.2.0 (with PyTorch 2.2.0), 2.3.0, 2.7.0 and 2.8.0 beside them.
    assert image_versions("pytorch-smp") == ["2.0.1", "2.1.2", "2.2.0", "2.3.1", "2.4.1", "2.5.1"]
    assert image_release("pytorch-smp", "2.2").version == "2.2.0"


def test_an_alias_and_a_missing_python_mean_the_newest() -> None:
    assert training_image("pytorch", "2.8", None, "us-west-2", "gpu").endswith(
        "/pytorch-training:2.8.0-gpu-py312"
    )


@pytest.mark.parametrize(
    ("version", "python", "region", "says"),
    [
        ("2.81", None, "us-west-2", "2.14"),
        ("2.8.0", "py39", "us-west-2", "py312"),
        ("2.8.0", None, "us-iso-east-1", "region"),
    ],
)
def test_an_image_that_is_not_there_is_refused_with_what_is(
    version: str, python: str | None, region: str, says: str
) -> None:
    with pytest.raises(ImageUnavailableError) as refused:
        training_image("pytorch", version, python, region, "gpu")
    assert says in refused.value.message + refused.value.remedy


@pytest.mark.parametrize(("version", "tag"), NEURONX.items())
def test_the_neuron_images_are_those_with_the_newest_neuron_sdk(version: str, tag: str) -> None:
    image = training_image("pytorch-neuron", version, None, "us-west-2", "neuron")
    assert image == f"763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training-neuronx:{tag}"


def test_neuron_images_are_in_the_regions_that_the_sdk_has_for_the_repository(theirs: Theirs) -> None:
    from sagemaker.core import image_uris

    recipes = image_uris.config_for_framework("hyperpod-recipes-neuron")["training"]["versions"]
    (known,) = (row for row in recipes.values() if row["repository"] == "pytorch-training-neuronx")
    ours = TABLE["frameworks"]["pytorch-neuron"]["versions"]["2.9.0"]["registries"]
    assert TABLE["registries"][ours] == known["registries"]


def test_images_since_2026_are_named_by_two_numbers_or_in_full() -> None:
    for version in ("2.12", "2.12.1"):
        image = training_image("pytorch", version, None, "us-west-2", "gpu")
        assert image.endswith("/pytorch:2.12-cu130-amzn2023-sagemaker")
    assert training_image("pytorch", "2.14.0", "py312", "us-west-2", "cpu").endswith(
        "/pytorch:2.14-cpu-amzn2023-sagemaker"
    )


def test_a_neuron_image_of_another_version_is_refused_and_not_replaced() -> None:
    # The SDK answers 1.11.0, the only one it has, whatever version is asked for.
    with pytest.raises(ImageUnavailableError) as refused:
        training_image("pytorch-neuron", "2.10.0", None, "us-west-2", "neuron")
    assert "2.9.0, 2.8.0" in refused.value.remedy
    assert "`image`" in refused.value.remedy


@pytest.mark.parametrize(
    ("version", "near"),
    [
        ("2.11.3", ["2.11.0", "2.12.1", "2.10.0"]),
        ("2.12.0", ["2.12.1", "2.13.0", "2.11.0"]),
        ("2.6.1", ["2.6.0", "2.7.1", "2.5.1"]),
        ("3.0.0", ["2.14", "2.13.0", "2.12.1"]),
        ("newest", ["2.14", "2.13.0", "2.12.1"]),
    ],
)
def test_the_hint_names_the_nearest_versions(version: str, near: list[str]) -> None:
    assert nearest_versions(version, image_versions("pytorch")) == near


def test_the_software_of_a_release_is_that_of_its_dockerfile() -> None:
    software = image_software("pytorch", "2.13")
    assert software is not None
    assert software.version == "2.13.0"
    assert (software.cuda, software.nccl, software.efa_installer) == ("13.3", "2.29.7", "1.49.0")
    assert software.efa_plugin == "1.20.0"
    assert software.architectures == ("x86_64",)
    assert software.patched_until == date(2027, 7, 20)


def test_what_is_not_known_of_an_image_is_none() -> None:
    old = image_software("pytorch", "1.4.0")
    assert old is not None
    assert (old.cuda, old.efa_plugin, old.compute_capabilities, old.patched_until) == (None,) * 4
    assert image_software("pytorch", "9.9") is None


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_a_newer_release_has_no_older_cuda_and_is_patched_for_longer(framework: str) -> None:
    # From 2.0 on: the last 1.13 was patched for longer than that.
    since = [version for version in image_versions(framework) if version.startswith("2.")]
    known = [image_software(framework, version) for version in since]
    for figure in (
        [tuple(map(int, each.cuda.split("."))) for each in known if each and each.cuda],
        [each.patched_until for each in known if each and each.patched_until],
    ):
        assert len(figure) >= 2
        assert figure == sorted(figure)


def test_every_cuda_of_the_images_says_which_gpus_it_makes_code_for() -> None:
    used = [image_software("pytorch", version) for version in image_versions("pytorch")]
    assert [each.version for each in used if each and each.cuda and not each.compute_capabilities] == []


@pytest.mark.parametrize(
    ("capability", "cuda"),
    [("8.0", "11.3"), ("9.0", "11.8"), ("10.0", "12.8"), ("12.0", "12.8"), ("99", None)],
)
def test_the_first_cuda_for_a_gpu(capability: str, cuda: str | None) -> None:
    assert first_cuda_for(capability) == cuda


def test_cuda_13_makes_no_code_for_v100() -> None:
    assert cuda_compute_capabilities("12.9") == ("5.0", "12.1")
    assert cuda_compute_capabilities("13.0") == ("7.5", "12.1")


@pytest.mark.parametrize(
    ("version", "day", "patched"),
    [
        ("2.10.0", date(2027, 1, 21), True),
        ("2.10.0", date(2027, 1, 22), False),
        # Older than one that has ended, without a date of its own.
        ("1.9.1", date(2026, 11, 22), False),
        ("2.14", date(2026, 11, 22), True),
    ],
)
def test_a_release_is_patched_until_its_day(version: str, day: date, patched: bool) -> None:
    assert is_patched("pytorch", version, day) is patched


def test_nothing_is_known_of_the_patches_of_neuron_images() -> None:
    assert is_patched("pytorch-neuron", "2.9.0", date(2026, 11, 22)) is None


AWS = "763104351884.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("pytorch-training:2.8.0-gpu-py312", ("pytorch", "2.8.0", "gpu", "12.9")),
        ("pytorch-training:2.0.1-gpu-py310-cu121-ubuntu20.04-sagemaker", ("pytorch", "2.0.1", "gpu", "12.1")),
        ("pytorch-training:2.8.0-cpu-py312", ("pytorch", "2.8.0", "cpu", None)),
        ("pytorch:2.13-cu133-amzn2023-sagemaker", ("pytorch", "2.13", "gpu", "13.3")),
        ("pytorch:2.13-cpu-amzn2023-sagemaker", ("pytorch", "2.13", "cpu", None)),
        (
            "huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04",
            ("pytorch", "2.1.0", "gpu", "12.1"),
        ),
        (
            "pytorch-training-neuronx:2.9.0-neuronx-py312-sdk2.30.0-ubuntu24.04",
            ("pytorch-neuron", "2.9.0", "neuron", None),
        ),
        ("tensorflow-training:2.19.0-gpu-py312", ("tensorflow", "2.19.0", "gpu", "12.5")),
        ("pytorch-training:1.4.0-gpu-py3", ("pytorch", "1.4.0", "gpu", None)),
    ],
)
def test_framework_version_processor_and_cuda_are_read(
    image: str, said: tuple[str, str, str, str | None]
) -> None:
    found = parse_aws_image(f"{AWS}/{image}")
    assert found is not None
    assert (found.framework, found.version, found.processor, found.cuda) == said
    assert found.name == image


@pytest.mark.parametrize(
    "uri",
    [
        "111122223333.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312",
        f"{AWS}/sglang:0.5-gpu",
        f"{AWS}/pytorch-training@sha256:{'0' * 64}",
        f"{AWS}/pytorch-training:latest",
        "pytorch/pytorch:2.8.0-cuda12.8",
    ],
)
def test_what_is_not_one_of_awss_frameworks_is_not_read(uri: str) -> None:
    assert parse_aws_image(uri) is None


def test_an_image_for_arm_is_known_by_its_repository() -> None:
    found = parse_aws_image(f"{AWS}/pytorch-training-arm64:2.7.0-gpu-py312-cu128-ubuntu22.04-ec2")
    assert found is not None
    assert found.cpu_architecture == "arm64"


@pytest.mark.parametrize(
    ("job", "version"),
    [
        pytest.param({"framework": {"version": "2.10.0"}}, (2, 10), id="framework"),
        pytest.param({"framework": {"version": "2.8"}}, (2, 8), id="alias"),
        pytest.param({"image": f"{AWS}/pytorch-training:2.8.0-gpu-py312"}, (2, 8), id="AWS image"),
        pytest.param(
            {"image": f"{AWS}/huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu"}, (2, 1), id="HF"
        ),
        pytest.param({"image": f"{AWS}/pytorch-trcomp-training:1.13.1-gpu-py39"}, (1, 13), id="compiler"),
        pytest.param({"image": f"{AWS}/smdistributed-modelparallel:2.4.1-gpu"}, (2, 4), id="SMP"),
        pytest.param({"image": f"{AWS}/pytorch:2.13-cu133-amzn2023-sagemaker"}, (2, 13), id="since 2026"),
        pytest.param({"image": f"{AWS}/pytorch-training-neuronx:2.9.0-neuronx"}, (2, 9), id="Neuron"),
        pytest.param({"image": "me.example/pytorch-training:2.8.0-gpu"}, (2, 8), id="copy of an AWS image"),
        pytest.param({"image": f"{AWS}/tensorflow-training:2.19.0-gpu"}, None, id="TensorFlow"),
        pytest.param({"image": f"{AWS}/my-pytorch-training:2.8.0"}, None, id="own repository"),
        pytest.param({"image": f"{AWS}/pytorch-training@sha256:0"}, None, id="digest"),
    ],
)
def test_the_version_of_torch(
    write_job: Callable[..., Path], job: dict, version: tuple[int, int] | None
) -> None:
    spec = load_job(write_job(**{"framework": None, **job})).spec
    assert torch_version(spec) == version

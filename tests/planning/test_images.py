"""The image table against the SDK's own answers."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from importlib import resources

import pytest

from launcher.planning.images import (
    ImageUnavailableError,
    image_release,
    image_versions,
    nearest_versions,
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

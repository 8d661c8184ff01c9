"""The image table against the SDK's own answers."""

from __future__ import annotations

import functools
import importlib.util
import json
from importlib import resources
from pathlib import Path

import pytest

from launcher.plan.images import ImageUnavailableError, training_image

TABLE = json.loads(resources.files("launcher.plan").joinpath("images.json").read_text("utf-8"))
INSTANCE_OF = {"cpu": "ml.m5.xlarge", "gpu": "ml.p3.16xlarge"}


@pytest.mark.parametrize("framework", sorted(TABLE["frameworks"]))
def test_every_image_is_the_one_that_the_sdk_names(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from sagemaker.core import common_utils, image_uris

    # The SDK reads botocore's endpoint data anew for every image: 40 ms for each of 2,500.
    monkeypatch.setattr(common_utils, "_botocore_resolver", functools.cache(common_utils._botocore_resolver))
    compared = 0
    for version, release in TABLE["frameworks"][framework]["versions"].items():
        regions = TABLE["registries"][release["registries"]]
        for region in regions:
            for processor in release["processors"]:
                # One Python per version and region is enough: the tag is all that it changes.
                python = release["python"][-1]
                theirs = image_uris.retrieve(
                    framework, region, version=version, py_version=python,
                    instance_type=INSTANCE_OF[processor], image_scope="training",
                )  # fmt: skip
                assert training_image(framework, version, python, region, processor) == theirs
                compared += 1
    assert compared > 1000


def test_the_table_is_what_the_generator_writes_today() -> None:
    script = Path(__file__).parents[2] / "scripts" / "generate_image_table.py"
    spec = importlib.util.spec_from_file_location("generate_image_table", script)
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.image_table() == TABLE


def test_an_alias_and_a_missing_python_mean_the_newest() -> None:
    assert training_image("pytorch", "2.8", None, "us-west-2", "gpu").endswith(
        "/pytorch-training:2.8.0-gpu-py312"
    )


@pytest.mark.parametrize(
    ("version", "python", "region", "says"),
    [
        ("2.81", None, "us-west-2", "2.8.0"),
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

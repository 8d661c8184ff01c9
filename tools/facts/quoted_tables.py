"""Tables of the launcher against what was quoted of public repositories (`tools.facts.references`).

The images are described by AWS. The list of EC2 prices is another one than ours was read in. Of the lists of
quotas, Gruntwork's is the one that ours was made from; the other was quoted by hand, in part: the quotas of
training hosts among the codes L-00 to L-2B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from launcher.account import facts
from launcher.facts import read_data_file
from launcher.planning import job_cost
from launcher.planning.images import image_release, image_software, image_versions
from launcher.rules.job import image_packages as packages
from tools.facts.comparison import Comparison, Figure, compare
from tools.facts.references import quoted

FRAMEWORKS: Final = {
    "pytorch": "pytorch",
    "pytorch-training": "pytorch",
    "pytorch-training-neuronx": "pytorch-neuron",
    "tensorflow-training": "tensorflow",
}
"""Our names of what is in AWS's repositories."""


_LISTS: Final = {"gruntwork-io/terraform-aws-utilities": False, "klaffka/aws-quota-monitor": True}
"""The repositories that publish a list, and whether ours was made without it."""


def ec2_prices() -> Iterator[Comparison]:
    """The types that both name: theirs are half a year older, and no price has changed."""
    quotation = quoted("tsaol/aws-gpu")
    lists = read_data_file(job_cost.__file__, "ec2_prices.json")["lists"]
    ours = next(each["prices"] for each in lists if each["region"] == "us-east-1")
    figures = (
        (f"EC2's price of {name} in us-east-1", ours[name], usd)
        for name, usd in quotation.rows.items()
        if name in ours
    )
    yield compare(str(quotation), figures, independent=True)


def quota_codes() -> Iterator[Comparison]:
    """The codes of the types that both name."""
    ours = read_data_file(facts.__file__, "quota_codes.json")["codes"]
    for repository, independent in _LISTS.items():
        quotation = quoted(repository)
        figures = (
            (f"quota of {instance_type} for {use} usage", ours[use][instance_type], code)
            for use, codes in quotation.rows.items()
            for instance_type, code in codes.items()
            if instance_type in ours.get(use, {})
        )
        yield compare(str(quotation), figures, independent=independent)


def image_releases() -> Iterator[Comparison]:
    """Which images there are, with which Python: made from the SDK, and AWS says it again."""
    quotation = quoted("aws/deep-learning-containers")
    yield compare(str(quotation), _releases(quotation.rows), independent=True)


def image_contents() -> Iterator[Comparison]:
    """What the images hold and until when they are patched."""
    quotation = quoted("aws/deep-learning-containers")
    yield compare(str(quotation), _software(quotation.rows), independent=False)


def image_packages() -> Iterator[Comparison]:
    """What AWS locks for its images, all of which must be among the packages that we say they have."""
    quotation = quoted("aws/deep-learning-containers")
    ours = read_data_file(packages.__file__, "image_packages.json")["images"]
    yield compare(str(quotation), _locked(quotation.rows, ours), independent=False)


def _locked(rows: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Figure]:
    for path, row in rows.items():
        if "packages" in row:
            framework = path.split("/")[1]
            held = ours[framework]["versions"][row["version"]]
            kind = "gpu" if "/cuda/" in path else "cpu"
            known = {*ours[framework]["common"], *held["more"], *held[kind]}
            yield f"packages of {path} that we lack", sorted({*row["packages"]} - known), []


def _releases(rows: Mapping[str, Any]) -> Iterator[Figure]:
    for framework, version, image, row in _images(rows):
        yield f"{image}, an image of the table", version in image_versions(framework), True
        release = image_release(framework, version)
        if release is not None and release.python:
            yield f"Python of {image}", row["python"] in release.python, True


def _software(rows: Mapping[str, Any]) -> Iterator[Figure]:
    for framework, version, image, row in _images(rows):
        ours = image_software(framework, version)
        if ours is None:
            continue
        if "eop" in row:
            yield f"patch end of {image}", str(ours.patched_until), row["eop"]
        if "cuda" in row and ours.cuda is not None:
            yield f"CUDA of {image}", f"cu{ours.cuda.replace('.', '')}", row["cuda"]


def _images(rows: Mapping[str, Any]) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Framework, version, the image's name and what AWS says of it."""
    for image, row in rows.items():
        if "packages" in row:
            continue
        repository, _, tag = image.partition(":")
        yield FRAMEWORKS[repository], tag.split("-")[0], image, row

"""What other projects hold to be true, quoted from their repositories with the commit.

    python -m tools.facts.references REPOSITORY DIRECTORY

reads a clone (its newest commit; no work tree is needed) and writes the quotation anew. A quotation is what
`make facts` compares our tables with, so it works offline and always with the same figures.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_args

import yaml

from launcher.account.facts import Use
from launcher.cluster.instances import training_instance_types
from tools.facts.price_lists import aws_gpu_prices
from tools.generate.generated import in_rows

FOLDER = Path(__file__).with_name("quoted")


@dataclass(frozen=True, slots=True)
class Quotation:
    """The rows that one file of a repository had at a commit."""

    repository: str
    commit: str
    date: str
    path: str
    rows: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.repository} {self.commit[:8]} of {self.date}"


def quoted(repository: str) -> Quotation:
    """What was quoted of a repository (`owner/name`)."""
    return Quotation(**json.loads(_file(repository).read_text("utf-8")))


def karpenter_types(page: str) -> dict[str, Any]:
    """Karpenter's page of instance types, generated from EC2's DescribeInstanceTypes: those that train."""
    trained = {name.removeprefix("ml.") for name in training_instance_types()}
    return {name: row for name, row in sorted(_karpenter_rows(page)) if name in trained}


def _karpenter_rows(page: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for section in page.split("\n### ")[1:]:
        cells = (line.strip(" |").split("|") for line in section.splitlines() if line.startswith(" |"))
        labels = {cell[0].rpartition("/")[2]: cell[1] for cell in cells if len(cell) == 2}
        row: dict[str, Any] = {
            "vcpus": int(labels["instance-cpu"]),
            "cpu_architecture": {"amd64": "x86_64", "arm64": "arm64"}[labels["arch"]],
            "local_nvme_gb": int(labels.get("instance-local-nvme", 0)),
            "efa_interfaces": int(labels.get("efa", 0)),
            "accelerators": int(
                labels.get("instance-gpu-count", labels.get("instance-accelerator-count", 0))
            ),
        }
        if "instance-gpu-memory" in labels:
            row["accelerator_memory_mib"] = int(labels["instance-gpu-memory"])
        yield section.split("`")[1], row


def plugin_platforms(source: str) -> dict[str, Any]:
    """The map of platforms in the aws-ofi-nccl plugin, in its order: the first that matches counts."""
    entries = source.partition("platform_data_map")[2].split(".name = ")[1:]
    return dict(map(_plugin_row, entries))


def _plugin_row(entry: str) -> tuple[str, dict[str, Any]]:
    name = entry.split('"')[1]
    regex = re.search(r"\.regex = (\S+),\n", entry)
    required = re.search(r"\.gdr_required = (true|false)", entry)
    if regex is None or required is None:
        raise ValueError(f"the entry {name} of the plugin's map is written otherwise than it was")
    environment = entry.partition(".env = {")[2].partition("\n\t},")[0]
    return name, {
        "regex": None if regex[1] == "NULL" else json.loads(regex[1]),
        "gdr_required": required[1] == "true",
        "environment": dict(re.findall(r'\{ "(\w+)", "([^"]*)" \}', environment)),
    }


def image_releases(files: Mapping[str, str]) -> dict[str, Any]:
    """AWS's descriptions of its images, by path: those for training on SageMaker, by their first tag."""
    described = ((path, yaml.safe_load(text)) for path, text in files.items())
    rows = {
        f"{path.split('/')[-2]}:{image['tags'][0]}": {
            key: str(image[key]) for key in ("python", "cuda", "eop") if key in image
        }
        for path, image in described
        if path.split("/")[-2] in _TRAINING_REPOSITORIES and image["platform"] == "sagemaker"
    }
    return dict(sorted(rows.items()))


def images_of_aws(files: Mapping[str, str]) -> dict[str, Any]:
    """What AWS publishes of its images: their descriptions by tag, and the packages of each lock file."""
    rows = image_releases({path: text for path, text in files.items() if path.startswith("docs/")})
    for path, text in files.items():
        if path.endswith("/uv.lock") and "/inference/" not in path:
            locked = [each for each in tomllib.loads(text)["package"] if "virtual" not in each["source"]]
            framework = next(
                each for each in locked if each["name"] in _FRAMEWORK_PACKAGES[path.split("/")[1]]
            )
            rows[path] = {
                "version": framework["version"].partition("+")[0],
                "packages": sorted({each["name"] for each in locked}),
            }
    return rows


_FRAMEWORK_PACKAGES = {"pytorch": ("torch",), "tensorflow": ("tensorflow", "tensorflow-cpu")}
"""By the folder of an image the packages that are its framework."""


def training_quotas(source: str) -> dict[str, Any]:
    """Gruntwork's variables, one for each adjustable quota: the codes of training hosts by use and type.

    A code is only taken beside the full name of its quota, for types that SageMaker's API trains on.
    """
    trained, rows = set(training_instance_types()), dict[str, dict[str, str]]()
    for name, code in re.findall(r'"Quota for \[sagemaker\]: ([^"()]*) \((L-[0-9A-F]{8})\)"', source):
        instance_type, _, use = name.removesuffix(" usage").partition(" for ")
        if instance_type in trained and use in get_args(Use):
            rows.setdefault(use, {})[instance_type] = code
    return {use: dict(sorted(codes.items())) for use, codes in sorted(rows.items())}


def prices_of_us_east_1(source: str) -> dict[str, Any]:
    """aws-gpu's prices of EC2 in us-east-1, the region for which we have another source."""
    return aws_gpu_prices(source).prices["us-east-1"]


_TRAINING_REPOSITORIES = ("pytorch", "pytorch-training", "pytorch-training-neuronx", "tensorflow-training")


def _only(read: Callable[[str], dict[str, Any]]) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    """A reader of one file as a reader of many."""
    return lambda files: read(*files.values())


_READ: Final[dict[str, tuple[str, Callable[[Mapping[str, str]], dict[str, Any]]]]] = {
    "aws/karpenter-provider-aws": (
        "website/content/en/preview/reference/instance-types.md",
        _only(karpenter_types),
    ),
    "aws/aws-ofi-nccl": ("src/platform-aws.cpp", _only(plugin_platforms)),
    "aws/deep-learning-containers": ("docs/src/data docker/pytorch docker/tensorflow", images_of_aws),
    "tsaol/aws-gpu": ("data/all_gpu_instances.js", _only(prices_of_us_east_1)),
    "gruntwork-io/terraform-aws-utilities": (
        "modules/request-quota-increase/variables.tf",
        _only(training_quotas),
    ),
}
"""By repository the file or the folders that are quoted, and how they are read."""


def _file(repository: str) -> Path:
    return FOLDER / f"{repository.partition('/')[2]}.json"


def git(directory: str, *arguments: str) -> str:
    """What git prints about a clone. Raises CalledProcessError where it refuses."""
    run = subprocess.run(["git", "-C", directory, *arguments], capture_output=True, text=True, check=True)
    return run.stdout


def main(arguments: list[str]) -> int:
    """Quote a repository anew from a clone of it."""
    if len(arguments) != 2 or arguments[0] not in _READ:
        print(f"usage: python -m tools.facts.references {{{','.join(_READ)}}} DIRECTORY", file=sys.stderr)
        return 2
    repository, directory = arguments
    path, read = _READ[repository]
    commit, date = git(directory, "log", "-1", "--format=%H %cs").split()
    names = git(directory, "ls-tree", "-r", "--name-only", "HEAD", *path.split()).splitlines()
    rows = read({name: git(directory, "show", f"HEAD:{name}") for name in names})
    quotation = Quotation(repository, commit, date, path, rows)
    _file(repository).write_text(in_rows(asdict(quotation), "rows"), "utf-8")
    print(f"wrote {_file(repository).name}: {len(rows)} rows of {quotation}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

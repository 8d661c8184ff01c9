"""Write launcher/planning/images.json, the table of training images, from the SageMaker SDK's data.

The SDK weighs a gigabyte and takes seconds to import, so the launcher reads this table instead. What the SDK
does not have is taken from launcher/planning/image_releases.json: the images for Trainium after 2022, and the
full versions and Pythons of the images on Amazon Linux 2023. Run after an upgrade of `sagemaker` or a change
there:  python -m tools.generate image_table [--check]
"""

from __future__ import annotations

import json
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import botocore.session
from botocore.regions import EndpointResolver

from tools.generate.generated import ROOT, dated

TABLE = ROOT / "launcher" / "planning" / "images.json"
RELEASES = TABLE.with_name("image_releases.json")
SHELF_LIFE_DAYS = 90
"""AWS brings a new PyTorch about every two months (image_releases.json)."""

FRAMEWORKS = ("pytorch", "pytorch-neuron", "pytorch-smp", "pytorch-training-compiler", "tensorflow")

SMP_CUDA = {"2.0": {"": "cu118", "p5": "cu121"}, "2.5": {"": "cu124"}}
SMP_CUDA_OTHERWISE = {"": "cu121"}
"""The CUDA part of SMP version 2's tags, by PyTorch release and by a part of the instance type.

The SDK holds it in code and not in its data (sagemaker.core.image_uris, get_training_image_uri).
"""

_P4D = {"": "", "p4d.": "cu110-ubuntu18.04"}
P4D_IMAGES = {"pytorch": {"1.6.0": _P4D}, "tensorflow": {"2.3.1": _P4D, "2.3.2": _P4D}}
"""Versions that have an image of its own for the A100 (same module, _get_image_tag)."""

PROCESSORS = {"trn": "neuron"}
"""Where the tag names the processor otherwise than the data."""


def generated() -> dict[Path, str]:
    """What the table's file should hold now."""
    table = dated(
        TABLE,
        f"sagemaker {version('sagemaker')}, sagemaker/core/image_uri_config; image_releases.json",
        image_table(),
        shelf_life_days=SHELF_LIFE_DAYS,
        packages=["sagemaker"],
    )
    return {TABLE: json.dumps(table, indent=1) + "\n"}


def image_table() -> dict[str, Any]:
    """The table: per framework its versions, and per set of registries the account of each region."""
    registries: dict[str, dict[str, str]] = {}
    frameworks = {name: _framework(name, registries) for name in FRAMEWORKS}
    frameworks["pytorch"] = _with_amazon_linux(frameworks["pytorch"], registries)
    frameworks["pytorch-neuron"] = _with_neuronx(frameworks["pytorch-neuron"], registries)
    return {
        "frameworks": frameworks,
        "registries": registries,
        "dns_suffixes": _dns_suffixes({region for accounts in registries.values() for region in accounts}),
    }


def _dns_suffixes(regions: set[str]) -> dict[str, str]:
    """The regions whose registries do not end in amazonaws.com, by botocore's endpoint data."""
    resolver = EndpointResolver(botocore.session.get_session().get_data("endpoints"))
    suffixes = {region: resolver.construct_endpoint("ecr", region)["dnsSuffix"] for region in sorted(regions)}
    return {region: suffix for region, suffix in suffixes.items() if suffix != "amazonaws.com"}


def _framework(name: str, registries: dict[str, dict[str, str]]) -> dict[str, Any]:
    config = json.loads(_data_file(f"{name}.json").read_text("utf-8"))["training"]
    rows, aliases = config["versions"], config["version_aliases"]
    if name == "tensorflow":
        # Those before have no script mode, or images of another name for each Python.
        rows = {number: row for number, row in rows.items() if not number.startswith("1.")}
        aliases = {short: full for short, full in aliases.items() if full in rows}
    if name == "pytorch-smp":
        rows, aliases = _by_torch_version(rows, aliases)
    versions = {}
    for number, row in rows.items():
        processors = row.get("processors", config["processors"])
        versions[number] = {
            "repository": row["repository"],
            "python": row["py_versions"],
            "processors": [PROCESSORS.get(processor, processor) for processor in processors],
            "registries": _registry_key(row["registries"], registries),
        }
        suffixes = _suffixes(name, number, row)
        if suffixes:
            versions[number]["suffixes"] = suffixes
    return {"aliases": aliases, "versions": versions}


def _with_amazon_linux(framework: dict[str, Any], registries: dict[str, dict[str, str]]) -> dict[str, Any]:
    """PyTorch with the images on Amazon Linux 2023, which are in a repository of their own.

    Their tags name the version by two numbers, the newest patch release of it, and the processor by its
    toolkit. Where the release that AWS names in full is not known, the two numbers stand for it, and a third
    that is 0 is taken for the same.
    """
    rows = json.loads(_data_file("pytorch-amzn2023.json").read_text("utf-8"))["training"]["versions"]
    full_names = {short_of(full): full for full in _releases("pytorch")}
    aliases, versions = dict(framework["aliases"]), dict(framework["versions"])
    for short, row in rows.items():
        full = full_names.get(short, short)
        aliases[f"{short}.0" if full == short else short] = full
        python = _releases("pytorch").get(full, {}).get("python")
        versions[full] = {
            "repository": row["repository"],
            "python": [python] if python else [],
            "processors": list(row["container_version"]),
            "registries": _registry_key(row["registries"], registries),
            "tags": {
                processor: f"{row['tag_prefix']}-{toolkit}"
                for processor, toolkit in row["container_version"].items()
            },
        }
    return {"aliases": aliases, "versions": versions}


def _with_neuronx(framework: dict[str, Any], registries: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The image for Trainium that the SDK has for PyTorch, and those since.

    The SDK's own is of a Neuron SDK from before Trainium2. The regions of the others it has for the recipes.
    """
    aliases, versions = dict(framework["aliases"]), dict(framework["versions"])
    for row in versions.values():
        row["accelerators"] = ["Trainium"]
    recipes = json.loads(_data_file("hyperpod-recipes-neuron.json").read_text("utf-8"))["training"][
        "versions"
    ]
    (known,) = (row for row in recipes.values() if row["repository"] == "pytorch-training-neuronx")
    for full, row in _releases("pytorch-neuron").items():
        aliases[short_of(full)] = full
        tag = f"{full}-neuronx-{row['python']}-sdk{row['sdk']}-{row['system']}"
        versions[full] = {
            "repository": row["repository"],
            "python": [row["python"]],
            "processors": ["neuron"],
            "accelerators": ["Trainium", "Trainium2"],
            "registries": _registry_key(known["registries"], registries),
            "tags": {"neuron": tag},
        }
    return {"aliases": aliases, "versions": versions}


def short_of(version: str) -> str:
    """A version by its first two numbers."""
    return ".".join(version.split(".")[:2])


def _releases(framework: str) -> dict[str, dict[str, Any]]:
    releases: dict[str, dict[str, Any]] = json.loads(RELEASES.read_text("utf-8"))["frameworks"][framework]
    return releases


def _by_torch_version(rows: dict[str, Any], aliases: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """SMP's rows by the PyTorch version, which the tags carry; the data has them by the library's.

    A PyTorch version is what is mapped to a library version (2.5.1 to 2.8.0), or what its own short
    form is mapped to (2.0 to 2.0.1); the short form 2.2 is mapped to a library version.
    """
    full = {short for short in aliases if short.count(".") == 2}
    full |= {long for short, long in aliases.items() if long.startswith(f"{short}.")}
    by_torch = {number: rows[aliases.get(number, number)] for number in sorted(full)}
    return by_torch, {number.rpartition(".")[0]: number for number in by_torch}


def _suffixes(name: str, number: str, row: dict[str, Any]) -> dict[str, str] | None:
    """What a tag ends in, by a part of the instance type ('' for any)."""
    if name in P4D_IMAGES:
        return P4D_IMAGES[name].get(number)
    if name == "pytorch-smp":
        return SMP_CUDA.get(number.rpartition(".")[0], SMP_CUDA_OTHERWISE)
    if name == "pytorch-neuron":
        (system,) = row["container_version"].values()
        return {"": f"{max(row['sdk_versions'])}-{system}"}
    return None


def _registry_key(accounts: dict[str, str], registries: dict[str, dict[str, str]]) -> str:
    for key, known in registries.items():
        if known == accounts:
            return key
    key = str(len(registries))
    registries[key] = accounts
    return key


def _data_file(name: str) -> Path:
    for file in distribution("sagemaker-core").files or []:
        if file.name == name and file.parent.name == "image_uri_config":
            return Path(str(file.locate()))
    raise FileNotFoundError(f"sagemaker-core ships no image_uri_config/{name}")

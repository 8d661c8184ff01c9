"""Write launcher/plan/images.json, the table of training images, from the SageMaker SDK's data.

The SDK weighs a gigabyte and takes seconds to import, so the launcher reads this table instead. Run
after an upgrade of `sagemaker`:  python scripts/generate_image_table.py [--check]
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import botocore.session
from botocore.regions import EndpointResolver

TABLE = Path(__file__).parent.parent / "launcher" / "plan" / "images.json"
FRAMEWORKS = ("pytorch",)


def image_table() -> dict[str, Any]:
    """The table: per framework its versions, and per set of registries the account of each region."""
    registries: dict[str, dict[str, str]] = {}
    frameworks = {name: _framework(name, registries) for name in FRAMEWORKS}
    return {
        "source": f"sagemaker {version('sagemaker')}, sagemaker/core/image_uri_config",
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
    versions = {}
    for number, row in config["versions"].items():
        versions[number] = {
            "repository": row["repository"],
            "python": row["py_versions"],
            "processors": row.get("processors", config["processors"]),
            "registries": _registry_key(row["registries"], registries),
        }
    return {"aliases": config["version_aliases"], "versions": versions}


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


def main() -> int:
    """Write the table, or with --check say whether it is current."""
    text = json.dumps(image_table(), indent=1) + "\n"
    if "--check" in sys.argv[1:]:
        current = TABLE.exists() and TABLE.read_text("utf-8") == text
        print(f"{TABLE.name} is {'current' if current else 'stale: run ' + __file__}")
        return 0 if current else 1
    TABLE.write_text(text, "utf-8")
    print(f"wrote {TABLE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Reading SageMaker's config files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.container import natural_order, read_container


def write_config(root: Path, **files: object) -> None:
    folder = root / "input" / "config"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


RESOURCES = {
    "current_host": "algo-10",
    "current_instance_type": "ml.m5.xlarge",
    "hosts": ["algo-1", "algo-10", "algo-2"],
    "network_interface_name": "eth0",
}


def test_hosts_are_in_natural_order_and_the_rank_follows_it(tmp_path: Path) -> None:
    write_config(tmp_path, resourceconfig=RESOURCES)
    container = read_container(tmp_path)
    assert container.hosts == ("algo-1", "algo-2", "algo-10")
    assert container.node_rank == 2


def test_hyperparameters_and_channels_may_be_missing(tmp_path: Path) -> None:
    write_config(tmp_path, resourceconfig=RESOURCES)
    container = read_container(tmp_path)
    assert container.hyperparameters == {}
    assert container.input_data_config == {}


def test_a_missing_resource_config_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="resourceconfig"):
        read_container(tmp_path)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["algo-10", "algo-9", "algo-1"], ["algo-1", "algo-9", "algo-10"]),
        (["b-1", "a-2"], ["a-2", "b-1"]),
        (["10-algo", "9-algo"], ["9-algo", "10-algo"]),
        (["algo-2", "algo"], ["algo", "algo-2"]),
    ],
)
def test_numbers_in_host_names_count_by_value(hosts: list[str], expected: list[str]) -> None:
    assert sorted(hosts, key=natural_order) == expected

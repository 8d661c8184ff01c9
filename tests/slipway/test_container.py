"""What a container is told: config files, the boot's arguments, where the ranks meet, CUDA's library."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from slipway.container import (
    Rendezvous,
    Task,
    check_port,
    hyperparameter_arguments,
    is_older_version,
    loads_cuda_compatibility,
    natural_order,
    parse_task,
    read_container,
    replace_references,
    script_arguments,
    with_cuda_compatibility,
)
from slipway.failure import BootError
from slipway.watchdog.judge_stall import StallLimits


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


STRATEGY = ["--strategy", "torchrun"]


def test_what_follows_two_dashes_belongs_to_the_script() -> None:
    own = [*STRATEGY, "--processes-per-host", "8", "--entry-point", "a.py"]
    task = parse_task([*own, "--", "--strategy", "x", "--", "-y"])
    assert (task.strategy, task.processes_per_host, task.entry_point) == ("torchrun", 8, "a.py")
    assert task.arguments == ("--strategy", "x", "--", "-y")


def test_the_interfaces_of_the_type_are_not_known_unless_given() -> None:
    own = [*STRATEGY, "--entry-point", "a.py"]
    assert parse_task(own).efa_interfaces == 0
    assert parse_task([*own, "--efa-interfaces", "32"]).efa_interfaces == 32


def test_a_module_is_started_instead_of_a_script() -> None:
    task = parse_task([*STRATEGY, "--module", "pkg.train", "--argument-style", "hydra"])
    assert task == Task("torchrun", 1, module="pkg.train", argument_style="hydra")
    assert task.name == "-m pkg.train"


@pytest.mark.parametrize(
    ("words", "watchdog"),
    [
        ([], None),
        (["--watchdog-stall", "off"], None),
        (["--watchdog-stall", "auto"], StallLimits(None, 1800)),
        (["--watchdog-stall", "600", "--watchdog-first-step", "60"], StallLimits(600, 60)),
    ],
)
def test_nobody_watches_unless_it_is_told_to(words: list[str], watchdog: StallLimits | None) -> None:
    assert parse_task([*STRATEGY, "--entry-point", "a.py", *words]).watchdog == watchdog


@pytest.mark.parametrize("program", [[], ["--module", "a", "--entry-point", "a.py"]])
def test_exactly_one_program_is_started(program: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_task([*STRATEGY, *program])
    assert "--entry-point" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("spaced", ["--lr", "0.10", "-e", "5", "--name", "a b"]),
        ("equals", ["--lr=0.10", "--e=5", "--name=a b"]),
        ("hydra", ["lr=0.10", "e=5", "name=a b"]),
        ("none", []),
    ],
)
def test_hyperparameters_become_words_in_the_style_of_the_script(style: str, expected: list[str]) -> None:
    assert hyperparameter_arguments({"lr": "0.10", "e": "5", "name": "a b"}, style) == expected


@pytest.mark.parametrize(
    ("style", "expected"),
    [("equals", ["--compile=False", "--wandb=True"]), ("hydra", ["compile=false", "wandb=true"])],
)
def test_scripts_that_evaluate_their_words_find_the_truth_as_python_writes_it(
    style: str, expected: list[str]
) -> None:
    assert hyperparameter_arguments({"compile": "false", "wandb": "true"}, style) == expected


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("spaced", ["--lr", "1", "fit", "--seed=2"]),
        ("equals", ["fit", "--seed=2", "--lr=1"]),
        ("hydra", ["fit", "--seed=2", "lr=1"]),
        ("none", ["fit", "--seed=2"]),
    ],
)
def test_hyperparameters_follow_the_subcommand_whose_options_they_are(
    style: str, expected: list[str]
) -> None:
    task = Task("none", 1, ("fit", "--seed=2"), entry_point="train.py", argument_style=style)
    assert script_arguments(task, {"lr": "1"}) == expected


def test_a_shell_script_finds_its_own_arguments_where_it_counts_them() -> None:
    task = Task("none", 1, ("8",), entry_point="distributed_train.sh")
    assert script_arguments(task, {"lr": "1"}) == ["8", "--lr", "1"]


def test_the_words_of_one_letter_are_what_argparse_declares() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-e", type=int)
    assert parser.parse_args(hyperparameter_arguments({"e": "5"})).e == 5


def test_the_model_parallel_librarys_parameters_are_words_only_for_scripts_of_the_toolkits_style() -> None:
    parameters = {"mp_parameters": '{"a": 1}'}
    assert hyperparameter_arguments(parameters) == ["--mp_parameters", '{"a": 1}']
    assert hyperparameter_arguments(parameters, "hydra") == []


SPECIFICATION = importlib.util.find_spec("slipway")
assert SPECIFICATION is not None and SPECIFICATION.submodule_search_locations
FOLDER = Path(SPECIFICATION.submodule_search_locations[0])
FILES = sorted(FOLDER.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_syntax_is_that_of_python_3_8(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert future or len(tree.body) == 1, "annotations such as `int | None` need the future import"


MAY_USE = {
    **{folder: {"torch"} for folder in ("fabric", "gate", "saving", "training")},
    "upload_places.py": {"boto3", "botocore", "s3transfer"},
}
"""What a file or those of a folder may import besides, where they use it and not at their top."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_the_standard_library_is_imported(file: Path) -> None:
    tree = ast.parse(file.read_text())
    standard = {*sys.stdlib_module_names, "slipway"}
    may_use = MAY_USE.get(file.parent.name, set()) | MAY_USE.get(file.name, set())
    assert imported(node for node in ast.walk(tree)) <= standard | may_use
    assert imported(tree.body) <= standard


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        with pytest.raises(BootError, match=rf"^NCCL009 .*algo-1:{port}.*MASTER_PORT"):
            check_port(Rendezvous("algo-1", port), "algo-1")


def test_a_free_port_is_fine() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    check_port(Rendezvous("127.0.0.1", port), "algo-1")


FOLDERS = {"SM_MODEL_DIR": "/opt/ml/model", "SM_CHANNEL_MY-TRAIN": "/data", "SLIPWAY_CHECKPOINT_DIR": "/c"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${SM_MODEL_DIR}", "/opt/ml/model"),
        ("--out=${SM_MODEL_DIR}/a:${SM_CHANNEL_MY-TRAIN}", "--out=/opt/ml/model/a:/data"),
        ("${SLIPWAY_CHECKPOINT_DIR}", "/c"),
        ("$${SM_MODEL_DIR}", "${SM_MODEL_DIR}"),
        ("$$${SM_MODEL_DIR}", "$${SM_MODEL_DIR}"),
        ("${oc.env:HOME} $SM_MODEL_DIR ${SM_MODEL_DIR", "${oc.env:HOME} $SM_MODEL_DIR ${SM_MODEL_DIR"),
    ],
)
def test_folders_are_put_in_and_nothing_else(text: str, expected: str) -> None:
    assert replace_references(text, FOLDERS) == expected


def test_what_was_put_in_is_not_looked_at_again() -> None:
    assert replace_references("${SM_MODEL_DIR}", {"SM_MODEL_DIR": "${SM_OTHER}"}) == "${SM_OTHER}"


def test_a_folder_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(BootError, match=r"CODE002 \$\{SM_CHANNEL_VAL\}.*SM_CHANNEL_MY-TRAIN"):
        replace_references("${SM_CHANNEL_VAL}", FOLDERS)


OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build  (dvs-builder@U22)\n"
    "GCC version:  gcc version 12.3.0\n"
)
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {0}  Tue Jan 1 00:00:00 UTC 2026\n"


def of_host(folder: Path, text: str, library: str | None) -> tuple[Path, Path]:
    compat, driver = folder / "compat", folder / "version"
    compat.mkdir()
    if library is not None:
        (compat / f"libcuda.so.{library}").touch()
        (compat / "libcuda.so.1").symlink_to(f"libcuda.so.{library}")
    driver.write_text(text)
    return compat, driver


@pytest.mark.parametrize("text", [OPEN, PROPRIETARY])
@pytest.mark.parametrize(
    ("driver", "library", "needed"),
    [
        ("535.183.01", "550.54.15", True),
        ("550.54.14", "550.54.15", True),
        ("550.54.15", "550.54.15", False),
        ("580.159.04", "580.95.05", False),
        ("1000.1", "580.95.05", False),
    ],
)
def test_an_older_driver_gets_the_library_that_the_image_carries(
    tmp_path: Path, text: str, driver: str, library: str, needed: bool
) -> None:
    folder, version = of_host(tmp_path, text.format(driver), library)
    given = with_cuda_compatibility({"LD_LIBRARY_PATH": "/opt/amazon/efa/lib"}, folder, version)
    expected = f"{folder}:/opt/amazon/efa/lib" if needed else "/opt/amazon/efa/lib"
    assert given == {"LD_LIBRARY_PATH": expected}


@pytest.mark.parametrize(
    ("text", "library"),
    [("", "550.54.15"), (OPEN.format("535.1"), None), ("NVRM version: unknown\n", "550.1")],
)
def test_where_there_is_no_driver_or_no_library_nothing_changes(
    tmp_path: Path, text: str, library: str | None
) -> None:
    folder, version = of_host(tmp_path, text, library)
    assert with_cuda_compatibility({"A": "1"}, folder, version) == {"A": "1"}
    assert with_cuda_compatibility({"A": "1"}, folder, tmp_path / "none") == {"A": "1"}


def test_what_the_user_put_there_is_not_put_there_twice(tmp_path: Path) -> None:
    folder, version = of_host(tmp_path, OPEN.format("535.1"), "550.1")
    once = with_cuda_compatibility({}, folder, version)
    assert once == {"LD_LIBRARY_PATH": str(folder)}
    assert loads_cuda_compatibility(once, folder)
    assert with_cuda_compatibility(once, folder, version) == once


def test_versions_are_compared_number_by_number() -> None:
    assert is_older_version("99.9", "535.1")
    assert not is_older_version("535.10", "535.9")

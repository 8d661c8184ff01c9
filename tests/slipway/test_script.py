"""The user's script: its source, its command and its environment."""

from __future__ import annotations

import ast
import gzip
import hashlib
import importlib.util
import io
import json
import os
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from torch.distributed.run import parse_args

from slipway.container import Container, Rendezvous, Task, find_rendezvous
from slipway.failure import BootError
from slipway.processes.torchrun import torchrun_command
from slipway.script import (
    count_gpus,
    find_entry_point,
    folder_variables,
    make_folders,
    program_of,
    sagemaker_variables,
    script_environment,
    sees_accelerators,
    shell_command,
    unpack_source,
    verify_source,
)

BASH = "/bin/bash"


def script(folder: Path, text: str, *, runs: bool) -> Path:
    file = folder / "train.sh"
    file.write_bytes(text.encode())
    file.chmod(0o755 if runs else 0o644)
    return file


def test_the_name_says_what_a_shell_runs(tmp_path: Path) -> None:
    script(tmp_path, "echo", runs=False)
    (tmp_path / "train.py").touch()
    by_shell = program_of(Task("none", 1, entry_point="train.sh"), tmp_path, ["-a"], os.environ)
    assert (by_shell.by_shell, by_shell.command[1:]) == (True, [str(tmp_path / "train.sh"), "-a"])
    assert not program_of(Task("none", 1, entry_point="train.py"), tmp_path, [], {}).by_shell


def test_a_script_with_shebang_and_run_bit_is_run_itself(tmp_path: Path) -> None:
    file = script(tmp_path, "#!/bin/sh\n", runs=True)
    assert shell_command(file, ["--a", "b c"], "/bin") == [str(file), "--a", "b c"]


@pytest.mark.parametrize(
    ("text", "runs"), [("#!/bin/sh\n", False), ("echo\n", True), ("echo\n", False), ("", True)]
)
def test_without_shebang_or_run_bit_bash_runs_it(tmp_path: Path, text: str, runs: bool) -> None:
    file = script(tmp_path, text, runs=runs)
    assert shell_command(file, ["--a"], "/bin") == [BASH, str(file), "--a"]


def test_without_bash_it_is_said_what_the_script_needs(tmp_path: Path) -> None:
    file = script(tmp_path, "echo\n", runs=True)
    with pytest.raises(BootError, match=r"CODE002 train.sh has no shebang .*#!/bin/sh.*chmod"):
        shell_command(file, [], str(tmp_path))


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ("#!/bin/bash\r\n", "Windows line ends"),
        ("#! /opt/none/zsh -e\n", "`#! /opt/none/zsh -e`, and that interpreter is not in the image"),
        ("#!\n", "is not in the image"),
    ],
)
def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path, first: str, reason: str) -> None:
    with pytest.raises(BootError, match=f"CODE002 .*{reason}"):
        shell_command(script(tmp_path, first, runs=True), [], "/bin")


def package(folder: Path) -> Path:
    (folder / "pkg").mkdir()
    for name in ("__init__", "train"):
        (folder / "pkg" / f"{name}.py").touch()
    return folder


def test_a_module_is_run_by_name(tmp_path: Path) -> None:
    program = program_of(Task("none", 1, module="pkg.train"), package(tmp_path), ["--a"], {})
    assert program.command == [sys.executable, "-u", "-m", "pkg.train", "--a"]


def test_the_interpreter_is_the_one_that_the_environment_asks_of_torchrun(tmp_path: Path) -> None:
    program = program_of(Task("torchrun", 1, module="pkg.train"), package(tmp_path), [], {})
    assert program.command_for({}) == program.command
    assert program.command_for({"PYTHON_EXEC": "pypy"}) == ["pypy", "-u", "-m", "pkg.train"]


def test_a_module_that_its_package_does_not_hold_is_named_with_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(
        BootError, match=r"CODE002 the module pkg.trian .* holds: pkg/__init__.py, pkg/train.py"
    ):
        program_of(Task("none", 1, module="pkg.trian"), package(tmp_path), [], {})


def test_a_module_that_may_be_installed_is_left_to_python(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    for module in ("torch.distributed.run", "elsewhere.train"):
        program = program_of(Task("none", 1, module=module), tmp_path, [], {})
        assert program.words == (module,)


ARGUMENTS = ["--logs", "x", "--log", "--node", "1", "--local=a", "--master", "m", "--nnodes", "9", "--", "-t"]


@pytest.mark.parametrize(
    "task", [Task("torchrun", 2, module="pkg.train"), Task("torchrun", 2, entry_point="a.py")]
)
def test_torchrun_keeps_nothing_of_the_scripts_arguments(tmp_path: Path, task: Task) -> None:
    (tmp_path / "a.py").touch()
    hosts = ("algo-1", "algo-2")
    container = Container(tmp_path, hosts, "algo-2", "", None, {}, {}, {})
    program = program_of(task, package(tmp_path), ARGUMENTS, {})
    command = torchrun_command(container, Rendezvous("algo-1", 7777), 2, program.command, tmp_path)
    parsed = parse_args(command[3:])
    assert (parsed.no_python, parsed.training_script) == (True, sys.executable)
    assert parsed.training_script_args == ["-m", "slipway.ranks.printing", *program.command]
    assert program.command[-len(ARGUMENTS) :] == ARGUMENTS
    assert (parsed.nnodes, parsed.nproc_per_node) == ("2", "2")
    assert (parsed.node_rank, parsed.master_addr, parsed.master_port) == (1, "algo-1", 7777)


def test_torchruns_options_are_spelled_as_every_version_takes_them(tmp_path: Path) -> None:
    container = Container(tmp_path, ("algo-1",), "algo-1", "", None, {}, {}, {})
    program = program_of(Task("torchrun", 1, module="m"), tmp_path, [], {})
    command = torchrun_command(container, Rendezvous("a", 1), 1, program.command, tmp_path, patience=9)
    options = [word for word in command[: command.index("--")] if word[:2] == "--"]
    assert not any("-" in option[2:] for option in options)


def archive_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def digest_of(archive: Path) -> str:
    return hashlib.sha256(gzip.decompress(archive.read_bytes())).hexdigest()


def test_the_submitted_archive_is_accepted_however_it_is_compressed(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1" * 5000))
    digest = digest_of(archive)
    verify_source(archive, digest)
    archive.write_bytes(gzip.compress(gzip.decompress(archive.read_bytes()), 1))
    verify_source(archive, digest)


@pytest.mark.parametrize(
    "member", [entry("train.py"), entry("more.py")], ids=["another content", "a member more"]
)
def test_another_archive_than_the_submitted_one_is_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    ours = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1"))
    theirs = archive_of(tmp_path / "theirs.tar.gz", (entry("train.py"), b"1"), (member, b"2"))
    with pytest.raises(BootError, match=r"^CODE002 .*theirs\.tar\.gz is not the code") as refusal:
        verify_source(theirs, digest_of(ours))
    assert digest_of(ours)[:12] in str(refusal.value)
    assert digest_of(theirs)[:12] in str(refusal.value)


def test_what_follows_the_end_of_the_archive_counts_too(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1"))
    digest = digest_of(archive)
    archive.write_bytes(archive.read_bytes() + gzip.compress(b"more"))
    with pytest.raises(BootError, match="is not the code"):
        verify_source(archive, digest)


@pytest.mark.parametrize(
    "content",
    [None, b"", b"no gzip", gzip.compress(b"x" * 5000)[:-20]],
    ids=["missing", "empty", "no gzip", "cut"],
)
def test_an_archive_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    archive = tmp_path / "source.tar.gz"
    if content is not None:
        archive.write_bytes(content)
    with pytest.raises(BootError, match=r"^CODE002 .*source\.tar\.gz"):
        verify_source(archive, "0" * 64)


def test_files_and_folders_are_extracted(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1"), (entry("lib/a.py"), b"2"))
    unpack_source(archive, tmp_path / "code")
    assert (tmp_path / "code" / "lib" / "a.py").read_bytes() == b"2"
    assert find_entry_point(tmp_path / "code", "train.py").read_bytes() == b"1"


@pytest.mark.parametrize(
    "member",
    [
        entry("../evil.py"),
        entry("lib/../../evil.py"),
        entry("/tmp/evil.py"),
        entry("evil.py", tarfile.SYMTYPE, "/etc/passwd"),
        entry("evil.py", tarfile.SYMTYPE, "train.py"),
        entry("evil.py", tarfile.LNKTYPE, "../outside"),
        entry("evil", tarfile.FIFOTYPE),
        entry("evil", tarfile.CHRTYPE),
    ],
    ids=lambda member: f"{member.name}-{member.type.decode()}-{member.linkname}",
)
def test_what_could_leave_the_folder_is_refused_and_nothing_is_extracted(
    tmp_path: Path, member: tarfile.TarInfo
) -> None:
    archive = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1"), (member, b""))
    with pytest.raises(BootError, match=r"^CODE002 .*evil"):
        unpack_source(archive, tmp_path / "code")
    assert list((tmp_path / "code").iterdir()) == []


def test_links_are_refused_also_without_the_filter_of_newer_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)  # 3.11.2 has none
    archive = archive_of(tmp_path / "source.tar.gz", (entry("evil", tarfile.SYMTYPE, "/etc"), b""))
    with pytest.raises(BootError):
        unpack_source(archive, tmp_path / "code")


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(BootError, match=r"^CODE002 .*source\.tar\.gz"):
        unpack_source(tmp_path / "source.tar.gz", tmp_path / "code")


def test_a_missing_entry_point_is_named_with_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "main.py").touch()
    with pytest.raises(BootError, match=r"^CODE002 .*train\.py.*main\.py"):
        find_entry_point(tmp_path, "train.py")


CONTAINER = Container(
    root=Path("/opt/ml"),
    hosts=("algo-1", "algo-2"),
    current_host="algo-2",
    instance_type="ml.m5.xlarge",
    interface="eth0",
    hyperparameters={"lr": "0.1", "batch-size": "64", "name": "x"},
    input_data_config={"train": {}, "my-data": {}, "code": {}},
    resource_config={"hosts": ["algo-1", "algo-2"]},
)


TASK = Task("torchrun", 2, entry_point="train.py")


def environment(existing: dict[str, str] | None = None, container: Container = CONTAINER) -> dict[str, str]:
    return script_environment(
        TASK,
        container,
        {"CUDA_VISIBLE_DEVICES": "0,1", **(existing or {})},
        archive=Path("/opt/ml/input/data/code/slipway.pyz"),
        rendezvous=Rendezvous("algo-1", 7777),
        arguments=["--lr", "0.1"],
    )


def test_scripts_find_the_variables_of_the_toolkit() -> None:
    found = environment()
    assert json.loads(found["SM_HOSTS"]) == ["algo-1", "algo-2"]
    assert found["SM_CURRENT_HOST"] == "algo-2"
    assert found["SM_NUM_GPUS"] == "2"
    assert found["SM_CHANNEL_TRAIN"] == "/opt/ml/input/data/train"
    assert found["SM_CHANNEL_MY_DATA"] == "/opt/ml/input/data/my-data"
    assert found["SM_CHANNEL_MY-DATA"] == found["SM_CHANNEL_MY_DATA"]
    assert json.loads(found["SM_CHANNELS"]) == ["train", "my-data"]
    assert found["SM_MODEL_DIR"] == "/opt/ml/model"
    assert found["SM_OUTPUT_DATA_DIR"] == "/opt/ml/output/data"
    assert json.loads(found["SM_HPS"]) == {"lr": 0.1, "batch-size": 64, "name": "x"}
    assert found["SM_HP_BATCH_SIZE"] == "64"
    assert found["SLIPWAY_CHECKPOINT_DIR"] == "/opt/ml/checkpoints"


@pytest.mark.parametrize(
    ("visible", "devices", "on_cpus"),
    [
        ({}, [], True),
        ({}, ["nvidiactl", "null"], True),
        ({}, ["nvidia0"], False),
        ({}, ["neuron3"], False),
        ({"CUDA_VISIBLE_DEVICES": ""}, ["nvidia0"], True),
        ({"CUDA_VISIBLE_DEVICES": "0"}, ["nvidia0"], False),
    ],
)
def test_whether_a_host_has_accelerators_shows_in_its_devices(
    tmp_path: Path, visible: dict[str, str], devices: list[str], on_cpus: bool
) -> None:
    for name in devices:
        (tmp_path / name).touch()
    assert sees_accelerators(visible, tmp_path) is not on_cpus


def test_ranks_on_cpus_are_told_so_that_accelerate_has_them_join() -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    assert environment(hidden)["ACCELERATE_USE_CPU"] == "true"
    assert environment({**hidden, "ACCELERATE_USE_CPU": "false"})["ACCELERATE_USE_CPU"] == "false"


def test_the_interface_of_the_container_is_used() -> None:
    found = environment()
    assert found["NCCL_SOCKET_IFNAME"] == found["GLOO_SOCKET_IFNAME"] == "eth0"


def test_no_interface_is_invented() -> None:
    found = environment(container=replace(CONTAINER, interface=None))
    assert "NCCL_SOCKET_IFNAME" not in found


@pytest.mark.parametrize(
    "name",
    ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "SM_MODEL_DIR", "SLIPWAY_CHECKPOINT_DIR", "PYTHONUNBUFFERED",
     "MASTER_PORT", "SM_HP_LR", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"],
)  # fmt: skip
def test_nothing_that_is_set_is_overwritten(name: str) -> None:
    assert environment({name: "the user's"})[name] == "the user's"


def test_scripts_may_import_the_package_and_their_own_modules() -> None:
    found = environment({"PYTHONPATH": "/mine"})["PYTHONPATH"]
    assert found.split(os.pathsep) == ["/opt/ml/input/data/code/slipway.pyz", "/opt/ml/code", "/mine"]


def test_shell_scripts_find_the_programs_of_this_interpreter_first() -> None:
    found = environment({"PATH": "/usr/bin:/bin"})["PATH"]
    assert found.split(os.pathsep) == [str(Path(sys.executable).parent), "/usr/bin", "/bin"]


def test_the_flight_recorder_finds_its_folder(tmp_path: Path) -> None:
    container = replace(CONTAINER, root=tmp_path)
    dumps = tmp_path / "output" / "data" / "flight_recorder" / "rank_"
    make_folders(environment({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(dumps)}, container))
    assert dumps.parent.is_dir()
    assert (tmp_path / "model").is_dir()
    assert (tmp_path / "checkpoints").is_dir()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Rendezvous("algo-1", 7777)),
        ({"MASTER_PORT": "29500"}, Rendezvous("algo-1", 29500)),
        ({"MASTER_PORT": "29500", "SLIPWAY_RENDEZVOUS": "127.0.0.1:4000"}, Rendezvous("127.0.0.1", 4000)),
    ],
)
def test_ranks_meet_on_the_first_host(variables: dict[str, str], expected: Rendezvous) -> None:
    assert find_rendezvous(CONTAINER, variables) == expected


GROUPS = [{"instance_group_name": "workers", "instance_type": "ml.g5.xlarge", "hosts": ["algo-1", "algo-2"]}]
IN_GROUPS = Container(
    root=Path("/opt/ml"),
    hosts=("algo-1", "algo-2"),
    current_host="algo-2",
    instance_type="ml.g5.xlarge",
    interface="eth0",
    hyperparameters={"batch-size": "64", "e": "5"},
    input_data_config={"my-train": {"TrainingInputMode": "File"}, "code": {}},
    resource_config={
        "hosts": ["algo-1", "algo-2"],
        "current_group_name": "workers",
        "instance_groups": GROUPS,
    },
)

TOOLKIT = (
    "SM_CHANNELS", "SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP", "SM_CURRENT_INSTANCE_GROUP_HOSTS",
    "SM_CURRENT_INSTANCE_TYPE", "SM_DISTRIBUTION_INSTANCE_GROUPS", "SM_FRAMEWORK_MODULE",
    "SM_FRAMEWORK_PARAMS", "SM_HOSTS", "SM_HPS", "SM_INPUT_CONFIG_DIR", "SM_INPUT_DATA_CONFIG",
    "SM_INPUT_DIR", "SM_INSTANCE_GROUPS", "SM_INSTANCE_GROUPS_DICT", "SM_IS_HETERO", "SM_LOG_LEVEL",
    "SM_MODEL_DIR", "SM_MODULE_DIR", "SM_MODULE_NAME", "SM_NETWORK_INTERFACE_NAME", "SM_NUM_CPUS",
    "SM_NUM_GPUS", "SM_NUM_NEURONS", "SM_OUTPUT_DATA_DIR", "SM_OUTPUT_DIR", "SM_OUTPUT_INTERMEDIATE_DIR",
    "SM_RESOURCE_CONFIG", "SM_TRAINING_ENV", "SM_USER_ARGS", "SM_USER_ENTRY_POINT",
)  # fmt: skip
"""aws/sagemaker-training-toolkit, environment.py, to_env_vars."""


def variables(task: Task | None = None, container: Container = IN_GROUPS, **existing: str) -> dict[str, str]:
    return sagemaker_variables(
        task or Task("torchrun", 1, entry_point="train.py"),
        container,
        Rendezvous("algo-1", 7777),
        {"CUDA_VISIBLE_DEVICES": "0", **existing},
        ["--lr", "0.1"],
    )


def drivers_names() -> set[str]:
    """The variables that the installed SDK's driver sets, read from its syntax tree."""
    found = importlib.util.find_spec("sagemaker.train")
    assert found is not None and found.submodule_search_locations
    file = Path(found.submodule_search_locations[0]) / "container_drivers" / "scripts" / "environment.py"
    texts = {
        node.value
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in texts if text.startswith("SM_") and text.isupper() and text[-1] != "_"}


def test_every_variable_of_the_toolkit_is_set() -> None:
    assert set(TOOLKIT) - variables().keys() == set()


def test_every_variable_of_the_sdks_driver_is_set_but_those_of_its_own_distribution() -> None:
    names = drivers_names()
    assert {"SM_HOST_COUNT", "SM_MASTER_PORT"} <= names
    assert names - variables().keys() == {"SM_DISTRIBUTED_CONFIG", "SM_DISTRIBUTED_DRIVER_DIR"}


def test_hosts_and_their_meeting_place_are_told() -> None:
    found = variables()
    assert (found["SM_MASTER_ADDR"], found["SM_MASTER_PORT"]) == ("algo-1", "7777")
    assert (found["SM_HOST_COUNT"], found["SM_CURRENT_HOST_RANK"]) == ("2", "1")
    assert found["SM_CURRENT_INSTANCE_GROUP"] == "workers"
    assert json.loads(found["SM_CURRENT_INSTANCE_GROUP_HOSTS"]) == ["algo-1", "algo-2"]
    assert json.loads(found["SM_INSTANCE_GROUPS_DICT"]) == {"workers": GROUPS[0]}
    assert json.loads(found["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == ["workers"]
    assert found["SM_IS_HETERO"] == "false"


def test_the_channel_of_the_code_is_no_channel_of_the_users() -> None:
    found = variables()
    assert "SM_CHANNEL_CODE" not in found
    assert json.loads(found["SM_CHANNELS"]) == ["my-train"]
    assert json.loads(found["SM_INPUT_DATA_CONFIG"]) == {"my-train": {"TrainingInputMode": "File"}}
    assert "code" not in json.loads(found["SM_TRAINING_ENV"])["channel_input_dirs"]


def test_names_with_hyphens_have_both_spellings() -> None:
    found = variables()
    assert found["SM_CHANNEL_MY-TRAIN"] == found["SM_CHANNEL_MY_TRAIN"] == "/opt/ml/input/data/my-train"
    assert found["SM_HP_BATCH-SIZE"] == found["SM_HP_BATCH_SIZE"] == "64"


def test_a_name_with_underscores_is_not_taken_by_one_with_hyphens() -> None:
    both = replace(IN_GROUPS, hyperparameters={"a_b": "1", "a-b": "2"})
    found = variables(container=both)
    assert (found["SM_HP_A_B"], found["SM_HP_A-B"]) == ("1", "2")


def test_the_whole_is_one_document() -> None:
    found = json.loads(variables(TRAINING_JOB_NAME="my-job")["SM_TRAINING_ENV"])
    assert found["job_name"] == "my-job"
    assert found["hyperparameters"] == {"batch-size": 64, "e": 5}
    assert found["model_dir"] == "/opt/ml/model"
    assert found["channel_input_dirs"] == {"my-train": "/opt/ml/input/data/my-train"}
    assert found["is_master"] is False
    assert found["user_entry_point"] == "train.py"
    assert found["module_name"] == "train"


@pytest.mark.parametrize(
    ("task", "entry_point", "module_name", "entry_script"),
    [
        (Task("none", 1, entry_point="run/train.sh"), "run/train.sh", "run/train.sh", "run/train.sh"),
        (Task("none", 1, module="pkg.train"), "-m pkg.train", "pkg.train", ""),
    ],
)
def test_what_is_started_is_named(task: Task, entry_point: str, module_name: str, entry_script: str) -> None:
    found = variables(task)
    assert found["SM_USER_ENTRY_POINT"] == entry_point
    assert found["SM_MODULE_NAME"] == module_name
    assert found["SM_ENTRY_SCRIPT"] == entry_script
    assert json.loads(found["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == []


def test_the_checkpoints_folder_has_both_names() -> None:
    assert variables()["SM_CHECKPOINT_DIR"] == "/opt/ml/checkpoints"
    elsewhere = folder_variables(IN_GROUPS, {"SLIPWAY_CHECKPOINT_DIR": "/opt/ml/input/data/checkpoints/job"})
    assert elsewhere["SM_CHECKPOINT_DIR"] == "/opt/ml/input/data/checkpoints/job"


@pytest.mark.parametrize(("visible", "expected"), [("", 0), ("3", 1), ("0, 1,GPU-abc", 3)])
def test_gpus_are_those_that_are_visible(visible: str, expected: int) -> None:
    assert count_gpus({"CUDA_VISIBLE_DEVICES": visible}) == expected


def test_neuron_cores_are_those_that_the_tool_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert variables()["SM_NUM_NEURONS"] == "0"
    tool = tmp_path / "neuron-ls"
    tool.write_text('#!/bin/sh\necho \'[{"neuron_device": 0, "nc_count": 2}, {"nc_count": 2}]\'\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert variables()["SM_NUM_NEURONS"] == "4"

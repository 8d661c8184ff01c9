"""What a script puts into os.environ is judged as if the job file said it; and it must be a string."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import environment
from launcher.scripts.edits import edited
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]


def judge(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    read = program(f"import os, sys, argparse, torch\n{text}", **others)
    return [finding for rule in environment.RULES for finding in rule(read)]


def codes(findings: list[Finding]) -> list[str]:
    return [each.code for each in findings]


@shows(environment.caches_are_each_hosts_own, naming="DISK002")
@shows(environment.no_debugging_in_every_run, naming="NCCL003")
@shows(environment.settings_are_read_by_something, naming="NCCL002")
@shows(environment.network_is_left_to_the_plugin, naming="NCCL001")
@pytest.mark.parametrize(
    ("text", "code", "severity"),
    [
        ('os.environ["NCCL_SOCKET_IFNAME"] = "eth0"', "NCCL001", Severity.WARNING),
        ('os.environ["NCCL_SOCKET_IFNAME"] = "lo"', "NCCL001", Severity.WARNING),
        ('os.environ["FI_PROVIDER"] = "tcp"', "NCCL001", Severity.WARNING),
        ('os.environ["NCCL_NET"] = "Socket"', "NCCL001", Severity.WARNING),
        ('os.environ["NCCL_IB_DISABLE"] = "1"', "NCCL001", Severity.WARNING),
        ('os.environ.setdefault("NCCL_ALGO", "Ring")', "NCCL001", Severity.WARNING),
        ('os.environ.update({"NCCL_P2P_DISABLE": "1"})', "NCCL001", Severity.WARNING),
        ('os.environ.update(NCCL_P2P_DISABLE="1")', "NCCL001", Severity.WARNING),
        ('os.environ |= {"NCCL_IB_HCA": "mlx5"}', "NCCL001", Severity.WARNING),
        ('os.putenv("NCCL_PROTO", "LL")', "NCCL001", Severity.WARNING),
        (
            'def setup():\n    os.environ["NCCL_PROTO"] = "LL"\nif __name__ == "__main__":\n    setup()',
            "NCCL001",
            Severity.WARNING,
        ),
        ('os.environ["NCCL_TREE_THRESHOLD"] = "0"', "NCCL002", Severity.WARNING),
        ('os.environ["NCCL_MIN_NRINGS"] = "4"', "NCCL002", Severity.WARNING),
        ('os.environ["NCCL_TIMEOUT"] = "3600"', "NCCL002", Severity.WARNING),
        ('from os import environ\nenviron["NCCL_MAX_NRINGS"] = "16"', "NCCL002", Severity.WARNING),
        ('env = os.environ\nenv["NCCL_SOCKET_TIMEOUT"] = "1"', "NCCL002", Severity.WARNING),
        ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"', "NCCL003", Severity.WARNING),
        ('os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"', "NCCL003", Severity.WARNING),
        ('os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "1")', "NCCL003", Severity.WARNING),
        ('os.environ["NCCL_DEBUG"] = "TRACE"', "NCCL003", Severity.WARNING),
        ('os.environ["NCCL_DEBUG"] = "INFO"', "NCCL003", Severity.INFO),
        ('os.environ["TRITON_CACHE_DIR"] = "/fsx/cache"', "DISK002", Severity.WARNING),
        ('os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/mnt/efs/cache"', "DISK002", Severity.WARNING),
        ('os.environ["TORCH_EXTENSIONS_DIR"] = "/mnt/fsx/ext"', "DISK002", Severity.WARNING),
        ('os.environ.setdefault("TRITON_CACHE_DIR", "/lustre/me")', "DISK002", Severity.WARNING),
        ('os.environ["HF_HOME"] = "/fsx/hf"', "DISK002", Severity.INFO),
    ],
)
def test_a_harmful_setting_is_found(program: ReadProgram, text: str, code: str, severity: Severity) -> None:
    (finding,) = judge(program, text)
    assert (finding.code, finding.severity) == (code, severity)


def test_variables_that_a_loop_sets_are_found_by_name(program: ReadProgram) -> None:
    text = """
settings = {"NCCL_DEBUG": "WARN", "NCCL_PROTO": "LL", "CUDA_LAUNCH_BLOCKING": "1"}
for name, value in settings.items():
    os.environ[name] = value
"""
    assert codes(judge(program, text)) == ["NCCL001", "NCCL003"]


@pytest.mark.parametrize(
    "text",
    [
        'import os\nos.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"\nimport torch\n',
        'import os, torch\nos.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"\n'
        "torch.multiprocessing.spawn(work, nprocs=2)\n",
    ],
)
def test_what_torch_reads_when_it_is_imported_is_found_before_that(program: ReadProgram, text: str) -> None:
    (finding,) = environment.no_debugging_in_every_run(program(text))
    assert (finding.code, finding.severity) == ("NCCL003", Severity.WARNING)


@leaves_alone(environment.caches_are_each_hosts_own, naming="HF_HOME")
@leaves_alone(environment.caches_are_each_hosts_own, naming="TRITON")
@leaves_alone(environment.no_debugging_in_every_run, naming='DEBUG"')
@leaves_alone(environment.no_debugging_in_every_run, naming="CUDA_LAUNCH_BLOCKING")
@leaves_alone(environment.network_is_left_to_the_plugin, naming="NCCL_")
@pytest.mark.parametrize(
    "text",
    [
        'os.environ["NCCL_DEBUG"] = "WARN"',
        'os.environ["NCCL_P2P_DISABLE"] = "0"',
        'if not has_p2p():\n    if os.getenv("NCCL_P2P_DISABLE") is None:\n'
        '        os.environ["NCCL_P2P_DISABLE"] = "1"',
        'os.environ["NCCL_IB_DISABLE"] = "0"',
        'os.environ["FI_PROVIDER"] = "efa"',
        'os.environ["FI_PROVIDER"] = "^tcp"',
        'os.environ["NCCL_SOCKET_IFNAME"] = "^lo,docker"',
        'os.environ["NCCL_PROTO"] = "simple"',
        'os.environ["MASTER_ADDR"] = "localhost"\nos.environ["NCCL_SOCKET_IFNAME"] = "lo"',
        'os.environ["NCCL_SOCKET_IFNAME"] = sys.argv[1]',
        # Whether it runs, nobody can tell.
        'if sys.argv[1] == "debug":\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        'def debug():\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"',
        'try:\n    import fast\nexcept ImportError:\n    os.environ["NCCL_P2P_DISABLE"] = "1"',
        # With EFA alone, or with a version of torch alone.
        'os.environ["NCCL_BUFFSIZE"] = "8388608"',
        'os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"',
        'os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"',
        # torch has read it.
        'os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"',
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "0"',
        'environment = {}\nenvironment["NCCL_PROTO"] = "LL"',
        'del os.environ["NCCL_PROTO"]',
        'os.environ["TRITON_CACHE_DIR"] = "/tmp/triton"',
        'os.environ["TRITON_CACHE_DIR"] = f"/fsx/triton/{os.uname().nodename}"',
        'os.environ["HF_HOME"] = "/opt/ml/input/data/models"',
        'os.environ["OUTPUT"] = "/fsx/out"',
    ],
)
def test_a_setting_that_harms_nothing_or_may_not_run_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []


@shows(environment.environment_holds_strings)
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('os.environ["GPU_NUM_DEVICES"] = 4', "int"),
        ('os.environ.update({"OMP_NUM_THREADS": 1})', "int"),
        ("os.environ.update(OMP_NUM_THREADS=1)", "int"),
        ('os.environ.setdefault("OMP_NUM_THREADS", 1)', "int"),
        ('os.environ |= {"OMP_NUM_THREADS": 1}', "int"),
        ('for k, v in {"OMP_NUM_THREADS": 1}.items():\n    os.environ[k] = v', "int"),
        ('os.environ["WORLD_SIZE"] = torch.cuda.device_count()', "int"),
        ('n = torch.cuda.device_count()\nos.environ["GPUS"] = n', "int"),
        ('n = int(os.environ["SM_NUM_GPUS"])\nos.environ["GPUS"] = n * 2', "int"),
        ('os.environ["TOKENIZERS_PARALLELISM"] = False', "bool"),
        ('os.environ["RATIO"] = 0.5', "float"),
        ('os.environ["NOTHING"] = None', "NoneType"),
        (
            "import torch.multiprocessing as mp\ndef work(rank, n):\n"
            '    os.environ["RANK"] = rank\nmp.spawn(work, args=(2,), nprocs=2)',
            "int",
        ),
        (
            'parser = argparse.ArgumentParser()\nparser.add_argument("--n-gpus", type=int, default=4)\n'
            'args = parser.parse_args()\nos.environ["GPU_NUM_DEVICES"] = args.n_gpus',
            "int",
        ),
    ],
)
def test_what_is_no_string_is_found(program: ReadProgram, text: str, kind: str) -> None:
    (finding,) = judge(program, text)
    assert finding.code == "CODE003"
    assert f"not {kind}" in finding.message


@leaves_alone(environment.environment_holds_strings)
@pytest.mark.parametrize(
    "text",
    [
        'os.environ["GPU_NUM_DEVICES"] = "4"',
        'os.environ["GPU_NUM_DEVICES"] = str(torch.cuda.device_count())',
        'os.environ["GPU_NUM_DEVICES"] = f"{torch.cuda.device_count()}"',
        'os.environ["GPU_NUM_DEVICES"] = os.environ["SM_NUM_GPUS"]',
        'for k, v in {"OMP_NUM_THREADS": 1}.items():\n    os.environ[k] = str(v)',
        'config = {}\nconfig["GPUS"] = 4',
        'def set_it(value):\n    os.environ["GPUS"] = value\nset_it("4")',
        'def set_it(value):\n    os.environ["GPUS"] = value\nset_it(read())',
        # AWS's second approach: the option is a string.
        "parser = argparse.ArgumentParser()\n"
        'parser.add_argument("--n_gpus", type=str, default=os.environ["SM_NUM_GPUS"])\n'
        'args, _ = parser.parse_known_args()\nos.environ["GPU_NUM_DEVICES"] = args.n_gpus',
        'parser = argparse.ArgumentParser()\nparser.add_argument("--gpus", default=4)\n'
        'args = parser.parse_args()\nos.environ["GPUS"] = args.gpus',
        'parser = argparse.ArgumentParser()\nparser.add_argument("--gpus", type=int, default=4)\n'
        'args = parser.parse_args()\nargs.gpus = str(args.gpus)\nos.environ["GPUS"] = args.gpus',
        'gpus = 4\nif len(sys.argv) > 1:\n    gpus = sys.argv[1]\nos.environ["GPUS"] = gpus',
        'str = repr\nos.environ["GPUS"] = "a" * 3',
    ],
)
def test_a_string_or_a_value_of_unknown_type_is_left_alone(program: ReadProgram, text: str) -> None:
    assert "CODE003" not in codes(judge(program, text))


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ('os.environ["N"] = 4  # devices', 'os.environ["N"] = str(4)  # devices'),
        ('os.environ.update({"N": 4, "M": "1"})', 'os.environ.update({"N": str(4), "M": "1"})'),
        ('os.environ.setdefault("N", 2 + 2)', 'os.environ.setdefault("N", str(2 + 2))'),
    ],
)
def test_the_fix_makes_a_string_of_the_value_and_the_finding_is_gone(
    program: ReadProgram, line: str, fixed: str
) -> None:
    read = program(f"import os\n{line}\n")
    (finding,) = environment.environment_holds_strings(read)
    assert finding.fix is not None
    assert finding.fix.safe
    text = edited(read.entry.text.encode(), finding.fix.edits).decode()
    assert text == f"import os\n{fixed}\n"
    assert list(environment.environment_holds_strings(program(text))) == []


def test_the_example_of_the_training_compiler_guide_is_found_at_its_line(program: ReadProgram) -> None:
    read = program('# train.py\n\nimport os\nos.environ["GPU_NUM_DEVICES"] = 4\n')
    (finding,) = environment.environment_holds_strings(read)
    assert finding.location is not None
    assert (finding.location.line, finding.location.column) == (4, 1)

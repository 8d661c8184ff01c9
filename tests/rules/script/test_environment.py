"""What a script sets and reads of its surroundings: variables, addresses, options."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import environment
from launcher.rules.script.findings import apply_edits
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]


def judge(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    read = program(f"import os, sys, argparse, torch\n{text}", **others)
    return [finding for rule in environment.ENVIRONMENT_RULES for finding in rule(read)]


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
    text = apply_edits(read.entry.text.encode(), finding.fix.edits).decode()
    assert text == f"import os\n{fixed}\n"
    assert list(environment.environment_holds_strings(program(text))) == []


def test_the_example_of_the_training_compiler_guide_is_found_at_its_line(program: ReadProgram) -> None:
    read = program('# train.py\n\nimport os\nos.environ["GPU_NUM_DEVICES"] = 4\n')
    (finding,) = environment.environment_holds_strings(read)
    assert finding.location is not None
    assert (finding.location.line, finding.location.column) == (4, 1)


__all___topology = ["program"]

START = "import os, sys, torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
GROUP = '\ndist.init_process_group("nccl")\n'


def judge_topology(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    read = program(START + text, **others)
    return [finding for rule in environment.TOPOLOGY_RULES for finding in rule(read)]


def told(findings: list[Finding]) -> list[tuple[str, Severity]]:
    return [(each.code, each.severity) for each in findings]


@shows(environment.address_is_the_launchers, naming="MASTER_ADDR")
@pytest.mark.parametrize(
    "text",
    [
        'os.environ["MASTER_ADDR"] = "localhost"' + GROUP,
        'os.environ["MASTER_ADDR"] = "127.0.0.1"' + GROUP,
        'os.environ.update({"MASTER_ADDR": "10.0.0.4"})' + GROUP,
        'def setup():\n    os.environ["MASTER_ADDR"] = "localhost"\nsetup()' + GROUP,
        'host = "10.1.2.3"\nos.environ["MASTER_ADDR"] = host' + GROUP,
        'dist.init_process_group("nccl", init_method="tcp://localhost:23456", rank=r, world_size=w)',
        'dist.init_process_group("nccl", "tcp://10.0.0.1:23456", rank=r, world_size=w)',
        'if sys.argv[1:]:\n    print()\n    sys.exit()\nos.environ["MASTER_ADDR"] = "localhost"' + GROUP,
        'if sys.argv[1:]:\n    os.environ["MASTER_ADDR"] = "localhost"\n    dist.init_process_group("nccl")',
        'def start():\n    if sys.argv[1:]:\n        return\n    os.environ["MASTER_ADDR"] = "localhost"\n'
        '    dist.init_process_group("nccl")\nstart()',
        'if dist.is_available():\n    os.environ["MASTER_ADDR"] = "localhost"' + GROUP,
        'dist.init_process_group("nccl", world_size=8, rank=int(os.environ["RANK"]))',
        'dist.init_process_group("nccl", world_size=torch.cuda.device_count(), rank=int(os.environ["RANK"]))',
        'if sys.argv[1:]:\n    dist.init_process_group("nccl", world_size=8)',
        'import subprocess\nsubprocess.Popen(["java", "-jar", jar])\n'
        'dist.init_process_group("nccl", world_size=8)',
        'import subprocess\ncommand = ["/usr/bin/git", "log"]\nsubprocess.Popen(command)\n'
        'dist.init_process_group("nccl", world_size=8)',
        'def start():\n    dist.init_process_group("nccl", world_size=8)\nif sys.argv[1:]:\n    start()',
        'os.environ["WORLD_SIZE"] = "8"' + GROUP,
        GROUP + "from torch.utils.data.distributed import DistributedSampler\n"
        "s = DistributedSampler(data, num_replicas=4, rank=dist.get_rank())",
    ],
)
def test_an_address_or_a_size_in_the_script_is_found(program: ReadProgram, text: str) -> None:
    assert told(judge_topology(program, text)) == [("DIST006", Severity.ERROR)]


@shows(environment.world_size_is_the_launchers, naming="world_size")
@pytest.mark.parametrize("method", ["", ', init_method="env://"'])
def test_a_size_under_a_test_is_a_warning_where_the_launcher_numbers_the_ranks(
    program: ReadProgram, method: str
) -> None:
    text = f'if sys.argv[1:]:\n    dist.init_process_group("nccl", world_size=2{method})\n'

    found = judge_topology(program, text + 'else:\n    dist.init_process_group("gloo")')

    assert told(found) == [("DIST006", Severity.WARNING)]


@leaves_alone(environment.world_size_is_the_launchers, naming="world_size")
@leaves_alone(environment.address_is_the_launchers, naming="MASTER_ADDR")
@pytest.mark.parametrize(
    "text",
    [
        'os.environ.setdefault("MASTER_ADDR", "localhost")' + GROUP,
        'os.environ["MASTER_ADDR"] = "localhost"\nif "SLURM_NTASKS" in os.environ:\n'
        '    os.environ["MASTER_ADDR"] = os.environ["HOSTNAME"]' + GROUP,
        'if "MASTER_ADDR" not in os.environ:\n    os.environ["MASTER_ADDR"] = "localhost"' + GROUP,
        'if os.environ.get("RANK") is None:\n    os.environ["MASTER_ADDR"] = "localhost"' + GROUP,
        'os.environ["MASTER_ADDR"] = os.environ.get("MASTER_ADDR", "localhost")' + GROUP,
        'os.environ["MASTER_ADDR"] = sys.argv[1]' + GROUP,
        'if "RANK" in os.environ:\n    pass\nelse:\n    os.environ["MASTER_ADDR"] = "localhost"' + GROUP,
        'if sys.argv[1:]:\n    os.environ["MASTER_ADDR"] = "localhost"' + GROUP,
        # One process alone.
        'os.environ["MASTER_ADDR"] = "localhost"\ndist.init_process_group("gloo", rank=0, world_size=1)',
        'os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29500", RANK="0", WORLD_SIZE="1")' + GROUP,
        'os.environ["MASTER_ADDR"] = "localhost"',
        'if "RANK" in os.environ:\n    dist.init_process_group("nccl")\nelse:\n'
        '    os.environ["MASTER_ADDR"] = "localhost"\n'
        '    dist.init_process_group("gloo", rank=0, world_size=1)',
        'def unused():\n    os.environ["MASTER_ADDR"] = "localhost"' + GROUP,
        'def setup():\n    if "RANK" in os.environ:\n        return\n'
        '    os.environ["MASTER_ADDR"] = "localhost"\nsetup()' + GROUP,
        'dist.init_process_group("nccl", init_method="env://")',
        'dist.init_process_group("nccl", init_method=f"tcp://{host}:{port}", rank=r, world_size=w)',
        'dist.init_process_group("nccl", world_size=int(os.environ["WORLD_SIZE"]), rank=r)',
        'dist.init_process_group("nccl", world_size=w, rank=r)',
        'import subprocess\nsubprocess.Popen([sys.executable, "work.py"])\n'
        'dist.init_process_group("nccl", world_size=8)',
        # Which of two calls runs nobody can tell, nor where its ranks come from; nor who calls a function.
        'if sys.argv[1:]:\n    dist.init_process_group("nccl", world_size=2, rank=r)\nelse:\n'
        '    dist.init_process_group("nccl")',
        'if sys.argv[1:]:\n    dist.init_process_group("nccl", sys.argv[1], world_size=2)\nelse:\n'
        '    dist.init_process_group("nccl")',
        'def unused():\n    dist.init_process_group("nccl", world_size=8)',
        "from torch.utils.data.distributed import DistributedSampler\n"
        "s = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=dist.get_rank())" + GROUP,
    ],
)
def test_what_the_launcher_says_stays(program: ReadProgram, text: str) -> None:
    assert judge_topology(program, text) == []


@shows(environment.port_is_the_launchers)
@pytest.mark.parametrize(
    "text",
    [
        'os.environ["MASTER_PORT"] = "12355"' + GROUP,
        'os.environ["MASTER_PORT"] = str(29500)' + GROUP,
        'PORT = 29500\nos.environ.update({"MASTER_PORT": str(PORT)})' + GROUP,
        'from os import environ\nenviron["MASTER_PORT"] = "12355"' + GROUP,
        'def main():\n    os.environ["MASTER_PORT"] = "12355"\n    dist.init_process_group("nccl")\n'
        'if __name__ == "__main__":\n    main()',
    ],
)
def test_a_port_in_the_script_is_found(program: ReadProgram, text: str) -> None:
    assert told(judge_topology(program, text)) == [("NCCL009", Severity.ERROR)]


@leaves_alone(environment.port_is_the_launchers)
@pytest.mark.parametrize(
    "text",
    [
        'os.environ.setdefault("MASTER_PORT", "12355")' + GROUP,
        'os.environ["MASTER_PORT"] = sys.argv[1]' + GROUP,
        'os.environ["MASTER_PORT"] = str(find_free_port())' + GROUP,
        'if not os.getenv("MASTER_PORT"):\n    os.environ["MASTER_PORT"] = "12355"' + GROUP,
        'os.environ["MASTER_PORT"] = os.getenv("MASTER_PORT", "29500")' + GROUP,
        'rank = int(os.environ["SLURM_PROCID"])\nos.environ["MASTER_PORT"] = "29500"\n'
        'dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))',
        'from mpi4py import MPI\nos.environ["MASTER_PORT"] = "29500"' + GROUP,
        'os.environ["MASTER_PORT"] = "12355"',
        'os.environ["PORT"] = "12355"' + GROUP,
    ],
)
def test_a_port_that_is_asked_for_or_needed_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge_topology(program, text) == []


def test_in_a_program_that_spawns_its_processes_they_are_informations(program: ReadProgram) -> None:
    text = """
def work(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
world_size = torch.cuda.device_count()
mp.spawn(work, args=(world_size,), nprocs=world_size)
"""
    assert told(judge_topology(program, text)) == [("DIST006", Severity.INFO), ("NCCL009", Severity.INFO)]


@shows(environment.rank_is_the_global_one)
@pytest.mark.parametrize(
    "text",
    [
        'dist.init_process_group("nccl", rank=int(os.environ["LOCAL_RANK"]), world_size=w)',
        'local_rank = int(os.environ["LOCAL_RANK"])\ndist.init_process_group("nccl", rank=local_rank)',
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--local_rank', type=int)\n"
        'args = p.parse_args()\ndist.init_process_group("nccl", rank=args.local_rank)',
        'dist.init_process_group("nccl", "env://", None, w, int(os.environ["LOCAL_RANK"]))',
        'os.environ["RANK"] = os.environ["LOCAL_RANK"]' + GROUP,
        'def setup(r):\n    dist.init_process_group("nccl", rank=r)\nsetup(int(os.environ["LOCAL_RANK"]))',
    ],
)
def test_the_local_rank_as_the_rank_is_found(program: ReadProgram, text: str) -> None:
    assert told(judge_topology(program, text)) == [("DIST007", Severity.ERROR)]


def test_the_local_rank_is_informational_where_one_host_is_all(program: ReadProgram) -> None:
    text = (
        "import subprocess\nif again:\n"
        "    subprocess.Popen([sys.executable, '-m', 'torch.distributed.launch'])\n"
        'dist.init_process_group("nccl", rank=int(os.environ["LOCAL_RANK"]), world_size=w)'
    )
    assert told(judge_topology(program, text)) == [("DIST007", Severity.INFO)]


@leaves_alone(environment.rank_is_the_global_one)
@pytest.mark.parametrize(
    "text",
    [
        'dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=w)',
        'dist.init_process_group("nccl", rank=rank, world_size=w)',
        'def work(rank, n):\n    dist.init_process_group("nccl", rank=rank, world_size=n)\n'
        "mp.spawn(work, args=(2,), nprocs=2)",
        'def work(gpu, node, n):\n    dist.init_process_group("nccl", rank=node * n + gpu, world_size=w)\n'
        "mp.spawn(work, args=(node, 8), nprocs=8)",
        'local_rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(local_rank)' + GROUP,
        'rank = int(os.environ["NODE_RANK"]) * 8 + int(os.environ["LOCAL_RANK"])\n'
        'dist.init_process_group("nccl", rank=rank, world_size=w)',
        'os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]' + GROUP,
        'os.environ.setdefault("RANK", os.environ["LOCAL_RANK"])' + GROUP,
        "from torch.utils.data import DistributedSampler\ns = DistributedSampler(data, 8, dist.get_rank())",
        # Lightning asks the launcher itself.
        'import pytorch_lightning\nos.environ["RANK"] = os.environ["SLURM_LOCALID"]',
        # That is DATA003.
        GROUP + "from torch.utils.data import DistributedSampler\n"
        's = DistributedSampler(data, dist.get_world_size(), int(os.environ["LOCAL_RANK"]))',
    ],
)
def test_another_rank_is_left_alone(program: ReadProgram, text: str) -> None:
    assert "DIST007" not in [each.code for each in judge_topology(program, text)]


__all___options = ["program"]

PARSER = "import argparse\nparser = argparse.ArgumentParser()\n"


def judge_options(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    return [finding for rule in environment.OPTION_RULES for finding in rule(program(text, **others))]


@shows(environment.switches_can_be_switched_off)
@pytest.mark.parametrize(
    "text",
    [
        PARSER + 'parser.add_argument("--amp", type=bool, default=True)',
        PARSER + 'parser.add_argument("--amp", "-a", type=bool)',
        PARSER + 'group = parser.add_argument_group("g")\ngroup.add_argument("--amp", type=bool)',
        PARSER + 'parser.add_argument("--amp", nargs="?", const=True, type=bool)',
        "import argparse\ndef options(parser):\n    parser.add_argument('--amp', type=bool)",
        "from argparse import ArgumentParser\np = ArgumentParser()\np.add_argument('--amp', type=bool)",
        "import configargparse\np = configargparse.ArgumentParser()\np.add_argument('--amp', type=bool)",
        "try:\n    import configargparse as c\nexcept ImportError:\n    import argparse as c\n"
        "p = c.ArgumentParser()\np.add_argument('--amp', type=bool)",
        "import argparse\ntry:\n    import configargparse\n    p = configargparse.ArgumentParser()\n"
        "except ImportError:\n    p = argparse.ArgumentParser()\np.add_argument('--amp', type=bool)",
        PARSER + 'sub = parser.add_subparsers().add_parser("x")\nsub.add_argument("--amp", type=bool)',
    ],
)
def test_type_bool_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge_options(program, text)
    assert (finding.code, finding.severity) == ("CODE002", Severity.WARNING)
    assert "`--amp False` switches it on" in finding.message


@leaves_alone(environment.switches_can_be_switched_off)
@pytest.mark.parametrize(
    "text",
    [
        PARSER + 'parser.add_argument("--amp", action="store_true")',
        PARSER + 'parser.add_argument("--amp", action=argparse.BooleanOptionalAction)',
        PARSER + 'parser.add_argument("--amp", type=bool, action=argparse.BooleanOptionalAction)',
        PARSER + 'parser.add_argument("--amp", type=bool, action=OnOrOff)',
        PARSER + 'parser.add_argument("--amp", type=lambda text: text == "true")',
        PARSER + 'from distutils.util import strtobool as bool\nparser.add_argument("--amp", type=bool)',
        PARSER + 'def bool(text):\n    return text == "true"\nparser.add_argument("--amp", type=bool)',
        PARSER + 'parser.add_argument("--epochs", type=int)',
        "from jsonargparse import ArgumentParser\np = ArgumentParser()\np.add_argument('--amp', type=bool)",
        "import argparse, mine\np = argparse.ArgumentParser() if x else mine.lib.Parser()\n"
        "p.add_argument('--amp', type=bool)",
        "import click\n@click.option('--amp', type=bool)\ndef main(amp): ...",
        "import mine\np = mine.Parser()\np.add_argument('--amp', type=bool)",
        "from lightning.pytorch.cli import LightningArgumentParser\n"
        "p = LightningArgumentParser()\np.add_argument('--amp', type=bool)",
    ],
)
def test_what_can_be_switched_off_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge_options(program, text) == []


def test_the_fix_gives_the_option_an_opposite(program: ReadProgram) -> None:
    read = program(PARSER + 'parser.add_argument("--amp", type=bool, default=True)  # mixed\n')
    (finding,) = environment.switches_can_be_switched_off(read)
    assert finding.fix is not None
    text = apply_edits(read.entry.text.encode(), finding.fix.edits).decode()
    assert text.endswith(
        'parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)  # mixed\n'
    )
    assert judge_options(program, text) == []


@pytest.mark.parametrize(
    "rest", ["", ", default=None", ', default=True, nargs="?"', ", default=True, **more"]
)
def test_an_option_that_would_then_be_another_is_not_fixed(program: ReadProgram, rest: str) -> None:
    (finding,) = judge_options(program, PARSER + f'parser.add_argument("--amp", type=bool{rest})')
    assert finding.fix is None

"""Addresses, ports, sizes and ranks that a script fixes instead of asking the launcher."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import topology
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = "import os, sys, torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
GROUP = '\ndist.init_process_group("nccl")\n'


def judge(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    read = program(START + text, **others)
    return [finding for rule in topology.RULES for finding in rule(read)]


def told(findings: list[Finding]) -> list[tuple[str, Severity]]:
    return [(each.code, each.severity) for each in findings]


@shows(topology.address_is_the_launchers, naming="MASTER_ADDR")
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
    assert told(judge(program, text)) == [("DIST006", Severity.ERROR)]


@shows(topology.world_size_is_the_launchers, naming="world_size")
@pytest.mark.parametrize("method", ["", ', init_method="env://"'])
def test_a_size_under_a_test_is_a_warning_where_the_launcher_numbers_the_ranks(
    program: ReadProgram, method: str
) -> None:
    text = f'if sys.argv[1:]:\n    dist.init_process_group("nccl", world_size=2{method})\n'

    found = judge(program, text + 'else:\n    dist.init_process_group("gloo")')

    assert told(found) == [("DIST006", Severity.WARNING)]


@leaves_alone(topology.world_size_is_the_launchers, naming="world_size")
@leaves_alone(topology.address_is_the_launchers, naming="MASTER_ADDR")
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
    assert judge(program, text) == []


@shows(topology.port_is_the_launchers)
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
    assert told(judge(program, text)) == [("NCCL009", Severity.ERROR)]


@leaves_alone(topology.port_is_the_launchers)
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
    assert judge(program, text) == []


def test_in_a_program_that_spawns_its_processes_they_are_informations(program: ReadProgram) -> None:
    text = """
def work(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
world_size = torch.cuda.device_count()
mp.spawn(work, args=(world_size,), nprocs=world_size)
"""
    assert told(judge(program, text)) == [("DIST006", Severity.INFO), ("NCCL009", Severity.INFO)]


@shows(topology.rank_is_the_global_one)
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
    assert told(judge(program, text)) == [("DIST007", Severity.ERROR)]


def test_the_local_rank_is_informational_where_one_host_is_all(program: ReadProgram) -> None:
    text = (
        "import subprocess\nif again:\n"
        "    subprocess.Popen([sys.executable, '-m', 'torch.distributed.launch'])\n"
        'dist.init_process_group("nccl", rank=int(os.environ["LOCAL_RANK"]), world_size=w)'
    )
    assert told(judge(program, text)) == [("DIST007", Severity.INFO)]


@leaves_alone(topology.rank_is_the_global_one)
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
    assert "DIST007" not in [each.code for each in judge(program, text)]

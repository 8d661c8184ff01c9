"""One rank downloads, while the others wait: DATA009."""

from __future__ import annotations

import pytest

from launcher.rules.script.downloads import one_rank_downloads
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import os, tarfile, tempfile, urllib.request, zipfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torchvision import datasets
local_rank = int(os.environ["LOCAL_RANK"])
"""
ARGS = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
GROUP = 'dist.init_process_group("nccl")\n'


def told(program: ReadProgram, text: str) -> list[tuple[str, str]]:
    return [(each.code, each.subject or "") for each in one_rank_downloads(program(START + text))]


@shows(one_rank_downloads)
@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ('data = datasets.MNIST("data", download=True)', 'datasets.MNIST("data", download=True)'),
        (
            'def main():\n    data = datasets.CIFAR10(root="data", train=True, download=True)\n'
            'if __name__ == "__main__":\n    main()',
            'datasets.CIFAR10(root="data", train=True, download=True)',
        ),
        (
            'if not os.path.exists("a.tar"):\n    urllib.request.urlretrieve(url, "a.tar")',
            'urllib.request.urlretrieve(url, "a.tar")',
        ),
        (
            'with tarfile.open("a.tar") as archive:\n    archive.extractall("data")',
            'archive.extractall("data")',
        ),
        (
            'def unpack(path): zipfile.ZipFile(path).extractall("data")\ndef main(): unpack("a.zip")\nmain()',
            'zipfile.ZipFile(path).extractall("data")',
        ),
        (
            ARGS + 'if args.data == "cifar":\n    datasets.CIFAR10("data", download=True)',
            'datasets.CIFAR10("data", download=True)',
        ),
        (
            ARGS + 'def build(args):\n    if args.data == "cifar" or args.data in ("c", "d"):\n'
            '        return datasets.CIFAR10("data", download=True)\n'
            '    elif args.data == "mnist":\n        return datasets.MNIST("data")\nbuild(args)',
            'datasets.CIFAR10("data", download=True)',
        ),
    ],
)
def test_a_download_of_every_rank_is_found(program: ReadProgram, text: str, subject: str) -> None:
    assert told(program, GROUP + text) == [("DATA009", subject)]


SPAWNED = """
def worker(rank):
    dist.init_process_group("nccl", rank=rank)
    {}
def main():
    {}
    mp.spawn(worker, nprocs=8)
main()
"""


def test_a_download_of_spawned_processes_is_found(program: ReadProgram) -> None:
    text = SPAWNED.format('datasets.MNIST("data", download=True)', "pass")
    assert told(program, text) == [("DATA009", 'datasets.MNIST("data", download=True)')]


def test_a_tool_that_is_started_makes_no_parent_of_the_script(program: ReadProgram) -> None:
    text = 'import subprocess\nsubprocess.Popen(["kalign"])\ndatasets.MNIST("data", download=True)'
    assert told(program, "dist.init_process_group()\n" + text) == [
        ("DATA009", 'datasets.MNIST("data", download=True)')
    ]


def test_what_the_parent_downloads_before_it_spawns_is_fine(program: ReadProgram) -> None:
    text = SPAWNED.format("pass", 'datasets.MNIST("data", download=True)')
    assert told(program, text) == []
    started = "for rank in range(8):\n        multiprocessing.Process(target=worker, args=(rank,)).start()"
    text = text.replace("mp.spawn(worker, nprocs=8)", started)
    assert told(program, "import multiprocessing\n" + text) == []


@leaves_alone(one_rank_downloads)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            'if local_rank == 0:\n    datasets.MNIST("data", download=True)\ndist.barrier()\n'
            'data = datasets.MNIST("data")',
            id="one rank of each host",
        ),
        pytest.param(
            'if local_rank == 0:\n    datasets.MNIST("data", download=True)\ndist.barrier()\n'
            'data = datasets.MNIST("data", download=True)',
            id="one rank first, the others find it there",
        ),
        pytest.param(
            'def prepare():\n    if local_rank == 0:\n        datasets.MNIST("data", download=True)\n'
            '    dist.barrier()\nprepare()\ndata = datasets.MNIST("data", download=True)',
            id="one rank first, in a function of its own",
        ),
        pytest.param(
            'if local_rank != 0:\n    dist.barrier()\ndata = datasets.MNIST("data", download=True)\n'
            "if local_rank == 0:\n    dist.barrier()",
            id="the others wait",
        ),
        pytest.param(
            'with first(local_rank):\n    data = datasets.MNIST("data", download=True)', id="in a context"
        ),
        pytest.param('datasets.MNIST(f"data-{local_rank}", download=True)', id="a folder for each rank"),
        pytest.param(
            'folder = os.path.join("data", str(local_rank))\ndatasets.MNIST(folder, download=True)',
            id="a folder for each rank, by name",
        ),
        pytest.param("datasets.MNIST(tempfile.mkdtemp(), download=True)", id="a temporary folder"),
        pytest.param('datasets.MNIST("data", download=args.download)', id="unknown whether"),
        pytest.param('datasets.MNIST("data", download=False)', id="off"),
        pytest.param('if args.prepare:\n    datasets.MNIST("data", download=True)', id="where asked for"),
        pytest.param(
            ARGS + 'if args.prepare:\n    datasets.MNIST("data", download=True)',
            id="where an option asks for it",
        ),
        pytest.param('if mode == "prepare":\n    datasets.MNIST("data", download=True)', id="in a mode"),
        pytest.param(
            ARGS + 'args.mode = "a" if local_rank else "b"\n'
            'if args.mode == "b":\n    datasets.MNIST("data", download=True)',
            id="in the mode of one rank",
        ),
        pytest.param('def prepare():\n    datasets.MNIST("data", download=True)', id="never called"),
        pytest.param(
            '@rank_zero_only\ndef prepare():\n    datasets.MNIST("data", download=True)\nprepare()',
            id="under a decorator",
        ),
        pytest.param(
            "def prepare():\n    if local_rank > 0:\n        return\n"
            '    datasets.MNIST("data", download=True)\nprepare()',
            id="after the others have left",
        ),
    ],
)
def test_a_download_that_may_be_one_ranks_is_fine(program: ReadProgram, text: str) -> None:
    assert told(program, GROUP + text) == []


def test_without_a_process_group_there_is_one_rank(program: ReadProgram) -> None:
    assert told(program, 'datasets.MNIST("data", download=True)') == []

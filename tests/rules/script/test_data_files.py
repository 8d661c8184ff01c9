"""The files of the data: their order, who downloads them, and the channels they come by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.failure_modes.model import Severity
from launcher.rules.script.data_files import channels_are_there, listings_are_sorted, one_rank_downloads
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows
from tests.rules.script.judging_jobs import subject_of

__all__ = ["program"]

START = """
import glob, os, random
from itertools import islice
from pathlib import Path
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset
rank, world_size = dist.get_rank(), dist.get_world_size()
"""


def told(program: ReadProgram, text: str) -> list[tuple[str, str]]:
    return [(each.code, each.subject or "") for each in listings_are_sorted(program(START + text))]


@shows(listings_are_sorted)
@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("read(glob.glob('*.tar')[rank::world_size])", "glob.glob('*.tar')"),
        ("files = os.listdir(folder)\nmine = files[rank::world_size]", "os.listdir(folder)"),
        ("files = [f for f in os.listdir('d') if f.endswith('.gz')]\nx = files[rank::8]", "os.listdir('d')"),
        (
            "files = list(Path('data').glob('*.npy'))\nrandom.Random(0).shuffle(files)\n"
            "n = len(files) // world_size\nmine = files[rank * n : (rank + 1) * n]",
            "Path('data').glob('*.npy')",
        ),
        ("for f in islice(glob.iglob('*'), rank, None, world_size): read(f)", "glob.iglob('*')"),
        (
            "def mine(files): return files[rank::world_size]\nread(mine(glob.glob('*')))",
            "glob.glob('*')",
        ),
        (
            "class Shards(IterableDataset):\n"
            "    def __init__(self):\n        self.files = []\n"
            "        for name in os.listdir('d'):\n            self.files.append(name)\n"
            "    def __iter__(self): yield from self.files[rank::world_size]",
            "os.listdir('d')",
        ),
        (
            "files = []\nfor root, _, names in os.walk('d'):\n    for name in names:\n"
            "        files.append(os.path.join(root, name))\nmine = files[rank::world_size]",
            "os.walk('d')",
        ),
        (
            "files = []\nfor root, _, names in os.walk('d'):\n    files.extend(names)\nx = files[rank::8]",
            "os.walk('d')",
        ),
        ("files = list(set(glob.glob('*')))\nmine = files[rank::world_size]", "glob.glob('*')"),
        (
            "files = list({*os.listdir('d')})\nnames = set(os.listdir('e'))\nx = list(names)[rank::8]",
            "os.listdir('e')",
        ),
        ("mine = [p for p in Path('d').rglob('*') if p.is_file()][rank::8]", "Path('d').rglob('*')"),
        ("files = list(map(str, Path('d').iterdir()))\nmine = files[rank::8]", "Path('d').iterdir()"),
    ],
)
def test_an_unsorted_list_that_is_cut_by_rank_is_found(program: ReadProgram, text: str, subject: str) -> None:
    assert told(program, text) == [("DATA002", subject)]


IMAGES = """
class Images(Dataset):
    def __init__(self, folder):
        self.folder = folder
        {}
    def __len__(self): return len(self.files)
    def __getitem__(self, index):
        return load(self.files[index])
images = Images("/opt/ml/input/data/train")
"""
SAMPLER = "loader = DataLoader(images, sampler=DistributedSampler(images))"


@pytest.mark.parametrize(
    "body",
    [
        "self.files = os.listdir(folder)",
        "self.files = [os.path.join(folder, name) for name in os.listdir(folder)]",
        "files = glob.glob(folder + '/*.jpg'); self.files = files",
        "self.files = list(Path(folder).rglob('*.png'))",
        "self.files = [each for each in Path(folder).iterdir() if each.is_file()]",
    ],
)
def test_an_unsorted_list_of_a_dataset_is_found(program: ReadProgram, body: str) -> None:
    assert [code for code, _ in told(program, IMAGES.format(body) + SAMPLER)] == ["DATA002"]


@pytest.mark.parametrize(
    ("sampled", "severity"), [("images", Severity.ERROR), ("others", Severity.INFO), ("any()", Severity.INFO)]
)
def test_only_the_dataset_of_a_sampler_is_sure_to_be_cut(
    program: ReadProgram, sampled: str, severity: Severity
) -> None:
    text = START + IMAGES.format("self.files = os.listdir(folder)") + "class Others(Dataset): pass\n"
    text += f"others = Others()\nloader = DataLoader(images, sampler=DistributedSampler({sampled}))"
    assert [each.severity for each in listings_are_sorted(program(text))] == [severity]


@pytest.mark.parametrize(
    "text", ["mine = glob.glob('*')[rank::8]", IMAGES.format("self.files = os.listdir(folder)") + SAMPLER]
)
def test_one_host_lists_a_folder_alike_for_all_that_it_spawns(program: ReadProgram, text: str) -> None:
    spawned = START + "import torch.multiprocessing as mp\nmp.spawn(main, nprocs=8)\n"
    assert [each.severity for each in listings_are_sorted(program(spawned + text))] == [Severity.INFO]


def test_a_list_that_a_dataset_is_given_is_found_where_it_is_made(program: ReadProgram) -> None:
    given = IMAGES.format("self.files = folder").replace('"/opt/ml/input/data/train"', "glob.glob('*.jpg')")
    assert told(program, given + SAMPLER) == [("DATA002", "glob.glob('*.jpg')")]


@pytest.mark.parametrize(
    "body",
    [
        "self.files = sorted(os.listdir(folder))",
        "self.files = os.listdir(folder); self.files.sort()",
        "files = os.listdir(folder); self.files = sorted(files)",
        "self.files = sorted([os.path.join(folder, name) for name in os.listdir(folder)])",
        "self.files = [name for name in sorted(glob.glob(folder))]",
        "self.files = read_list(folder); self.count = len(os.listdir(folder))",
        "self.files = order(os.listdir(folder))",
        "self.names = set(os.listdir(folder)); self.files = read_list(folder)",
    ],
)
def test_a_sorted_list_of_a_dataset_is_fine(program: ReadProgram, body: str) -> None:
    assert told(program, IMAGES.format(body) + SAMPLER) == []


def test_in_one_process_the_order_is_its_own(program: ReadProgram) -> None:
    text = IMAGES.format("self.files = os.listdir(folder)") + "loader = DataLoader(images, shuffle=True)"
    assert told(program, text) == []


@leaves_alone(listings_are_sorted)
@pytest.mark.parametrize(
    "text",
    [
        "files = sorted(glob.glob('*'))\nmine = files[rank::world_size]",
        "files = glob.glob('*')\nfiles.sort()\nmine = files[rank::world_size]",
        "files = glob.glob('*')\nfiles = sorted(files)\nmine = files[rank::world_size]",
        "for name in os.listdir('old'): os.remove(name)",
        "newest = max(glob.glob('checkpoint-*'), key=os.path.getmtime)",
        "checkpoints = glob.glob('*.pt')\nlast = max(checkpoints, key=os.path.getmtime)",
        "first = os.listdir('d')[0]",
        "print(len(os.listdir('d')))",
        "files = unknown()\nmine = files[rank::world_size]",
        "names = os.listdir('d')\nprint(len(names))\nnames = sorted(wanted)\nmine = names[rank::world_size]",
        "files = []\nfor root, dirs, names in os.walk('d'):\n    dirs.sort()\n"
        "    for name in sorted(names):\n"
        "        files.append(name)\nmine = files[rank::8]",
        "files = []\nfor root, _, names in os.walk('d'):\n    files.extend(names)\n"
        "files.sort()\nx = files[rank::8]",
        "count = []\nfor root, _, names in os.walk('d'):\n    count.append(len(names))\nprint(sum(count))",
        "for root, _, names in os.walk('old'):\n    for name in names: os.remove(name)",
        "walked = list(os.walk('d'))\nmine = sorted(walked)[rank::8]",
        "files = sorted(set(glob.glob('*')))\nmine = files[rank::8]",
        "files = list(set(glob.glob('*')))\nfiles.sort()\nmine = files[rank::8]",
        "names = set(os.listdir('d'))\nmine = [each for each in wanted[rank::8] if each in names]",
        "if 'done' in set(os.listdir('d')): print(1)",
        "files = glob.glob('*')\nfirst_ten = files[:10]",
        "lines = open('files.txt').readlines()\nmine = lines[rank::world_size]",
    ],
)
def test_where_the_order_decides_nothing_or_is_made_it_is_fine(program: ReadProgram, text: str) -> None:
    assert told(program, text) == []


def test_no_fix_is_offered_where_sorting_the_listing_is_not_enough(program: ReadProgram) -> None:
    walked = "files = []\nfor _, _, names in os.walk('d'):\n    files.extend(names)\nx = files[rank::8]"
    for text in ("x = list(set(glob.glob('*')))[rank::8]", walked):
        (finding,) = listings_are_sorted(program(START + text))
        assert finding.fix is None


__all___downloads = ["program"]

START_downloads = """
import os, tarfile, tempfile, urllib.request, zipfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torchvision import datasets
local_rank = int(os.environ["LOCAL_RANK"])
"""
ARGS = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"
GROUP = 'dist.init_process_group("nccl")\n'


def told_downloads(program: ReadProgram, text: str) -> list[tuple[str, str]]:
    return [(each.code, each.subject or "") for each in one_rank_downloads(program(START_downloads + text))]


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
    assert told_downloads(program, GROUP + text) == [("DATA009", subject)]


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
    assert told_downloads(program, text) == [("DATA009", 'datasets.MNIST("data", download=True)')]


def test_a_tool_that_is_started_makes_no_parent_of_the_script(program: ReadProgram) -> None:
    text = 'import subprocess\nsubprocess.Popen(["kalign"])\ndatasets.MNIST("data", download=True)'
    assert told_downloads(program, "dist.init_process_group()\n" + text) == [
        ("DATA009", 'datasets.MNIST("data", download=True)')
    ]


def test_what_the_parent_downloads_before_it_spawns_is_fine(program: ReadProgram) -> None:
    text = SPAWNED.format("pass", 'datasets.MNIST("data", download=True)')
    assert told_downloads(program, text) == []
    started = "for rank in range(8):\n        multiprocessing.Process(target=worker, args=(rank,)).start()"
    text = text.replace("mp.spawn(worker, nprocs=8)", started)
    assert told_downloads(program, "import multiprocessing\n" + text) == []


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
    assert told_downloads(program, GROUP + text) == []


def test_without_a_process_group_there_is_one_rank(program: ReadProgram) -> None:
    assert told_downloads(program, 'datasets.MNIST("data", download=True)') == []


TRAIN = {"train": {"s3_uri": "s3://bucket/train"}}
BOTH = {**TRAIN, "val": {"s3_uri": "s3://bucket/val"}}
START_channels = "import argparse, os\nparser = argparse.ArgumentParser()\n"


def told_channels(
    write_job: Callable[..., Path], script: str, **fields: object
) -> list[tuple[str, str, Severity]]:
    found = channels_are_there(subject_of(write_job, START_channels + script, **{"inputs": TRAIN, **fields}))
    return [(each.code, each.subject or "", each.severity) for each in found]


@shows(channels_are_there)
@pytest.mark.parametrize(
    ("script", "subject"),
    [
        ('data = os.environ["SM_CHANNEL_TRAINING"]', 'os.environ["SM_CHANNEL_TRAINING"]'),
        (
            'parser.add_argument("--data", default=os.environ["SM_CHANNEL_DATA"])',
            'os.environ["SM_CHANNEL_DATA"]',
        ),
        ('def main():\n    read(os.environ["SM_CHANNEL_TEST"])', 'os.environ["SM_CHANNEL_TEST"]'),
        (
            'if __name__ == "__main__":\n    read(os.environ["SM_CHANNEL_TEST"])',
            'os.environ["SM_CHANNEL_TEST"]',
        ),
    ],
)
def test_a_variable_of_a_channel_that_is_not_there_is_an_error(
    write_job: Callable[..., Path], script: str, subject: str
) -> None:
    assert told_channels(write_job, script, inputs={}) == [("DATA007", subject, Severity.ERROR)]


@shows(channels_are_there)
@pytest.mark.parametrize(
    "script",
    ['data = "/opt/ml/input/data/training"', 'open("/opt/ml/input/data/training/a.txt")'],
)
def test_a_path_of_a_channel_that_is_not_there_is_a_warning(
    write_job: Callable[..., Path], script: str
) -> None:
    assert [(code, severity) for code, _, severity in told_channels(write_job, script)] == [
        ("DATA007", Severity.WARNING),
    ]


@leaves_alone(channels_are_there)
@pytest.mark.parametrize(
    "script",
    [
        'data = os.environ["SM_CHANNEL_TRAIN"]',
        'data = os.environ.get("SM_CHANNEL_VAL", "data")\nprint("train")',
        'if "SM_CHANNEL_VAL" in os.environ:\n    val = os.environ["SM_CHANNEL_VAL"]\nprint("train")',
        'try:\n    val = os.environ["SM_CHANNEL_VAL"]\nexcept KeyError:\n    val = "train"',
        'os.environ["SM_CHANNEL_VAL"] = "/tmp/train"',
        'data = "/opt/ml/input/data/train/images"',
        'if os.path.exists("/opt/ml/input/data/val"):\n    print("train")',
        'resume = "/opt/ml/input/data/checkpoints/last.pt"\nprint("train")',
        "print('nothing of channels')",
        'data = os.environ["SM_CHANNEL_" + name]',
        '"""Reads /opt/ml/input/data/other in the container."""\nprint("train")',
    ],
)
def test_channels_that_are_there_or_may_be_are_fine(write_job: Callable[..., Path], script: str) -> None:
    assert told_channels(write_job, script) == []


def test_a_default_that_the_job_replaces_is_fine(write_job: Callable[..., Path]) -> None:
    script = 'parser.add_argument("--data-dir", default="/opt/ml/input/data/other")'
    assert [severity for _, _, severity in told_channels(write_job, script, inputs={})] == [Severity.WARNING]
    given = {"hyperparameters": {"data-dir": "/opt/ml/input/data/train"}}
    assert told_channels(write_job, script, inputs={}, **given) == []


def test_a_channel_that_nobody_reads_is_a_warning(write_job: Callable[..., Path]) -> None:
    script = 'data = os.environ["SM_CHANNEL_TRAIN"]'
    found = list(channels_are_there(subject_of(write_job, START_channels + script, inputs=BOTH)))
    assert [(each.severity, "`val`" in each.message) for each in found] == [(Severity.WARNING, True)]


@leaves_alone(channels_are_there)
@pytest.mark.parametrize(
    "script",
    [
        'a, b = os.environ["SM_CHANNEL_TRAIN"], os.environ.get("SM_CHANNEL_VAL")',
        'root = "/opt/ml/input/data"\na = os.environ["SM_CHANNEL_TRAIN"]',
        'a = os.environ["SM_CHANNEL_TRAIN"]\nb = read(a, "val.csv")',
        'a = os.environ["SM_CHANNEL_TRAIN"]\nb = f"/opt/ml/input/data/{name}"',
        "read_everything()",
    ],
)
def test_a_channel_that_may_be_read_is_fine(write_job: Callable[..., Path], script: str) -> None:
    assert told_channels(write_job, script, inputs=BOTH) == []

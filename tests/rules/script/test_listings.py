"""The order of files is the same on every host where the data depends on it: DATA002."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Severity
from launcher.rules.script.listings import listings_are_sorted
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

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

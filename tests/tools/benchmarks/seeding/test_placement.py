"""Where defects are put into programs: only where they are one, and with the line at which to find it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.case_files import read_parts
from tools.benchmarks.seeding import collective_kinds, data_kinds, launch_kinds
from tools.benchmarks.seeding.site import Mutant, Site
from tools.benchmarks.seeding.whole import Whole

Kind = Callable[[Whole], Iterator[Mutant]]
TRAINING, UNDER_A_SWITCH = (
    "\n".join(part.lines).strip("\n") + "\n"
    for part in read_parts(Path(__file__).with_name("programs.test"), re.compile(r"\[(case) (.*)\]"))
)


def seeded(kind: Kind, text: str) -> list[tuple[str, list[str]]]:
    """Each mutant's own lines that the file did not have, and the lines at which it must be found."""
    before = text.splitlines()
    found = []
    for mutant in kind(Whole([Site(Path("train.py"), text)])):
        compile(mutant.text, "train.py", "exec")
        lines = mutant.text.splitlines()
        changes = [each for each in difflib.ndiff(before, lines) if each.startswith("+ ")]
        new = "; ".join(each[2:].strip() for each in changes)
        found.append((new, [lines[line - 1].strip() for line in sorted(mutant.lines)]))
    return found


BEFORE_THE_GROUP = (
    ('    dist.init_process_group("nccl")\n    rank = dist.get_rank()\n', ""),
    ("    model = DDP", '    dist.init_process_group("nccl")\n    model = DDP'),
)
DROPPED = "loader = DataLoader(data, num_workers=2)"
SHUFFLED = "loader = DataLoader(data, sampler=sampler, num_workers=2, shuffle=True)"
INIT = 'dist.init_process_group("nccl", world_size=8)'
SAVE = 'torch.save(model.state_dict(), f"{epoch}.pt")'
NO_SYNC = "with model.no_sync():; loss = model(batch).sum(); loss.backward(); optimizer.step()"
NAN = "if torch.isnan(loss):; continue"
DEVICE = 'torch.cuda.set_device(int(os.environ["RANK"]))'


@pytest.mark.parametrize(
    ("kind", "changes", "new", "place"),
    [
        (
            collective_kinds.guarded_collective,
            (),
            "if dist.get_rank() == 0:; dist.barrier()",
            "dist.barrier()",
        ),
        (collective_kinds.skip_by_nan, (), *[NAN] * 2),
        # The loss of a library's backward is what it is given.
        (collective_kinds.skip_by_nan, (("loss.b", "accelerator.b"), ("ward()", "ward(loss)")), None, NAN),
        (collective_kinds.early_return, (), *["if not (dist.get_rank() == 0):; return"] * 2),
        (collective_kinds.break_by_rank, (), *["if rank == 0 and loss.item() < 0.01:; break"] * 2),
        (collective_kinds.step_in_no_sync, (), NO_SYNC, "optimizer.step()"),
        (data_kinds.epoch_never_set, (), "pass", "for epoch in range(3):"),
        (data_kinds.sampler_dropped, (), DROPPED, f"sampler = DistributedSampler(data); {DROPPED}"),
        (data_kinds.shuffled_beside_sampler, (), *[SHUFFLED] * 2),
        (launch_kinds.fixed_world_size, (), *[INIT] * 2),
        (launch_kinds.save_without_guard, (), *[SAVE] * 2),
        # A device before the group is made is the rank of the environment.
        (launch_kinds.global_rank_as_device, BEFORE_THE_GROUP, *[DEVICE] * 2),
    ],
)
def test_a_defect_is_written_where_it_is_one(
    kind: Kind, changes: tuple[tuple[str, str], ...], new: str | None, place: str
) -> None:
    text = TRAINING
    for old, changed in changes:
        assert old in text
        text = text.replace(old, changed)
    ((written, places),) = seeded(kind, text)
    assert new is None or written == new
    assert "; ".join(places) == place


OWN_DATA = (
    "class Made(torch.utils.data.Dataset):\n    def __getitem__(self, i): return torch.rand(1)\ndef main"
)
SAVED = "        if rank == 0:\n            torch.save(model.state_dict(), f"
NAMED = "        if rank == 0:\n            name = make()\n"
OF_SOME = "        if dist.get_rank() < 4:\n            dist.barrier(group)"
UNEVEN = "        for batch in loader:\n            optimizer.zero_grad()\n"
JOINED = "        with Join([model]):\n          for batch in loader:\n"
SPAWNED = "torch.multiprocessing.spawn(main, args=(make(), read()))"


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        # A sampler that may not shuffle needs no epoch, data that each rank draws by itself no sampler.
        (data_kinds.epoch_never_set, "Sampler(data)", "Sampler(data, shuffle=options.shuffle)"),
        (data_kinds.sampler_dropped, "def main", OWN_DATA),
        # A path that rank 0 alone has is an error of another kind; the index may be the global rank already.
        (launch_kinds.save_without_guard, SAVED, NAMED + SAVED.replace(", f", ", name + f")),
        (launch_kinds.global_rank_as_device, 'int(os.environ["LOCAL_RANK"])', "rank"),
        # A program that starts its processes itself; a model that nothing wraps.
        (launch_kinds.fixed_world_size, "main(make(), read())", SPAWNED),
        (collective_kinds.skip_by_nan, "model = DDP(net)", "model = net"),
        # Ranks that may have different numbers of batches; a collective of some ranks.
        (collective_kinds.skip_by_nan, UNEVEN, JOINED),
        (collective_kinds.guarded_collective, "        dist.barrier()", OF_SOME),
    ],
)
def test_what_would_be_no_such_defect_is_left_alone(kind: Kind, old: str, new: str) -> None:
    assert old in TRAINING
    assert seeded(kind, TRAINING.replace(old, new, 1)) == []


def test_the_options_of_an_imported_module_that_is_never_started_are_left_alone() -> None:
    options = (
        'import argparse\nif __name__ == "__main__":\n    p = argparse.ArgumentParser()\n'
        '    p.add_argument("--x", action="store_true")\n'
    )
    assert len(seeded(launch_kinds.bool_as_type, options)) == 1
    sites = [Site(Path("train.py"), "import other\n"), Site(Path("other.py"), options)]
    assert list(launch_kinds.bool_as_type(Whole(sites))) == []


def test_what_an_imported_module_does_when_it_is_started_is_left_alone() -> None:
    other = (
        "import torch.distributed as dist\ndef check():\n    dist.barrier()\n    print(1)\n"
        'def main():\n    check()\nif __name__ == "__main__":\n    main()\n'
    )
    entry = "import other\ndef main():\n    {}\nmain()\n"
    for calls, mutants in (("other.check()", 1), ("pass", 0)):
        sites = [Site(Path("train.py"), entry.format(calls)), Site(Path("other.py"), other)]
        assert len(list(collective_kinds.guarded_collective(Whole(sites)))) == mutants


@pytest.mark.parametrize(
    ("value", "given", "more", "mutants"),
    [
        ("True", "", "", 1),
        ("False", "", "", 0),
        ("False", "", "config.saves = wanted()\n", 1),
        ("False", "", 'setattr(config, "saves", True)\n', 1),
        ("False", "", "store({}, 0)\n", 1),
        ("read()", "", "", 1),
        ("True", ", text=True", "", 1),
        ("True", ", True", "", 1),
        ("True", "", "text = 1\n", 1),
    ],
)
def test_no_guard_is_taken_from_a_save_that_is_switched_off(
    value: str, given: str, more: str, mutants: int
) -> None:
    text = UNDER_A_SWITCH.format(value=value, given=given) + more
    assert len(seeded(launch_kinds.save_without_guard, text)) == mutants


def test_no_guard_is_taken_from_a_save_in_the_arm_that_no_call_asks_for() -> None:
    text = UNDER_A_SWITCH.format(value="True", given="").replace("text=False", "text=True")
    assert seeded(launch_kinds.save_without_guard, text) == []

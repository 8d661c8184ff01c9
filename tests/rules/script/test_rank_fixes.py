"""Fixes that are made only where unsafe ones are asked for: what they write, and what they leave alone."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from launcher.scripts.edits import edited
from launcher.session.linting import lint

HEAD = """\
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
"""


def fixed(folder: Path, text: str, code: str, head: str = HEAD) -> str | None:
    """The script behind its head after the one fix for a code; None where the finding has none."""
    file = folder / "train.py"
    file.write_text(head + dedent(text))
    (finding,) = [each for each in lint([file]).findings if each.code == code]
    if finding.fix is None:
        return None
    assert not finding.fix.safe
    return edited(file.read_bytes(), finding.fix.edits).decode().removeprefix(head)


def test_a_save_is_put_under_a_test_for_rank_zero(tmp_path: Path) -> None:
    assert fixed(tmp_path, """\
        for epoch in range(3):
            torch.save({}, "x.pt")  # each epoch
        """, "CKPT008") == dedent("""\
        for epoch in range(3):
            if dist.get_rank() == 0:
                torch.save({}, "x.pt")  # each epoch
        """)  # fmt: skip


def test_torch_distributed_is_called_as_the_file_calls_it(tmp_path: Path) -> None:
    head = 'import torch as t\nt.distributed.init_process_group("nccl")\n'
    text = fixed(tmp_path, 't.save({}, "x.pt")\n', "CKPT008", head)
    assert text == 'if t.distributed.get_rank() == 0:\n    t.save({}, "x.pt")\n'


@pytest.mark.parametrize(
    "text",
    [
        'x = 1; torch.save({}, "x.pt")\n',
        'torch.save({}, "x.pt"); x = 1\n',
        'torch.save({"note": """a\nb"""}, "x.pt")\n',
        'done = torch.save({}, "x.pt")\n',
        'if True: torch.save({}, "x.pt")\n',
    ],
)
def test_a_save_that_shares_its_lines_is_left_to_its_author(tmp_path: Path, text: str) -> None:
    assert fixed(tmp_path, text, "CKPT008") is None


def test_the_last_statement_under_a_test_goes_behind_it(tmp_path: Path) -> None:
    assert fixed(tmp_path, """\
        if rank == 0:
            print("saved")
            dist.barrier()
        """, "DDP004") == dedent("""\
        if rank == 0:
            print("saved")
        dist.barrier()
        """)  # fmt: skip


def test_a_statement_alone_under_a_test_takes_its_place(tmp_path: Path) -> None:
    assert fixed(tmp_path, "if rank == 0:\n    dist.barrier()\nprint(rank)\n", "DDP004") == (
        "dist.barrier()\nprint(rank)\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "if rank == 0:\n    dist.barrier()\n    print(1)\n",
        "if rank == 0:\n    dist.barrier()\nelse:\n    print(1)\n",
        "if rank == 0:\n    # all of them\n    dist.barrier()\n",
        "if rank == 0: dist.barrier()\n",
        "if rank > 3:\n    print(1)\nelif rank == 0:\n    dist.barrier()\n",
    ],
)
def test_a_collective_with_something_behind_it_or_another_arm_stays(tmp_path: Path, text: str) -> None:
    assert fixed(tmp_path, text, "DDP004") is None


def test_the_group_is_destroyed_at_the_end_of_the_main_guard(tmp_path: Path) -> None:
    text = 'def main():\n    pass\n\n\nif __name__ == "__main__":\n    main()'
    assert fixed(tmp_path, text, "DDP006") == (
        f"{text}\n    if dist.is_initialized():\n        dist.destroy_process_group()\n"
    )


def test_a_file_whose_lines_end_with_carriage_returns_alone_is_fixed_too(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    text = f"{HEAD}def run():\n    pass\nif __name__ == '__main__':\n    run()\n"
    file.write_bytes(text.replace("\n", "\r").encode())
    (finding,) = [each for each in lint([file]).findings if each.code == "DDP006"]
    assert finding.fix is not None
    assert edited(file.read_bytes(), finding.fix.edits).endswith(b"    dist.destroy_process_group()\r")


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    pass\nmain()\n",
        'import torch.multiprocessing as mp\nif __name__ == "__main__":\n    mp.spawn(print)\n',
        'if __name__ == "__main__":\n    x = 1\n',
    ],
)
def test_a_group_of_other_processes_or_without_a_main_guard_is_left_alone(tmp_path: Path, text: str) -> None:
    assert fixed(tmp_path, text, "DDP006") is None

"""Which functions are followed for collectives, and which files are looked into for a name."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from launcher.rules.script.check import check_program
from launcher.scripts import following, summaries
from launcher.scripts.program import Program
from tests.programs.conftest import ReadProgram

TRAINING = """
    import torch.distributed as dist
    from layers import Block
    from meeting import meet

    def evaluate(model):
        return model.state_dict()

    def finish():
        if dist.get_rank() == 0:
            meet()

    def main():
        dist.init_process_group()
        evaluate(Block())
        finish()

    main()
"""
MEETING = """
    import torch.distributed as dist

    wait = dist.barrier

    def meet():
        wait()
"""
LAYERS = """
    import torch

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.index = index()

        def step(self, values):
            if values is None:
                return None
            return self.index.gather(values)

    def index():
        return torch.load("index.pt")
"""
FILES = {"meeting.py": MEETING, "layers.py": LAYERS}


def leading(program: Program) -> set[str]:
    """The functions that may lead to a collective, by their names; a module by that of its file."""
    running = program.summaries.running
    found = {each.name for file in program.files for each in file.functions if running.matters(each)}
    return found | {file.path.name for file in program.files if running.matters(file.tree)}


def test_what_leads_to_a_collective_is_found_through_files_and_other_names(program: ReadProgram) -> None:
    assert leading(program(TRAINING, **FILES)) == {"meet", "finish", "main", "train.py"}


def test_what_only_shares_its_name_with_a_collective_leads_to_none(program: ReadProgram) -> None:
    found = leading(program(TRAINING, **FILES))
    assert not found & {"evaluate", "step", "index", "__init__", "layers.py"}


def test_a_class_leads_to_what_its_initialiser_runs(program: ReadProgram) -> None:
    text = """
        import torch.distributed as dist

        class Saver:
            def __init__(self):
                dist.barrier()

        def save():
            return Saver()
    """
    assert leading(program(text)) == {"__init__", "save"}


def test_a_collective_among_others_that_a_call_may_be_is_followed(program: ReadProgram) -> None:
    text = """
        import torch.distributed as dist

        def reduce(values, fast):
            gather = dist.all_gather if fast else values.gather
            barrier = print
            if fast:
                barrier = dist.barrier
            barrier()
    """
    assert leading(program(text)) == {"reduce"}


def test_a_function_that_leads_to_no_collective_is_never_followed(
    program: ReadProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[ast.stmt] = []

    class Recorded(following.Following):
        def _statement(self, statement: ast.stmt, depth: int) -> following.Block:
            followed.append(statement)
            return super()._statement(statement, depth)

    monkeypatch.setattr(summaries, "Following", Recorded)
    read = program(TRAINING, **FILES)
    found = [each.code for each in check_program(read)]
    assert "DDP004" in found
    assert {read.file(each).path.name for each in followed} == {"train.py", "meeting.py"}


def test_of_many_files_only_those_that_mention_a_name_are_looked_into(program: ReadProgram) -> None:
    others = {f"part_{number}.py": f"def part_{number}(): return {number}" for number in range(30)}
    imports = "\n".join(f"import part_{number}" for number in range(30))
    read = program(dedent(TRAINING) + imports, **FILES, **others)
    assert len(read.files) == 33
    assert [file.path.name for file in read.mentioning("barrier")] == ["meeting.py"]
    assert [file.path.name for file in read.mentioning("barrier", "meet", "gather")] == [
        "train.py",
        "layers.py",
        "meeting.py",
    ]
    assert read.mentioning("nothing_of_this_name") == []


def test_what_neither_leads_to_a_collective_nor_leaves_says_nothing(program: ReadProgram) -> None:
    text = """
        import sys
        import torch.distributed as dist

        def train(model, rank):
            if model is None:
                model = rank
            for _ in range(3):
                if rank:
                    break
            with model:
                while True:
                    dist.barrier()
            if rank:
                sys.exit()
            def inner():
                return model
            return inner
    """
    read = program(text)
    (train,) = (each for each in read.entry.functions if each.name == "train")
    said = [read.summaries.running.says_something(each) for each in train.body]
    assert said == [False, True, True, True, False, True]

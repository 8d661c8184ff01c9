"""The table of collectives: names, positions of groups, and what a call says about its communication."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from launcher.program.index import file_of
from launcher.program.program import Program
from launcher.program.ranks import divergence
from launcher.program.ranks.collective_calls import (
    COLLECTIVES,
    CollectiveCalls,
    collective_last_names,
)
from launcher.program.ranks.divergence import FunctionSummaries
from launcher.program.values import canonical_name
from launcher.rules.script.check import check_program
from tests.program.conftest import ReadProgram, wrong_answers

LIBRARIES = {
    "torch": 75,
    "deepspeed": 31,
    "smdistributed": 30,
    "horovod": 28,
    "torch_xla": 15,
    "mpi4py": 45,
    "accelerate": 21,
    "lightning": 18,
    "transformers": 3,
    "trl": 3,
    "ignite": 7,
    "slipway": 2,
}
"""How many collectives each library has at least."""

POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv", "Isend", "sendrecv"})


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_has_its_collectives_under_their_one_name(library: str) -> None:
    names = [each for each in COLLECTIVES if each.partition(".")[0] == library]
    assert len(names) >= LIBRARIES[library]
    assert [each for each in names if canonical_name(each) != each] == []


def test_no_library_is_left_out_of_the_count() -> None:
    assert {each.partition(".")[0] for each in COLLECTIVES} == set(LIBRARIES)


def test_point_to_point_is_no_collective() -> None:
    assert not POINT_TO_POINT & {each.short_name for each in COLLECTIVES.values()}


GROUPS = {
    "torch.distributed.gather": 3,
    "torch.distributed.nn.functional.gather": 2,
    "torch.distributed.nn.functional.all_gather": 1,
    "torch.distributed.nn.scatter": 2,
    "torch.distributed.broadcast_object_list": 2,
    "torch.distributed.new_subgroups": 1,
    "deepspeed.comm.all_to_all_single": 4,
    "horovod.torch.allreduce": 7,
    "horovod.torch.allgather": 2,
    "torch_xla.xla_model.all_reduce": 3,
    "torch_xla.xla_model.rendezvous": 2,
    "smdistributed.modelparallel.torch.allgather": 1,
    "lightning.fabric.Fabric.all_gather": 1,
    "ignite.distributed.all_gather": 1,
    "torch.nn.parallel.DistributedDataParallel": 6,
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_group_stands_where_the_library_has_it(name: str) -> None:
    assert COLLECTIVES[name].group == GROUPS[name]


def test_only_the_libraries_that_a_program_imports_lend_their_names() -> None:
    assert "rendezvous" in collective_last_names(["torch_xla.core.xla_model"])
    assert "log" in collective_last_names(["pytorch_lightning.LightningModule"])
    assert "log" not in collective_last_names(["torch", "torch.distributed", "math"])
    assert collective_last_names(["numpy", ".torch"]) == set()
    assert "rdp_barrier" in collective_last_names(["torch.sagemaker"])


def test_a_call_is_a_collective_where_it_waits_for_others(program: ReadProgram) -> None:
    def told(text: str) -> str:
        read = program(text)
        run = CollectiveCalls(read).collective(read.entry.tree.body[-1].value)
        return f"a collective of {'all ranks' if run.known_group else 'some'}" if run else "no collective"

    assert wrong_answers("collectives.test", told) == []


LOGS = {
    "self.log('loss', x, sync_dist=True)": True,
    "self.log_dict(x, sync_dist=True)": True,
    "self.log('loss', x, sync_dist=True, rank_zero_only=True)": False,
    "self.log('loss', x, sync_dist=several)": False,
    "self.log('loss', x)": False,
}


@pytest.mark.parametrize("call", LOGS)
def test_lightnings_log_communicates_where_it_is_asked_to(program: ReadProgram, call: str) -> None:
    read = program(
        "import lightning as L\nclass Net(L.LightningModule):\n    def training_step(self, x):\n"
        f"        {call}\n"
    )
    (log,) = read.entry.calls_of.get("log", read.entry.calls_of.get("log_dict", ()))
    assert (CollectiveCalls(read).collective(log) is not None) is LOGS[call]


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
    running = program.analysis(FunctionSummaries).collective_calls
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


def test_a_variable_is_not_the_function_whose_name_it_has(program: ReadProgram) -> None:
    text = """
        import torch.distributed as dist

        def step():
            dist.barrier()

        def show(value):
            print(value)

        def count(rows):
            for step, row in enumerate(rows):
                show(step)

        def run(work):
            work()

        def start():
            run(step)

        def hand_on(step):
            run(step)

        hand_on(start)
    """
    assert leading(program(text)) == {"step", "run", "start", "hand_on", "train.py"}


def test_getattr_leads_to_the_functions_whose_names_it_may_be_given(program: ReadProgram) -> None:
    text = """
        import torch.distributed as dist

        class Hooks:
            def on_start(self):
                dist.barrier()

        def by_another_name(model):
            getattr(model, "no_weight_decay", set)()

        def by_another_beginning(model, number):
            getattr(model, f"layer_{number}")()

        def by_its_beginning(hooks, event):
            getattr(hooks, f"on_{event}")()

        def by_any_name(hooks, name):
            hook = getattr(hooks, name)
            hook()
    """
    assert leading(program(text)) == {"on_start", "by_its_beginning", "by_any_name"}


def test_a_property_leads_where_it_is_read_and_not_where_its_name_is_another_ones(
    program: ReadProgram,
) -> None:
    text = """
        import torch.distributed as dist

        class Trainer:
            @property
            def group(self):
                return dist.new_group([0])

            def use(self):
                return self.group

        class Settings:
            def __init__(self):
                self.group = 0

        def another():
            check(Settings().group)

        def check(name):
            print(name)
    """
    assert leading(program(text)) == {"group", "use"}


def test_what_may_run_is_told_once_of_each_place(program: ReadProgram) -> None:
    functions = "".join(
        f"""
        def step_{number}(flag):
            if flag: step_{number - 1}(flag)
            if not flag: step_{number - 1}(flag)
"""
        for number in range(1, 10)
    )
    text = f"""
        import torch.distributed as dist

        def step_0(flag):
            if flag:
                dist.barrier()
        {functions}
    """
    read = program(text)
    (last,) = [each for each in read.entry.functions if each.name == "step_9"]
    found = read.analysis(FunctionSummaries).summary(last)
    assert len(found.may) == 2  # One for each call in it, and not one for each way to the barrier.


def test_a_function_that_leads_to_no_collective_is_never_followed(
    program: ReadProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[ast.stmt] = []

    class Recorded(divergence.FunctionWalk):
        def _statement(self, statement: ast.stmt, depth: int) -> divergence.Block:
            followed.append(statement)
            return super()._statement(statement, depth)

    monkeypatch.setattr(divergence, "FunctionWalk", Recorded)
    read = program(TRAINING, **FILES)
    found = [each.code for each in check_program(read)]
    assert "DDP004" in found
    assert {file_of(each).path.name for each in followed} == {"train.py", "meeting.py"}


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
    said = [read.analysis(FunctionSummaries).collective_calls.matters_here(each) for each in train.body]
    assert said == [False, True, True, True, False, True]

"""The table of collectives: names, positions of groups, and what a call says about its communication."""

from __future__ import annotations

import ast

import pytest

from launcher.scripts.collective_tables import ASKED, OTHERS, STATE
from launcher.scripts.collectives import COLLECTIVES, last_names
from launcher.scripts.names import canonical
from launcher.scripts.running import Running
from tests.programs.conftest import ReadProgram

LIBRARIES = {
    "torch": 75,
    "deepspeed": 30,
    "smdistributed": 30,
    "horovod": 28,
    "torch_xla": 15,
    "mpi4py": 45,
    "accelerate": 18,
    "lightning": 18,
    "transformers": 1,
    "ignite": 7,
    "slipway": 2,
}
"""How many collectives each library has at least."""

POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv", "Isend", "sendrecv"})


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_has_its_collectives_under_their_one_name(library: str) -> None:
    names = [each for each in COLLECTIVES if each.partition(".")[0] == library]
    assert len(names) >= LIBRARIES[library]
    assert [each for each in names if canonical(each) != each] == []


def test_no_library_is_left_out_of_the_count() -> None:
    assert {each.partition(".")[0] for each in COLLECTIVES} == set(LIBRARIES)


def test_a_collective_stands_in_one_table_only() -> None:
    assert len(COLLECTIVES) == sum(len(names) for table in (OTHERS, STATE, ASKED) for names in table.values())


def test_point_to_point_is_no_collective() -> None:
    assert not POINT_TO_POINT & {each.does for each in COLLECTIVES.values()}


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
    assert "rendezvous" in last_names(["torch_xla.core.xla_model"])
    assert "log" in last_names(["pytorch_lightning.LightningModule"])
    assert "log" not in last_names(["torch", "torch.distributed", "math"])
    assert last_names(["numpy", ".torch"]) == set()
    assert "rdp_barrier" in last_names(["torch.sagemaker"])


_STATE = (
    "import torch.distributed.checkpoint.state_dict as s\n"
    "from torch.distributed.fsdp import fully_shard, FullyShardedDataParallel as F\n"
)
_FSDP_2 = f"{_STATE}fully_shard(m)\n"

RUN = {
    "from torch.distributed import all_gather_single as look\nlook(a, b)": True,
    "import deepspeed.comm.comm as c\nlook = c.all_reduce\nlook(a)": True,
    "import horovod.torch as hvd\nhvd.grouped_allreduce(a)": True,
    "import horovod.torch as hvd\nhvd.allgather(a, 'x', hvd.global_process_set)": True,
    "from mpi4py import MPI\nMPI.COMM_WORLD.Allgatherv(a, b)": True,
    "from mpi4py import MPI\nMPI.COMM_WORLD.Split(1)": True,
    "from accelerate import Accelerator\nAccelerator().check_trigger()": True,
    "import torch_xla.core.xla_model as xm\nxm.broadcast_master_param(m)": True,
    "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nFSDP.summon_full_params(m)": True,
    "import torch.distributed as d\nd.new_group([0, 1])": True,
    "import torch.distributed as d\nd.new_group([0, 1], use_local_synchronization=False)": True,
    "import torch.distributed as d\nd.new_group([0, 1], use_local_synchronization=True)": False,
    "import torch.distributed as d\nd.new_group([0, 1], use_local_synchronization=own)": False,
    "import torch.distributed.checkpoint as c\nc.save(s, checkpoint_id='x', use_collectives=False)": False,
    "from torch.nn.parallel import DistributedDataParallel as D\nD(m, init_sync=False)": False,
    f"{_FSDP_2}s.get_model_state_dict(m, options=s.StateDictOptions(full_state_dict=True))": True,
    f"{_FSDP_2}s.get_model_state_dict(m, options=s.StateDictOptions(full_state_dict=full))": False,
    f"{_FSDP_2}s.get_model_state_dict(m)": False,
    f"{_STATE}F(m)\ns.get_state_dict(m, o)": True,
    f"{_STATE}s.get_model_state_dict(m, options=s.StateDictOptions(full_state_dict=True))": False,
    "import torch.distributed as d\nd.send(a, 1)": False,
    "import torch.distributed as d\nd.destroy_process_group()": False,
    "from torch.distributed.fsdp import FullyShardedDataParallel as F\nF.shard_full_optim_state_dict(a, m)": (
        False
    ),
    "from mpi4py import MPI\nMPI.COMM_WORLD.Isend(a, 1)": False,
    "from mpi4py import MPI\nMPI.COMM_SELF.Barrier()": False,
    "import horovod.torch as hvd\nhvd.synchronize(a)": False,
    "import torch_xla.core.xla_model as xm\nxm.mark_step()": False,
    "from accelerate import Accelerator\nAccelerator().unwrap_model(m)": False,
}
"""Programs whose last call is a collective, or is none."""


@pytest.mark.parametrize("text", RUN)
def test_a_call_is_a_collective_where_it_waits_for_others(program: ReadProgram, text: str) -> None:
    read = program(text)
    call = read.entry.tree.body[-1]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert (Running(read).collective(call.value) is not None) is RUN[text]


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
    assert (Running(read).collective(log) is not None) is LOGS[call]


GROUPED = {
    "import torch.distributed.nn.functional as f\nf.all_gather(a, g)": False,
    "import torch.distributed.nn.functional as f\nf.gather(a, 0, g)": False,
    "import torch.distributed.nn.functional as f\nf.all_gather(a)": True,
    "import torch_xla.core.xla_model as xm\nxm.all_reduce('sum', a, 1.0, g)": False,
    "import torch_xla.core.xla_model as xm\nxm.rendezvous('x', b'', replicas=g)": False,
    "import torch_xla.core.xla_model as xm\nxm.all_reduce('sum', a, 1.0)": True,
    "import horovod.torch as hvd\nhvd.broadcast(a, 0, 'n', s)": False,
    "import horovod.torch as hvd\nhvd.broadcast(a, 0, 'n')": True,
    "import smdistributed.modelparallel.torch as smp\nsmp.barrier(smp.DP_GROUP)": False,
    "import smdistributed.modelparallel.torch as smp\nsmp.barrier(smp.WORLD)": True,
}
"""Collectives whose group is known to be all ranks, or not known."""


@pytest.mark.parametrize("text", GROUPED)
def test_a_group_in_its_place_is_seen(program: ReadProgram, text: str) -> None:
    read = program(text)
    call = read.entry.tree.body[-1]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    run = Running(read).collective(call.value)
    assert run is not None
    assert run.known_group is GROUPED[text]

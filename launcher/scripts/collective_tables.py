"""The collectives of each library, and the position of the group among their arguments.

None where the group is given by keyword only, or where there is none. Beside each library stands which
version of its sources was read.
"""

from __future__ import annotations

_Table = dict[str, int | None]

_TORCH: _Table = {
    "barrier": 0,
    "monitored_barrier": 0,
    "all_reduce": 2,
    "all_reduce_coalesced": 2,
    "reduce": 3,
    "broadcast": 2,
    "broadcast_object_list": 2,
    "all_gather": 2,
    "all_gather_into_tensor": 2,
    "all_gather_single": 2,
    "_all_gather_base": 2,
    "all_gather_object": 2,
    "all_gather_coalesced": 2,
    "gather": 3,
    "gather_object": 3,
    "scatter": 3,
    "scatter_object_list": 3,
    "reduce_scatter": 3,
    "reduce_scatter_tensor": 3,
    "reduce_scatter_single": 3,
    "_reduce_scatter_base": 3,
    "all_to_all": 2,
    "all_to_all_single": 4,
}
"""The collectives of torch.distributed, also DeepSpeed's and SMDDP's, and where their group stands.

Read in torch 2.13, distributed/distributed_c10d.py; the order of the arguments is the same in deepspeed
0.19.8, comm/comm.py. async_op changes when one waits, not who must call. Not here, though they end or make
groups: destroy_process_group, which waits for nobody, and init_process_group, without which there is no rank.
"""

_WITH_GRADIENT: _Table = {
    "all_reduce": 2,
    "broadcast": 2,
    "gather": 2,
    "scatter": 2,
    "reduce": 3,
    "reduce_scatter": 3,
    "all_gather": 1,
    "_all_gather_base": 2,
    "all_to_all": 2,
    "all_to_all_single": 4,
}
"""Those through which gradients flow, with other arguments; torch 2.13, distributed/nn/functional.py."""

_FUNCTIONAL: _Table = {
    "all_reduce": 2,
    "broadcast": 2,
    "all_gather_single": 2,
    "all_gather_tensor": 2,
    "all_gather_tensor_autograd": 2,
    "reduce_scatter_single": 3,
    "reduce_scatter_tensor": 3,
    "reduce_scatter_tensor_autograd": 3,
    "all_to_all_single": 3,
    "all_to_all_single_autograd": 3,
    "all_reduce_coalesced": 2,
    "all_gather_into_tensor_coalesced": 1,
    "reduce_scatter_tensor_coalesced": 3,
}
"""The functional ones; torch 2.13, distributed/_functional_collectives.py."""

_MPI = (
    "Barrier",
    "Bcast",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Allgather",
    "Allgatherv",
    "Alltoall",
    "Alltoallv",
    "Alltoallw",
    "Reduce",
    "Allreduce",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Scan",
    "Exscan",
)
_MPI_OBJECTS = (
    "barrier",
    "bcast",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "reduce",
    "allreduce",
    "scan",
    "exscan",
)


def _by_keyword(*names: str) -> _Table:
    """What has no group, or one by keyword alone."""
    return dict.fromkeys(names)


_STRATEGY = {"reduce": 1, "all_gather": 1, **_by_keyword("barrier", "broadcast", "reduce_boolean_decision")}

OTHERS: dict[str, _Table] = {
    # torch 2.13: distributed_c10d.py; nn/parallel/distributed.py, whose constructor compares the shapes of
    # the parameters; optim/zero_redundancy_optimizer.py, whose step broadcasts every rank's part;
    # fsdp/fully_sharded_data_parallel.py.
    "torch.distributed": {
        **_TORCH,
        **_by_keyword("new_group", "new_subgroups_by_enumeration"),
        "new_subgroups": 1,
        "split_group": 0,
    },
    "torch.nn.parallel": {"DistributedDataParallel": 6},
    "torch.distributed.optim.ZeroRedundancyOptimizer": _by_keyword("step"),
    "torch.distributed.fsdp.FullyShardedDataParallel": _by_keyword("summon_full_params", "clip_grad_norm_"),
    "torch.distributed.nn.functional": _WITH_GRADIENT,
    "torch.distributed.nn": _WITH_GRADIENT,
    "torch.distributed._functional_collectives": _FUNCTIONAL,
    # deepspeed 0.19.8: comm/comm.py; runtime/engine.py; runtime/pipe/engine.py.
    "deepspeed.comm": {
        **_TORCH,
        "reduce_scatter_fn": 3,
        "allgather_fn": 2,
        "inference_all_reduce": 2,
        **_by_keyword("new_group"),
    },
    "deepspeed.DeepSpeedEngine": _by_keyword("backward", "step", "train_batch", "eval_batch"),
    "smdistributed.dataparallel.torch.distributed": _TORCH,
    # horovod 0.28.1: torch/mpi_ops.py, torch/functions.py. `synchronize` waits for what was called
    # before, and `join` is what each rank calls when its data end.
    "horovod.torch": {
        "allreduce": 7,
        "allreduce_": 6,
        "allreduce_async": 6,
        "allreduce_async_": 6,
        "grouped_allreduce": 7,
        "grouped_allreduce_": 6,
        "grouped_allreduce_async": 6,
        "grouped_allreduce_async_": 6,
        "sparse_allreduce_async": 3,
        "allgather": 2,
        "allgather_async": 2,
        "grouped_allgather": 2,
        "grouped_allgather_async": 2,
        "broadcast": 3,
        "broadcast_": 3,
        "broadcast_async": 3,
        "broadcast_async_": 3,
        "alltoall": 3,
        "alltoall_async": 3,
        "reducescatter": 4,
        "reducescatter_async": 3,
        "grouped_reducescatter": 4,
        "grouped_reducescatter_async": 3,
        "barrier": 0,
        "broadcast_object": 3,
        **_by_keyword("allgather_object", "broadcast_parameters", "broadcast_optimizer_state"),
    },
    # torch_xla 2.9: core/xla_model.py. mark_step runs what was called before.
    "torch_xla.xla_model": {
        "rendezvous": 2,
        "xla_rendezvous": 1,
        "all_reduce": 3,
        "all_gather": 2,
        "all_gather_bucketized": 2,
        "all_to_all": 4,
        "reduce_scatter": 5,
        "reduce_scatter_bucketized": 5,
        "collective_broadcast": 2,
        "all_reduce_bucketized_gradients": 2,
        "reduce_gradients": 1,
        "optimizer_step": 3,
        **_by_keyword("mesh_reduce", "do_on_ordinals", "broadcast_master_param"),
    },
    # Excerpts of the library's documentation in the SageMaker Python SDK; its sources are not public.
    "smdistributed.modelparallel.torch": {
        "barrier": 0,
        "allgather": 1,
        "broadcast": 1,
        **_by_keyword("dp_barrier", "pp_barrier", "tp_barrier", "rdp_barrier", "mp_barrier"),
    },
    # mpi4py 4.1.2: MPI.pyi, Comm and Intracomm. Those with an I wait later, but every rank calls them.
    "mpi4py.MPI.COMM_WORLD": _by_keyword(
        *_MPI, *(f"I{each.lower()}" for each in _MPI), *_MPI_OBJECTS, "Split", "Split_type", "Dup", "Create"
    ),
    # accelerate 1.15: accelerator.py, state.py, utils/operations.py, utils/random.py.
    "accelerate.Accelerator": _by_keyword(
        "wait_for_everyone",
        "gather",
        "gather_for_metrics",
        "reduce",
        "pad_across_processes",
        "check_trigger",
        "main_process_first",
        "local_main_process_first",
    ),
    "accelerate.PartialState": _by_keyword(
        "wait_for_everyone", "main_process_first", "local_main_process_first"
    ),
    "accelerate.utils": _by_keyword(
        "wait_for_everyone",
        "gather",
        "gather_object",
        "broadcast",
        "broadcast_object_list",
        "reduce",
        "pad_across_processes",
    ),
    # lightning 2.6: fabric/fabric.py, pytorch/strategies/strategy.py, pytorch/core/module.py.
    "lightning.fabric.Fabric": {
        "all_gather": 1,
        "all_reduce": 1,
        **_by_keyword("barrier", "broadcast", "rank_zero_first"),
    },
    "lightning.pytorch.LightningModule": {"all_gather": 1},
    "lightning.pytorch.Trainer.strategy": _STRATEGY,
    "lightning.pytorch.LightningModule.trainer.strategy": _STRATEGY,
    # transformers 5.23: training_args.py.
    "transformers.TrainingArguments": _by_keyword("main_process_first"),
    # pytorch-ignite 0.5.5: distributed/utils.py.
    "ignite.distributed": {
        "all_reduce": 2,
        "all_gather": 1,
        "all_gather_tensors_with_shapes": 2,
        **_by_keyword("barrier", "broadcast", "new_group", "one_rank_first"),
    },
}
"""What else communicates, by the library or the class that has it."""

ASKED: dict[str, dict[str, str]] = {
    # lightning 2.6: pytorch/trainer/connectors/logger_connector/result.py.
    "lightning.pytorch.LightningModule": {"log": "sync_dist", "log_dict": "sync_dist"},
}
"""What communicates where a keyword asks for it."""

STATE: dict[str, _Table] = {
    # torch 2.13: distributed/checkpoint/; its process_group is a keyword but in the two old ones.
    "torch.distributed.checkpoint": {
        **_by_keyword("save", "async_save", "load"),
        "save_state_dict": 2,
        "load_state_dict": 2,
    },
    "torch.distributed.checkpoint.state_dict": _by_keyword(
        "get_state_dict", "get_model_state_dict", "get_optimizer_state_dict"
    ),
    # shard_full_optim_state_dict and flatten_sharded_optim_state_dict work without the others.
    "torch.distributed.fsdp.FullyShardedDataParallel": _by_keyword(
        "state_dict",
        "optim_state_dict",
        "full_optim_state_dict",
        "sharded_optim_state_dict",
        "scatter_full_optim_state_dict",
    ),
    "torch.distributed.optim.ZeroRedundancyOptimizer": _by_keyword("consolidate_state_dict"),
    "deepspeed.DeepSpeedEngine": _by_keyword(
        "save_checkpoint", "save_16bit_model", "save_fp16_model", "load_checkpoint"
    ),
    # A local_state_dict is this rank's own.
    "smdistributed.modelparallel.torch.DistributedModel": _by_keyword("state_dict"),
    "smdistributed.modelparallel.torch.DistributedOptimizer": _by_keyword("state_dict"),
    "smdistributed.modelparallel.torch": _by_keyword("save_checkpoint"),
    # In older sources all ranks meet at its end; in 2.9 no longer.
    "torch_xla.xla_model": _by_keyword("save"),
    # lightning 2.6: a barrier stands at the end of all of them.
    "lightning.pytorch.Trainer": _by_keyword("save_checkpoint"),
    "lightning.pytorch.LightningModule.trainer": _by_keyword("save_checkpoint"),
    "lightning.fabric.Fabric": _by_keyword("save", "load"),
    # slipway/checkpoints/manager.py: every rank adds what is its own, and a rank that does not come is named.
    "slipway.CheckpointManager": _by_keyword("save", "resume"),
}
"""What collects or writes a checkpoint."""

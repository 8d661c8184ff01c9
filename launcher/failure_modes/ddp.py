"""PyTorch DistributedDataParallel: what the training script must do alike on every rank."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Severity

REDUCTION_NOT_FINISHED = FailureMode(
    code="DDP001",
    title='"Expected to have finished reduction": branches differ between ranks',
    cause=(
        "DDP waits in every backward pass for a gradient of every parameter. If the forward pass took "
        "another branch on one rank, or left some parameters out of the loss, the reduction of the last "
        "step never finished and the next forward raises; if only some ranks did so, the others hang."
    ),
    remedy=(
        "Let every rank run the same forward pass through `model(...)`, with decisions taken from data all "
        "ranks share. find_unused_parameters=True covers branches that change from step to step, at a "
        "price; a periodic barrier cures nothing."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_DDP, sources.TORCH_DDP_NOTES),
)

PARAMETERS_WITHOUT_GRADIENT = FailureMode(
    code="DDP002",
    title="parameters that received no gradient on some ranks",
    cause=(
        "A layer that is defined but not used, or used only under a condition, gives its parameters no "
        "gradient, and DDP waits for it. The error lists indices; with TORCH_DISTRIBUTED_DEBUG=INFO or "
        "DETAIL it lists names."
    ),
    remedy=(
        "Remove the unused layers or freeze them with requires_grad_(False) before wrapping; run once with "
        "`profile: debug` to learn the names. Do not add `0 * p.sum()` for all parameters to the loss: it "
        "hides the fault and sends zeros over the network at every step."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_DDP, sources.TORCH_DISTRIBUTED),
)

FIND_UNUSED_LEFT_ON = FailureMode(
    code="DDP003",
    title="find_unused_parameters left on",
    cause=(
        "find_unused_parameters=True walks the whole autograd graph after every forward pass, on each rank "
        "and step. Where every parameter is used, that is lost time; DDP says so in a warning."
    ),
    remedy=(
        "Remove the argument when all parameters take part in every step; where the set of unused ones "
        "never changes, use static_graph=True instead."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_DDP),
    severity=Severity.INFO,
)

COLLECTIVE_UNDER_RANK_GUARD = FailureMode(
    code="DDP004",
    title="a collective under a rank guard, or after a rank-dependent return",
    cause=(
        "A barrier, all_reduce, broadcast or FSDP state_dict under `if rank == 0`, or behind a `return` "
        "that only some ranks take, is called by some ranks only. They wait for the others until the "
        "timeout, or are matched with the next collective, which corrupts data."
    ),
    remedy=(
        "Move the collective out of the branch: every rank calls it, rank 0 alone prints or writes the "
        "result. For work of rank 0 alone put the barrier after the `if`, outside of it."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_DISTRIBUTED),
)

GROUP_TIMEOUT_UNSUITABLE = FailureMode(
    code="DDP005",
    title="process group without a timeout, or one too short for its checkpoints",
    cause=(
        "The default is 10 minutes for NCCL since torch 2.2 (30 minutes before, and still for gloo). A "
        "longer checkpoint, evaluation or download on one rank kills the waiting ones; so does a timeout "
        "of 60 or 300 s copied from a tutorial. With no thought given to it, a real hang costs 10 minutes "
        "of the whole cluster."
    ),
    remedy=(
        "Pass `timeout=timedelta(...)` to init_process_group: somewhat longer than the slowest thing that "
        "one rank does while others wait, and no more. Save sharded or asynchronously to keep that short."
    ),
    sources=(
        sources.DDP_GUIDE,
        sources.DDP_ERROR_ARTICLE,
        sources.TORCH_NCCL_TIMEOUT,
        sources.TORCH_DISTRIBUTED,
    ),
    severity=Severity.WARNING,
)

GROUP_NEVER_DESTROYED = FailureMode(
    code="DDP006",
    title="process group never destroyed",
    cause=(
        "A rank that exits without destroy_process_group may leave operations pending and block another "
        "rank's exit; torch warns about it since 2.4. The results are safe, but a job can hang after its "
        "last line and go on being billed."
    ),
    remedy=(
        "Call torch.distributed.destroy_process_group() once per process at the normal end of main(). Do "
        "not put a barrier beside it in a finally block."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_DISTRIBUTED),
    severity=Severity.INFO,
)

ACCUMULATION_OR_CLIPPING_WRONG = FailureMode(
    code="DDP007",
    title="gradient accumulation or clipping done wrongly across ranks",
    cause=(
        "Accumulating without no_sync() sends all gradients at every micro-batch; a no_sync() that covers "
        "backward but not forward does not hold the sending back. Accumulation that ends at different "
        "micro-batches on different ranks stalls. Clipping before unscaling clips scaled gradients, and "
        "torch's own clip_grad_norm_ on an FSDP version 1 model sees one shard's norm only."
    ),
    remedy=(
        "Run forward and backward of all but the last micro-batch under `with model.no_sync():`, divide "
        "the loss by their number, and step also at the end of the epoch. Call scaler.unscale_(optimizer), "
        "then clip, then step; with FSDP version 1 use model.clip_grad_norm_."
    ),
    sources=(sources.DDP_GUIDE, sources.TORCH_DDP, sources.TORCH_AMP, sources.TORCH_FSDP),
)

COLLECTIVE_IN_EXCEPTION_HANDLER = FailureMode(
    code="DDP008",
    title="a collective in an except or finally block",
    cause=(
        "Only the rank that raised comes to the except block, and waits there in its barrier while the "
        "others wait for it in a gradient reduction: a deadlock, which hides the error and lasts until the "
        "timeout. A finally block is no better, as ranks come to it at different moments."
    ),
    remedy=(
        "Let the exception leave the process: torchrun then ends the host's other ranks and keeps the "
        "traceback, and SageMaker ends the job on the other hosts. Decorate main() with "
        "torch.distributed.elastic.multiprocessing.errors.record."
    ),
    sources=(sources.DDP_ERROR_ARTICLE, sources.TORCH_ELASTIC_ERRORS),
)

GRADIENTS_NOT_REDUCED = FailureMode(
    code="DDP009",
    title="a process group, but gradients that nobody reduces",
    cause=(
        "init_process_group connects the processes and no more. Where the model is not wrapped and no "
        "collective averages the gradients, every rank trains a model of its own on its share of the data: "
        "the losses look right, the ranks drift apart, and the checkpoint of rank 0 has seen one share only."
    ),
    remedy=(
        "Wrap the model after it is moved to its device: `model = DistributedDataParallel(model, "
        "device_ids=[local_rank])`, or use FSDP's fully_shard. Its backward then averages the gradients."
    ),
    sources=(sources.TORCH_DDP, sources.TORCH_DDP_NOTES, sources.TORCH_DISTRIBUTED),
)

ENGINE_NEVER_STEPPED = FailureMode(
    code="DDP010",
    title="a DeepSpeed engine that is never stepped",
    cause=(
        "DeepSpeed's engine owns the optimizer: its backward accumulates gradients, and its step() applies "
        "them at the end of an accumulation, with clipping, loss scale and zeroing. Without it no parameter "
        "changes, or an optimizer that is stepped beside it works on the wrong ones."
    ),
    remedy=(
        "Call `engine.backward(loss)` and then `engine.step()` at every micro-batch; remove "
        "`optimizer.step()` and `optimizer.zero_grad()`, which the engine calls itself."
    ),
    sources=(sources.DEEPSPEED_ENGINE,),
)

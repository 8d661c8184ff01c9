"""SageMaker Training Compiler, which runs PyTorch through torch_xla."""

from __future__ import annotations

from launcher.failure_modes import notices, sources
from launcher.failure_modes.model import FailureMode, Severity

GPU_NUM_DEVICES_WRONG = FailureMode(
    code="XLA001",
    title='GPU_NUM_DEVICES missing or not the GPUs per instance ("Missing XLA configuration")',
    cause=(
        "torch_xla learns the number of devices from GPU_NUM_DEVICES. Without it the job stops with "
        "'Missing XLA configuration'; with a smaller number GPUs stay idle, with a larger one it fails."
    ),
    remedy=(
        "Set GPU_NUM_DEVICES in `environment` to the GPUs of one host, as a string: '4' on ml.p3.8xlarge. "
        "The plan sets it for `strategy: torch_xla` where the job file does not."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE,),
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

NO_MP_FN = FailureMode(
    code="XLA002",
    title="no `_mp_fn(index)`",
    cause=(
        "The launcher imports the script and calls its `_mp_fn(index)` once for each worker. Without that "
        "function the workers fail, or each trains its own model and shares no updates."
    ),
    remedy=(
        "Define `def _mp_fn(index):` at module level in the entry point and call the training from it; "
        "keep work at import time out of the module."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE,),
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

NO_MARK_STEP = FailureMode(
    code="XLA003",
    title="no mark_step after the model update, or before printing",
    cause=(
        "torch_xla only records operations until it is told to run them. Without xm.mark_step() after the "
        "update, the next forward pass, prints and logs may see stale values, and the recorded graph grows "
        "and is compiled again."
    ),
    remedy=(
        "Call xm.mark_step() after every optimizer step and before reading values to print or log them; "
        "iterating a MpDeviceLoader calls it once for each batch. Print through xm.add_step_closure."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE, sources.TRAINING_COMPILER_PYTORCH),
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

NO_MP_DEVICE_LOADER = FailureMode(
    code="XLA004",
    title="no MpDeviceLoader with a distributed sampler",
    cause=(
        "The distributed sampler gives each worker its part of the data, and MpDeviceLoader brings it to "
        "the XLA device and runs the graph at every batch. Without the first all workers train on the same "
        "data, without the second each copy stops the device."
    ),
    remedy=(
        "Build the DataLoader with DistributedSampler(dataset, num_replicas=xm.xrt_world_size(), "
        "rank=xm.get_ordinal()) and iterate "
        "torch_xla.distributed.parallel_loader.MpDeviceLoader(loader, device)."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE, sources.TRAINING_COMPILER_PYTORCH),
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

GRADIENTS_NOT_REDUCED = FailureMode(
    code="XLA005",
    title="gradients not fetched and all-reduced, or in the wrong order with AMP and clipping",
    cause=(
        "There is no DDP wrapper on XLA: with AMP the script itself must combine the gradients of all "
        "workers, else each trains a model of its own. Unscaling or clipping before the reduction changes "
        "the update and with it convergence."
    ),
    remedy=(
        "With AMP keep the order: scaled backward; gradients = xm._fetch_gradients(optimizer) and "
        "xm.all_reduce('sum', gradients, scale=1.0 / xm.xrt_world_size()); unscale and clip; step; "
        "xm.mark_step(). Without AMP xm.optimizer_step(optimizer) reduces and steps."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE, sources.TRAINING_COMPILER_PYTORCH),
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

NO_CONSTANT_SEED = FailureMode(
    code="XLA006",
    title="no constant seed across workers",
    cause=(
        "Each worker initialises its own weights. Without a common seed they start from different models, "
        "and averaged gradients belong to none of them: training converges badly or not at all."
    ),
    remedy=(
        "Call torch.manual_seed(SEED) and xm.set_rng_state(SEED) with the same constant on every worker, "
        "before the model is built."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE,),
    severity=Severity.WARNING,
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

DIVERGES_FROM_NATIVE = FailureMode(
    code="XLA007",
    title="does not converge as the native framework does",
    cause=(
        "The compiler changes the memory footprint, so batch size and learning rate are usually changed "
        "with it, and that alone can make the loss oscillate or become NaN. Otherwise a torch_xla call is "
        "missing (XLA003 to XLA006)."
    ),
    remedy=(
        "Run the job twice with the same hyperparameters, with and without the compiler, first on one GPU "
        "and then on several: `launch pair` compares the two. Equal curves point to the hyperparameters, "
        "different ones to the torch_xla calls."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE,),
    severity=Severity.INFO,
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

NO_GAIN_IN_TIME = FailureMode(
    code="XLA008",
    title="no gain in training time: batch size and padding not re-tuned",
    cause=(
        "The gain comes from the larger batch that fits after compilation, and from graphs that are "
        "compiled once. With the old batch size there is little to win, and inputs padded to the longest "
        "of each batch give a new shape, and a new compilation, again and again."
    ),
    remedy=(
        "Raise the batch size to what the memory allows and scale the learning rate with it; pad all "
        "inputs to one fixed length (padding='max_length') and leave out the smaller last batch with "
        "drop_last=True."
    ),
    sources=(sources.TRAINING_COMPILER_GUIDE, sources.TRAINING_COMPILER_TIPS),
    severity=Severity.INFO,
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

NO_RELEASES = FailureMode(
    code="XLA009",
    title="Training Compiler gets no new releases and no patches",
    cause=(
        "AWS has announced that there will be no new versions of Training Compiler, and that its images "
        "get no patches any more. They end at PyTorch 1.13.1, for P3, P4, G4dn and G5; security flaws in "
        "them and in the libraries that they hold stay open."
    ),
    remedy=(
        "Move the script to `strategy: torchrun` with a current image; torch.compile, of PyTorch 2, takes "
        "the compiler's place and needs none of the torch_xla calls."
    ),
    sources=(sources.TRAINING_COMPILER_SUPPORT,),
    severity=Severity.INFO,
    notices=(notices.TRAINING_COMPILER_FROZEN,),
)

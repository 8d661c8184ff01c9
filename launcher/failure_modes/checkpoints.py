"""Checkpoints: where they go, who writes them, and whether they are ever read."""

from __future__ import annotations

from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Retry, Severity

PREFIX_NOT_UNIQUE = FailureMode(
    code="CKPT001",
    title="checkpoint prefix not unique to the job, or in use by a running job",
    cause=(
        "At the start SageMaker downloads everything below the checkpoint prefix to every host. A prefix "
        "shared by jobs makes each start slower, mixes their files, and lets one job delete or overwrite "
        "what another saved."
    ),
    remedy=(
        "Give each job its own prefix: the plan appends the job's unique name to `checkpoint.s3_uri`. To "
        "go on from another job's checkpoint use `checkpoint.resume_from`, which copies the newest "
        "complete one."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.CHECKPOINTS_GUIDE),
)

LARGE_MODEL_WITHOUT_LUSTRE = FailureMode(
    code="CKPT002",
    title="large model (over 10 billion parameters) without FSx for Lustre for checkpoints",
    cause=(
        "A checkpoint with Adam's states takes 12 to 16 bytes for each parameter, so more than 120 GB "
        "beyond 10 billion parameters. Written to the local disk and uploaded to S3, it keeps the GPUs "
        "waiting, may outlast the process group's timeout, and can fail to upload at all."
    ),
    remedy=(
        "Put the checkpoints on the cluster's file system with `checkpoint.lustre: /checkpoints`, and save "
        "them sharded, each rank its own part, with torch.distributed.checkpoint."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE,),
    severity=Severity.WARNING,
)

STATE_DICT_NOT_ON_EVERY_RANK = FailureMode(
    code="CKPT003",
    title="stall while checkpointing: state_dict not called on every rank that must",
    cause=(
        "Where parameters or optimizer states are sharded, state_dict() is a collective: the ranks that "
        "call it wait for those that do not. Under `if rank == 0` it hangs until the time-out. The same "
        "happens with a partial optimizer checkpoint under SMP's `shard_optimizer_state`."
    ),
    remedy=(
        "Call state_dict() of model and optimizer on every rank with FSDP; with SMP on all ranks where "
        "rdp_rank() == 0 (tensor parallel) or dp_rank() == 0 (pipeline only). Guard only the writing of "
        "the file."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.TORCH_FSDP),
)

LARGE_UPLOAD_FAILS = FailureMode(
    code="CKPT004",
    title="upload of a large checkpoint fails (InternalServerError)",
    cause=(
        "SageMaker's own upload of the checkpoint folder can fail on large checkpoints; the whole job then "
        "ends with 'InternalServerError: We encountered an internal error', however healthy the training "
        "was. With `checkpoint.sync: slipway` the boot copies, and what it could not copy by the job's end "
        "is lost with the hosts."
    ),
    remedy=(
        "Write to `checkpoint.lustre`, or set `checkpoint.sync: slipway`: under torchrun, smp version 2 and "
        "none the boot then copies checkpoints to S3 with retries, says why where it cannot, and lets no job "
        "succeed whose newest checkpoint is lost; what it names is to be put right first. Elsewhere the "
        "script itself uploads to SLIPWAY_CHECKPOINT_URI. A script that calls `aws s3 sync` must check its "
        "exit code (subprocess.run with check=True): the function in AWS's guide does not, and loses "
        "checkpoints in silence."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE,),
    # SageMaker's internal errors: what its own RetryStrategy repeats.
    retry=Retry.SAME,
)

UNEXPECTED_KEY_PREFIX = FailureMode(
    code="CKPT005",
    title="unexpected prefix on state_dict keys",
    cause=(
        "Wrappers rename what they wrap: DistributedDataParallel puts `module.` before every key, "
        "torch.compile `_orig_mod.`. A checkpoint saved from the wrapper does not load into the bare model "
        "(missing and unexpected keys), or with strict=False loads nothing and trains from scratch."
    ),
    remedy=(
        "Save the inner model (`model.module.state_dict()`), or strip with "
        "`key.removeprefix('module.')` when loading. Do not use `k.partition('model.')[2]`: it turns every "
        "key without the prefix into the empty string, and all but one of them are lost."
    ),
    sources=(sources.DATA_PARALLEL_GUIDE, sources.TORCH_PREFIX_DISCUSSION),
)

NOTHING_TO_RESUME_FROM = FailureMode(
    code="CKPT006",
    title="spot or retries without a checkpoint, or a script that never loads one",
    cause=(
        "After a spot interruption or a retry the script starts again from its first line. Without a "
        "checkpoint, or without code that looks for one, all the work done until then is lost and paid for "
        "twice; a frequently interrupted job never ends."
    ),
    remedy=(
        "Configure `checkpoint`, save at least as often as work may be lost, and at the start load the "
        "newest complete checkpoint with the states of model, optimizer, scheduler and sampler."
    ),
    sources=(sources.MODEL_PARALLEL_GUIDE, sources.SPOT_TRAINING, sources.DDP_ERROR_ARTICLE),
    severity=Severity.WARNING,
)

PATH_NOT_KEPT = FailureMode(
    code="CKPT007",
    title="saves to a path that is not kept",
    cause=(
        "The disks of the hosts are deleted with the job. Only /opt/ml/model, /opt/ml/output/data, the "
        "checkpoint path (/opt/ml/checkpoints by default) and a mounted file system survive; what the "
        "script writes to its working directory, /tmp or home is gone. /opt/ml/model is uploaded at the "
        "end only."
    ),
    remedy=(
        "Save checkpoints below `checkpoint.local_path`, the final model to os.environ['SM_MODEL_DIR'] and "
        "everything else to os.environ['SM_OUTPUT_DATA_DIR']."
    ),
    sources=(sources.TRAINING_STORAGE, sources.TRAINING_OUTPUT),
)

RANKS_WRITE_SAME_FILE = FailureMode(
    code="CKPT008",
    title="every rank writes the same file",
    cause=(
        "When all ranks save to one path they overwrite each other, on a shared file system in the middle "
        "of the write; and the checkpoint folders of all hosts go to one S3 prefix, where the last upload "
        "wins. The file that is left is torn, or holds one shard of many."
    ),
    remedy=(
        "Where every rank holds the whole model (DDP), save under `if rank == 0`, to a temporary name that "
        "is then renamed. Where the state is sharded, put the rank into the file name or use "
        "torch.distributed.checkpoint."
    ),
    sources=(sources.CHECKPOINTS_GUIDE, sources.TRAINING_STORAGE),
)

NOT_WHAT_WAS_SAVED = FailureMode(
    code="CKPT009",
    title="checkpoint damaged, or of another model or data set",
    cause=(
        "A file of the checkpoint is missing, cut off or changed on its disk, or the checkpoint belongs to "
        "another model, optimizer or data set. torch.load and torch.distributed.checkpoint read a flipped "
        "bit as a wrong value without a word, and a job that resumes from it trains on with wrong weights."
    ),
    remedy=(
        "`slipway.CheckpointManager` compares every file with its SHA-256 before it loads and takes the "
        "checkpoint before; where none is left, remove the folder to train from the start, or restore it "
        "from a copy. For another model or data set, build both as they were when it was saved."
    ),
    sources=(sources.TORCH_DISTRIBUTED_CHECKPOINT,),
)

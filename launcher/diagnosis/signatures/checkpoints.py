"""Checkpoints and Debugger, which meets them.

Texts: torch/serialization.py and caffe2/serialize/inline_container.cc of PyTorch 1.6 to 2.13, safetensors 0.3
to 0.5, Megatron-LM's core/dist_checkpointing/validation.py, SMDebug, FailureReason of the SageMaker API.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import Context, LineRole, Signature
from launcher.failure_modes import checkpoints, debugger, nccl
from launcher.failure_modes.model import Retry

_TORN = (
    "Load the checkpoint before this one, and delete the torn one: its writer was killed, or the disk was "
    "full before it was whole. Where it was downloaded, download it again and compare its size. Save with "
    "slipway.CheckpointManager, which never leaves a torn one behind and refuses what it did not write."
)

SIGNATURES = (
    Signature(
        mode=checkpoints.LARGE_UPLOAD_FAILS,
        role=LineRole.SYMPTOM,
        literal="internalservererror",
        pattern=re.compile(r"InternalServerError: We encountered an internal error"),
        example="InternalServerError: We encountered an internal error. Please try again.",
        near_miss="INFO retry on InternalServerError: 3 times",
        says="SageMaker ended the job with an internal error; uploads of large checkpoints do this",
        vague=True,
    ),
    Signature(
        mode=checkpoints.LARGE_UPLOAD_FAILS,
        role=LineRole.INITIATOR,
        literal="upload failed",
        pattern=re.compile(
            r"(?:Artifact|Checkpoint) upload failed:(?!.*(?:AccessDenied|Access Denied|403|not authorized"
            r"|route to an S3|disk space|[Nn]o space left|OCI runtime))(?P<why>.{0,120})"
        ),
        example="InternalServerError: Artifact upload failed:Error 7: The credentials received have been "
        "expired",
        near_miss="upload failed: ./x to s3://y An error occurred: Access Denied",
        says="the upload failed:{why}",
    ),
    Signature(
        mode=checkpoints.LARGE_UPLOAD_FAILS,
        role=LineRole.INITIATOR,
        literal=" operation (reached max retries: ",
        # botocore/exceptions.py, of what S3 itself could not do, or not in time.
        pattern=re.compile(
            r"An error occurred \((?P<why>InternalError|ServiceUnavailable|SlowDown|RequestTimeout)\) when "
            r"calling the (?P<operation>PutObject|UploadPart|(?:Create|Complete)MultipartUpload) operation "
            r"\(reached max retries: "
        ),
        example="boto3.exceptions.S3UploadFailedError: Failed to upload /opt/ml/model/m.pt to team/m.pt: An "
        "error occurred (InternalError) when calling the UploadPart operation (reached max retries: 4): We "
        "encountered an internal error, please try again.",
        near_miss="ClientError: An error occurred (ThrottlingException) when calling the PutMetricData "
        "operation (reached max retries: 4): Rate exceeded",
        says="an upload failed: S3 answered {why} to {operation}, again and again",
    ),
    Signature(
        mode=checkpoints.LARGE_UPLOAD_FAILS,
        role=LineRole.INITIATOR,
        literal="slipway: ckpt004 ",
        # What slipway/saving/upload_places.py says of causes that do not pass.
        pattern=re.compile(
            r"^slipway: CKPT004 (?P<what>.{1,500}?: (?:S3 denies it \(|there is no such bucket|S3 was not "
            r"reached \().{0,400})",
            re.MULTILINE,
        ),
        example="slipway: CKPT004 algo-1: not copied to s3://team/runs/digits-1 and lost with the host: "
        "step-000000000012-1f6c22ab: S3 denies it (AccessDenied: Access Denied)",
        near_miss="INFO slipway: CKPT004 is told: S3 denies it (AccessDenied)",
        says="{what}",
        remedy="Correct what it names: the same job would lose its checkpoints again.",
        retry=Retry.NEVER,
    ),
    Signature(
        mode=checkpoints.LARGE_UPLOAD_FAILS,
        role=LineRole.INITIATOR,
        literal="slipway: ckpt004 ",
        pattern=re.compile(r"^slipway: CKPT004 (?P<what>.{1,900})", re.MULTILINE),
        example="slipway: CKPT004 algo-1: not copied to s3://team/runs/digits-1 and lost with the host: "
        "step-000000000012-1f6c22ab: S3 has answered SlowDown again and again: it is overloaded or down",
        near_miss="INFO slipway: CKPT004 is explained by `launch explain`",
        says="{what}",
    ),
    Signature(
        mode=debugger.WITH_CHECKPOINTS,
        role=LineRole.INITIATOR,
        literal="smdebug does not currently support",
        pattern=re.compile(r"SMDebug Does Not Currently Support .*Checkpointing Enabled", re.I),
        example="SMDebug Does Not Currently Support Distributed Training Jobs With Checkpointing Enabled",
        near_miss="INFO SMDebug does not currently support this framework",
        says="Debugger met distributed training with checkpoints",
    ),
    Signature(
        mode=debugger.WITH_MODEL_PARALLEL,
        role=LineRole.INITIATOR,
        literal="metadata.json.sagemaker-uploading",
        pattern=re.compile(
            r"(?:No such file or directory|FileNotFoundError).*metadata\.json\.sagemaker-uploading"
        ),
        example="FileNotFoundError: [Errno 2] No such file or directory: "
        "'/opt/ml/checkpoints/metadata.json.sagemaker-uploading'",
        near_miss="INFO uploading metadata.json.sagemaker-uploading",
        says="Debugger looks for a file of SageMaker's checkpoint upload that is gone",
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.ADVISORY,
        literal="slipway: ckpt009 ",
        pattern=re.compile(r"^slipway: CKPT009 (?P<what>.{1,600})$", re.MULTILINE),
        example="slipway: CKPT009 step-000000000012-1f6c22ab: model.pt has another SHA-256 than the "
        "manifest says: its content has changed: not loaded, the one before is tried",
        near_miss="slipway: CKPT009 ",
        says="{what}",
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="pytorchstreamreader failed ",
        pattern=re.compile(r"PytorchStreamReader failed (?P<what>(?:reading|locating|getting)\b.{0,160})"),
        example="RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central "
        "directory",
        near_miss="INFO PytorchStreamReader failed on the first try",
        says="a file that torch.load reads is torn or no checkpoint: {what}",
        remedy=_TORN,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="error while deserializing header: ",
        pattern=re.compile(
            r"(?:SafetensorError|OSError): .{0,300}?Error while deserializing header: (?P<what>\w[\w ]{0,80})"
        ),
        example="safetensors_rust.SafetensorError: Error while deserializing header: "
        "MetadataIncompleteBuffer",
        near_miss="INFO no error while deserializing header: 3 tensors",
        says="a safetensors file is torn, or none: {what}",
        remedy=_TORN,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="pickle data was truncated",
        pattern=re.compile(r"UnpicklingError: pickle data was truncated"),
        example="_pickle.UnpicklingError: pickle data was truncated",
        near_miss="INFO pickle data was truncated to 3 files",
        says="a file that torch.load reads ends too early",
        remedy=_TORN,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="the file might be corrupted",
        pattern=re.compile(
            r"unexpected EOF, expected (?P<bytes>\d{1,20}) more bytes\. The file might be corrupted"
        ),
        example="RuntimeError: unexpected EOF, expected 3302811 more bytes. The file might be corrupted.",
        near_miss="WARNING the file might be corrupted, reading it again",
        says="a file that torch.load reads ends {bytes} bytes too early",
        remedy=_TORN,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="integrity verification failed for ",
        # megatron/core/dist_checkpointing/validation.py.
        pattern=re.compile(r"Checkpoint integrity verification failed for (?P<files>\d{1,7}) file"),
        example="megatron.core.dist_checkpointing.core.CheckpointingException: Checkpoint integrity "
        "verification failed for 2 file(s) in /fsx/ck:",
        near_miss="INFO no integrity verification failed for this job",
        says="{files} files of the checkpoint are not as they were saved",
        remedy=_TORN,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="storage has wrong byte size: ",
        pattern=re.compile(
            r"^RuntimeError: storage has wrong byte size: expected (?P<bytes>-?\d{1,20}) "
            r"got (?P<got>\d{1,20})"
        ),
        example="RuntimeError: storage has wrong byte size: expected 2048 got 1024",
        near_miss="INFO a storage has wrong byte size: skipped",
        says="a file that torch.load reads is torn: {got} bytes where {bytes} were expected",
        remedy=_TORN,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="unable to load weights from ",
        pattern=re.compile(
            r"^OSError: Unable to load weights from \w{1,20} checkpoint file for '(?P<file>[^']{1,300})'"
        ),
        example="OSError: Unable to load weights from pytorch checkpoint file for "
        "'/fsx/out/pytorch_model.bin' at '/fsx/out/pytorch_model.bin'.",
        near_miss="INFO unable to load weights from there, starting anew",
        says="{file} is no checkpoint that torch can read",
        remedy=_TORN,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="invalid load key",
        # What begins with v is the pointer of Git LFS, in place of the file.
        pattern=re.compile(r"^(?:_?pickle\.)?UnpicklingError: invalid load key, '(?P<key>.{1,8})'"),
        example="_pickle.UnpicklingError: invalid load key, '\\x00'.",
        near_miss="INFO UnpicklingError: invalid load key, trying another format",
        says="what was loaded is no pickle: it begins with {key}",
        remedy=_TORN,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal=" value from checkpoint (",
        pattern=re.compile(
            r"^AssertionError: (?P<what>\w{1,80} value from checkpoint \(.{1,120}?\) is not equal to "
            r"the input "
            r"argument value \(.{1,120}\))"
        ),
        example="AssertionError: num_layers value from checkpoint (24) is not equal to the input argument "
        "value (32).",
        near_miss="INFO num_layers value from checkpoint (24) is taken",
        says="the checkpoint is of another model: {what}",
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="checkpointingexception: ",
        pattern=re.compile(
            # Of one that is being written as well: these words are of what is read.
            r"^(?:\w+\.)*CheckpointingException: (?P<what>.{0,200}?\b(?:is not a distributed "
            r"checkpoint|does not (?:exist|match)"
            r"|not found|[Mm]issing|[Mm]ismatch)\b.{0,200})"
        ),
        example="megatron.core.dist_checkpointing.core.CheckpointingException: /fsx/iter_0001000 is not a "
        "distributed checkpoint",
        near_miss="INFO caught CheckpointingException: trying the one before",
        says="the distributed checkpoint does not fit: {what}",
        vague=True,
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="error: ",
        # transformers, safetensors, torch.optim, TensorFlow.
        pattern=re.compile(
            r"^(?:\w+\.)*\w*Error: (?P<what>Unable to find latest file at \S{1,300}|Error no file named "
            r".{1,200}? found in directory \S{1,300}"
            r"|Can't find a valid checkpoint at \S{1,300}|File does not contain tensor \S{1,200}"
            r"|loaded state dict contains a parameter group that doesn't match"
            r"|Unsuccessful TensorSliceReader constructor: Failed to (?:find|get matching) .{1,200}"
            r"|Invalid index file path .{1,200} for an optimizer"
            r"|Checksum does not match: stored \d{1,20})"
        ),
        example="ValueError: Can't find a valid checkpoint at /opt/ml/checkpoints/checkpoint-1000",
        near_miss="WARNING error: Can't find a valid checkpoint at /tmp, starting anew",
        says="the checkpoint is not whole, or of another model: {what}",
    ),
    Signature(
        mode=checkpoints.NOT_WHAT_WAS_SAVED,
        role=LineRole.INITIATOR,
        literal="no such file or directory: '",
        # A file in the folder of one checkpoint: Hugging Face's, Megatron's, DeepSpeed's, torchtitan's. It is
        # one with which loading begins; of others it may be the folder that is missing, while they are saved.
        pattern=re.compile(
            r"^FileNotFoundError: \[Errno 2\] No such file or directory: "
            r"'(?P<file>[^']{0,200}/(?:checkpoint-|iter_|global_step|step-)\d{1,9}/"
            r"(?:trainer_state\.json|[^'/]{0,100}index\.json|metadata\.json|\.metadata|common\.pt))'"
        ),
        example="FileNotFoundError: [Errno 2] No such file or directory: "
        "'/fsx/out/checkpoint-500/trainer_state.json'",
        near_miss="FileNotFoundError: [Errno 2] No such file or directory: '/fsx/out/checkpoint.json'",
        says="the checkpoint has no {file}",
        remedy=_TORN,
        vague=True,
    ),
)

CONTEXTS = (
    Context(
        mode=checkpoints.STATE_DICT_NOT_ON_EVERY_RANK,
        of=(nccl.COLLECTIVE_TIMED_OUT,),
        literal="checkpoint",
        pattern=re.compile(
            r"\b(?:[Ss]aving|[Ww]riting|[Ss]tart(?:ing)? (?:to save|saving)) (?:\w+ ){0,3}?checkpoint"
            r"|\bsave_checkpoint\b"
        ),
        example="INFO:torchtune.utils._logging:Saving checkpoint. This may take some time.",
        near_miss="INFO loaded checkpoint of step 100; checkpoint saved",
    ),
    Context(
        mode=checkpoints.STATE_DICT_NOT_ON_EVERY_RANK,
        of=(nccl.COLLECTIVE_TIMED_OUT,),
        literal="dict",
        pattern=re.compile(
            r"\b(?:[Rr]etrieving|[Gg]athering|[Gg]etting|[Cc]onsolidating|[Cc]ollecting) (?:\w+ "
            r"){0,3}?state[ _]dict"
            r"|\bin (?:_?full_|_?optim_|_?get_\w*)?(?:optim_)?state_dict\b|\bin save_(?:checkpoint|model|"
            r"state)\b"
        ),
        example="INFO:torchtune.utils._logging:Retrieving optimizer state dict...",
        near_miss="INFO loading the optimizer's state dict",
    ),
)

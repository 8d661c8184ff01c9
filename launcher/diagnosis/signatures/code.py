"""The user's script. Tracebacks themselves are read by `diagnosis.tracebacks`.

Texts: CPython's main, argparse and os.py (os.environ).
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

SIGNATURES = (
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal="can't open file",
        pattern=re.compile(
            r"can't open file '(?P<file>(?:/opt/ml/[^']+|[^/'][^']*))': \[Errno 2\] No such file or directory"
        ),
        example="/usr/bin/python: can't open file '/opt/ml/code/train.py': [Errno 2] No such file or "
        "directory",
        near_miss="/usr/bin/python: can't open file '/var/spool/job/train.py': [Errno 2] No such file or "
        "directory",
        says="the entry point {file} is not in the source directory",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="can't open file",
        pattern=re.compile(
            r"can't open file '(?P<file>/(?!opt/ml/)[^']+)': \[Errno 2\] No such file or directory"
        ),
        example="/usr/bin/python: can't open file '/var/spool/job/train.py': [Errno 2] No such file or "
        "directory",
        near_miss="/usr/bin/python: can't open file '/opt/ml/code/train.py': [Errno 2] No such file or "
        "directory",
        says="Python found no file {file}, a path outside the source directory",
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal=": error: unrecognized arguments: ",
        pattern=re.compile(
            r"^(?P<script>\S+\.py): error: unrecognized arguments: (?P<words>(?:(?:true|false) ?){1,100})$",
            re.I,
        ),
        example="train.py: error: unrecognized arguments: true true",
        near_miss="train.py: error: unrecognized arguments: --dry-run true",
        says="{script} takes no value for a flag: unrecognized arguments: {words}",
        remedy="A flag (action='store_true') takes no value, and a hyperparameter always has one: take it "
        "out of `hyperparameters`, and where it is to be set write it into `code.arguments`, such as "
        "`arguments: [--dry-run]`.",
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal=" value: ",
        pattern=re.compile(
            r"^(?P<script>\S+\.py): error: argument (?P<name>[^:]{1,80}): invalid (?P<type>\w{1,40}) value: "
            r"(?P<value>'[^']{0,80}')"
        ),
        example="train.py: error: argument --epochs: invalid int value: ''",
        near_miss="INFO argument --epochs: invalid int value: '' is ignored",
        says="{script} refused its command line: argument {name}: invalid {type} value: {value}",
        remedy="The argument is declared, but its value in `hyperparameters` or `code.arguments` is not of "
        "its type: correct the value, or leave the argument out, so that the script's default counts.",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="error: ",
        pattern=re.compile(
            r"^(?:torch\.)?(?:RuntimeError|AssertionError|ValueError|DistBackendError|AcceleratorError): "
            r"(?P<what>(?:Found no NVIDIA driver on "
            r"your system|No CUDA GPUs are available|Torch not compiled with CUDA "
            r"enabled|ProcessGroupNCCL is only "
            r"supported with GPUs, no GPUs found|SyncBatchNorm layers only work with GPU modules))"
        ),
        example="RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA "
        "GPU and installed a driver",
        near_miss="INFO RuntimeError: Found no NVIDIA driver on your system, using the CPU",
        says="the script wants a GPU, and the process has none: {what}",
        remedy="Run on a type with GPUs and an image for them (`resources.instance_type`; the plan shows "
        "the image), and set no CUDA_VISIBLE_DEVICES that hides them; or let the script choose by what is "
        "there: the device by torch.cuda.is_available(), the backend nccl with a GPU and gloo without.",
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal=": error: ",
        pattern=re.compile(
            r"^(?P<script>\S+\.py): error: (?P<what>(?:unrecognized arguments|the following arguments are "
            r"required|argument |ambiguous option).{0,200})"
        ),
        example="train.py: error: unrecognized arguments: --local-rank=0",
        near_miss="INFO train.py: error: no unrecognized arguments",
        says="{script} refused its command line: {what}",
        remedy="Correct the name or the value in `hyperparameters` or `code.arguments` to what the script "
        "declares, or declare it there with add_argument. With `argument_style: none` no "
        "hyperparameter is passed, and the script reads them from SM_HPS.",
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal="no module named",
        pattern=re.compile(r"^\S*python[\d.]*: No module named (?P<module>\S+)"),
        example="/opt/conda/bin/python3.11: No module named train",
        near_miss="ModuleNotFoundError: No module named 'einops'",
        says="there is no module {module} to start",
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal="error while finding module specification for",
        pattern=re.compile(
            r"^\S*python[\d.]*: Error while finding module specification for '(?P<module>[^']+)'"
        ),
        example="/opt/conda/bin/python3.11: Error while finding module specification for 'nowhere.train' "
        "(ModuleNotFoundError: No module named 'nowhere')",
        near_miss="INFO error while finding module specification for a plugin",
        says="there is no module {module} to start",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="modulenotfounderror",
        pattern=re.compile(r"^ModuleNotFoundError: No module named '(?P<module>[^'.]+\.[^']+)'"),
        example="ModuleNotFoundError: No module named 'transformers.models.newest'",
        near_miss="ModuleNotFoundError: No module named 'einops'",
        says="there is no module {module} in the package that was found",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="weights only load failed",
        pattern=re.compile(r"^(?:_?pickle\.)?UnpicklingError: Weights only load failed\."),
        example="_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so "
        "you have two options, do those steps only if you trust the source of the checkpoint.",
        near_miss="INFO Weights only load failed, loading all of it",
        says="the checkpoint holds more than weights, which torch.load refuses by default from torch 2.6 on",
        remedy="Where you trust the checkpoint, because a job of yours wrote it: set "
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD to '1' in `environment`, or pass weights_only=False to torch.load. "
        "To stay without: save tensors and plain values alone, or name the classes with "
        "torch.serialization.add_safe_globals.",
    ),
    Signature(
        mode=job_runtime.ENVIRONMENT_VALUE_NOT_STRING,
        role=LineRole.INITIATOR,
        literal="str expected, not ",
        pattern=re.compile(r"^TypeError: str expected, not (?P<type>\w{1,80})$"),
        example="TypeError: str expected, not int",
        near_miss="TypeError: expected str, bytes or os.PathLike object; str expected, not int",
        says="a value of the type {type} was put into os.environ, which holds strings only",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="device-side assert triggered",
        pattern=re.compile(r"CUDA error: device-side assert triggered"),
        example="RuntimeError: CUDA error: device-side assert triggered",
        near_miss="INFO no device-side assert triggered",
        says="an assertion failed in a kernel, mostly an index (label, token) out of its range",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="] assertion `",
        pattern=re.compile(r"thread: \[\d+,\d+,\d+\] Assertion `(?P<what>[^`\n]{1,120})` failed"),
        example="../aten/src/ATen/native/cuda/Indexing.cu:1308: indexSelectLargeIndex: block: [58,0,0], "
        "thread: [10,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        near_miss="INFO [rank 0] Assertion `index < size` failed before, in another run",
        says="an assertion failed in a kernel: {what}, mostly an index (label, token) out of its range",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.INITIATOR,
        literal="illegal memory access",
        pattern=re.compile(
            r"CUDA error: an illegal memory access was encountered"
            r"|Cuda failure (?:\d+ )?'an illegal memory access"
        ),
        example="RuntimeError: CUDA error: an illegal memory access was encountered",
        near_miss="INFO compute-sanitizer looks for illegal memory access",
        says="a kernel accessed memory that is not its own",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="error: ",
        pattern=re.compile(
            r"^(?:[a-z_]\w*\.)*(?!AssertionError: can only (?:test|join) a child process$"
            r"|KeyError: '/(?:loky|mp|psm|torch)[-_])"
            r"(?!(?:Connection|BrokenPipe|ChildFailed|ExecuteUserScript|Algorithm|Client)"
            r"\w*Error|Dist\w+Error)(?P<what>[A-Z]\w+Error: .{1,200})"
        ),
        example="ValueError: 3 is not in range",
        near_miss="[ERROR] ValueError: 3 is not in range",
        says="{what}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.TEARDOWN,
        literal="a child process",
        pattern=re.compile(r"^AssertionError: can only (?:test|join|start) a child process$"),
        example="AssertionError: can only test a child process",
        near_miss="INFO AssertionError: can only test a child process is noise",
        says="a DataLoader of the parent was thrown away in a worker, which harms nothing",
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.TEARDOWN,
        literal="keyerror: '/",
        # multiprocessing's tracker of semaphores and shared memory, a process of its own.
        pattern=re.compile(r"^KeyError: '/(?:loky|mp|psm|torch)[-_]\S{1,200}'"),
        example="KeyError: '/loky-18802-k17a_wq3'",
        near_miss="KeyError: '/mnt/data'",
        says="a semaphore was given back twice, which harms nothing",
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal="error: ",
        # click and typer, absl, transformers.
        pattern=re.compile(
            r"^(?P<what>ValueError: Some specified arguments are not used by the HfArgumentParser.{1,200}"
            r"|(?:Error|FATAL Flags parsing error): (?:No such option|Missing (?:option|argument)|Got "
            r"unexpected extra "
            r"argument|Unknown command line flag|Invalid value for).{1,200})"
        ),
        example="Error: No such option: --foo",
        near_miss="INFO Error: No such option, it is ignored",
        says="the script refused its command line: {what}",
    ),
    *(
        Signature(
            mode=job_runtime.SCRIPT_RAISED,
            role=LineRole.CASCADE,
            literal=literal,
            # Of a traceback whose beginning is not in the log.
            pattern=re.compile(pattern),
            example=example,
            near_miss=f"[ERROR] {example}",
            says="{what}",
            vague=True,
        )
        for literal, pattern, example in (
            (
                "exception: ",
                r"^(?:[a-z_]\w*\.)*(?P<what>(?!Signal|Process|Worker|Client|Connection)(?:[A-Z]\w*)?Excep"
                r"tion: \S.{0,200})",
                "Exception: data did not match any variant of untagged enum ModelWrapper",
            ),
            (
                "exc.",
                r"^(?:[a-z_]\w*\.)+exc\.(?P<what>[A-Z]\w*(?<!Error)(?<!Exception): \S.{0,200})",
                "torch._dynamo.exc.Unsupported: Data-dependent branching",
            ),
        )
    ),
    Signature(
        mode=job_runtime.SCRIPT_RAISED,
        role=LineRole.CASCADE,
        literal="traceback (most recent call last)",
        # How IPython begins a traceback, of which the end may be missing.
        pattern=re.compile(
            r"^(?P<what>(?!KeyboardInterrupt|SystemExit)[A-Z]\w{1,80}) {2,80}"
            r"Traceback \(most recent call last\)$"
        ),
        example="ProcessRaisedException                    Traceback (most recent call last)",
        near_miss="INFO  a Traceback (most recent call last) is printed",
        says="{what} was raised; what it says is not in the log",
        vague=True,
    ),
    Signature(
        mode=job_runtime.ENTRY_POINT_MISSING,
        role=LineRole.INITIATOR,
        literal="could not override '",
        # Hydra's words for an argument that the configuration does not know.
        pattern=re.compile(r"^Could not override '(?P<name>[^']{1,200})'"),
        example="Could not override 'trainer.max_step'.",
        near_miss="INFO could not override 'seed', keeping it",
        says="the configuration has no {name}, which an argument is to set",
    ),
)

"""Compiled extensions and shared libraries that are missing, or do not fit what is there.

Texts: glibc's dynamic loader; torchvision's extension.py, apex' optimizers, Transformer Engine's
common/__init__.py, Horovod's common/util.py; bitsandbytes' cextension.py; PyTorch's
utils/cpp_extension.py and backends/cudnn; cuDNN's loader of its own parts; numpy's C API as numpy itself
and torch word it. What a symbol or a version lacks is in `packages`.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

_LIBRARY = r"(?P<library>lib[\w.+-]{1,100}\.so[\w.]{0,20})"
_ABSENT = "cannot open shared object file: No such file or directory"

SIGNATURES = (
    Signature(
        mode=job_runtime.DRIVER_MISMATCH,
        role=LineRole.INITIATOR,
        literal="cannot open shared object file",
        # The driver's own two, which the host lends to the container.
        pattern=re.compile(
            rf"^(?:\w*Error: |\S{{1,200}}: error while loading shared libraries: )"
            rf"(?P<library>lib(?:cuda|nvidia-ml)\.so[\w.]{{0,20}}): {_ABSENT}"
        ),
        example=f"ImportError: libcuda.so.1: {_ABSENT}",
        near_miss="INFO libcuda.so.1: cannot open shared object file, using the CPU",
        says="the driver's {library} is not in the container: it was started without GPUs",
    ),
    Signature(
        mode=job_runtime.EXTENSION_MISMATCH,
        role=LineRole.INITIATOR,
        literal="cannot open shared object file",
        pattern=re.compile(
            rf"^(?:(?:Import|OS|Runtime)Error: |\S{{1,200}}: error while loading shared libraries: )"
            rf"(?!lib(?:cuda|nvidia-ml)\.so){_LIBRARY}: {_ABSENT}"
        ),
        example=f"ImportError: libcudart.so.12: {_ABSENT}",
        near_miss=f"UserWarning: libcudart.so.12: {_ABSENT}",
        says="the image has no {library}, which a compiled package wants",
        remedy="Where it is a library of CUDA or of torch, the package was built for another one: install "
        "its wheel for exactly the image's torch and CUDA. Another library comes with a package of the "
        "system (libGL with libgl1: or take opencv-python-headless), which belongs into the image.",
    ),
    Signature(
        mode=job_runtime.EXTENSION_MISMATCH,
        role=LineRole.INITIATOR,
        literal="could not load library lib",
        pattern=re.compile(rf"^Could not load library {_LIBRARY}\. Error: (?P<why>.{{1,200}})"),
        example="Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open shared "
        "object file: No such file or directory",
        near_miss="INFO Could not load library libcudnn.so.8, going on without",
        says="cuDNN does not find its {library}: {why}",
    ),
    Signature(
        mode=job_runtime.EXTENSION_MISMATCH,
        role=LineRole.INITIATOR,
        literal="error: ",
        pattern=re.compile(
            r"^(?:\w+\.)*\w+Error: (?P<what>Couldn't load custom C\+\+ ops"
            r"|[\w.]{1,80} requires cuda extensions"
            r"|Could not find shared object file for [\w -]{1,60}"
            r"|Extension [\w.]{1,60} has not been built"
            r"|Detected that PyTorch and \w{1,40} were compiled with different CUDA"
            r"|Could not load libtorchcodec"
            r"|cuDNN version incompatibility: .{1,120}"
            r"|Configured CUDA binary not found at .{1,200}"
            r"|\n\s{1,12}CUDA Setup failed despite GPU being available"
            r"|CUDA_HOME environment variable is not set)"
        ),
        example="RuntimeError: apex.optimizers.FusedAdam requires cuda extensions",
        near_miss="WARNING error: apex.optimizers.FusedAdam requires cuda extensions, using Adam",
        says="a package lacks its compiled part, or has it for another CUDA: {what}",
    ),
    Signature(
        mode=job_runtime.EXTENSION_MISMATCH,
        role=LineRole.INITIATOR,
        literal="error: numpy",
        pattern=re.compile(
            r"^(?:\w+\.)*\w+Error: (?P<what>numpy(?:\._?core\.multiarray failed to import"
            r"|\.(?:dtype|ufunc) size changed)|Numpy is not available)",
            re.I,
        ),
        example="ImportError: numpy.core.multiarray failed to import",
        near_miss="INFO error: numpy is not asked for",
        says="a compiled package was built for another numpy than the one that is there: {what}",
        remedy="Pin numpy in requirements.txt to what the image's torch was built with (numpy<2 where it is "
        "older than 2.3), and let the packages that want another one go with it.",
    ),
    Signature(
        mode=job_runtime.EXTENSION_MISMATCH,
        role=LineRole.INITIATOR,
        literal="mismatches the version that was used to compile",
        pattern=re.compile(r"The detected CUDA version \((?P<own>[\d.]{1,8})\) mismatches the version"),
        example="The detected CUDA version (11.8) mismatches the version that was used to compile",
        near_miss="INFO one mismatches the version that was used to compile",
        says="the image's CUDA {own} is another one than torch was compiled with, so no extension can "
        "be built",
    ),
)

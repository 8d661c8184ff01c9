"""Packages that are missing, that pip could not install, or whose machine code does not fit.

Texts: CPython's importlib (ModuleNotFoundError); glibc's dynamic loader; pip 20.3 to 26
(resolution/resolvelib/factory.py, wheel_builder.py), which the boot and the images' toolkit run alike;
errors.py of sagemaker-training 3 to 5, and of sagemaker-containers 2, its older name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

PACKAGE_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PIL": "Pillow",
        "attr": "attrs",
        "bs4": "beautifulsoup4",
        "cv2": "opencv-python-headless",
        "dateutil": "python-dateutil",
        "dotenv": "python-dotenv",
        "git": "GitPython",
        "hydra": "hydra-core",
        "pkg_resources": "setuptools",
        "skimage": "scikit-image",
        "sklearn": "scikit-learn",
        "yaml": "PyYAML",
    }
)
"""By modules that scripts import, the packages that hold them, where pip knows these by other names."""


def _missing(module: str, package: str) -> Signature:
    return Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal=f"no module named '{module.lower()}'",
        pattern=re.compile(rf"^ModuleNotFoundError: No module named '{re.escape(module)}'"),
        example=f"ModuleNotFoundError: No module named '{module}'",
        near_miss=f"INFO ModuleNotFoundError: No module named '{module}', going on without",
        says=f"module {module} is not installed: it is {package} in requirements.txt",
        vague=True,
    )


def _not_installed(error: str) -> Signature:
    return Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.SYMPTOM,
        literal=error.lower(),
        pattern=re.compile(rf"\b{error}\b:?(?:\s|$)"),
        example=f'AlgorithmError: {error}: ExitCode 1 ErrorMessage "" Command '
        '"/opt/conda/bin/python3.11 -m pip install -r requirements.txt", exit code: 1',
        near_miss=f"INFO except {error}:pass",
        says="pip could not install what requirements.txt asks for",
        vague=True,
    )


SIGNATURES = (
    *(_missing(module, package) for module, package in PACKAGE_OF.items()),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="modulenotfounderror",
        pattern=re.compile(r"^ModuleNotFoundError: No module named '(?P<module>[^'.]+)'"),
        example="ModuleNotFoundError: No module named 'einops'",
        near_miss="INFO ModuleNotFoundError: No module named 'apex', going on without",
        says="module {module} is not installed: requirements.txt in the source folder does not bring it",
        vague=True,
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="importerror: no module named",
        # Python before 3.6: without quotes in Python 2 (Python/import.c).
        pattern=re.compile(r"^ImportError: No module named '?(?P<module>\w{1,200})'?$"),
        example="ImportError: No module named mpi4py",
        near_miss="INFO ImportError: No module named apex, going on without",
        says="module {module} is not installed: requirements.txt in the source folder does not bring it",
        vague=True,
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="operator torchvision::",
        pattern=re.compile(r"^RuntimeError: operator torchvision::\w+ does not exist"),
        example="RuntimeError: operator torchvision::nms does not exist",
        near_miss="INFO operator torchvision::nms is registered",
        says="torchvision is not built for the torch that is there: its operators cannot be loaded",
        remedy="torch and torchvision have to come from one index and in versions that belong together. "
        "AWS's images have such a pair: leave versions of both out of requirements.txt. Into the Python of a "
        "local run install them yourself, as with `pip install torch torchvision --index-url "
        "https://download.pytorch.org/whl/cpu`: what is there is not installed again.",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="could not find a version that satisfies the requirement",
        pattern=re.compile(
            r"ERROR: Could not find a version that satisfies the requirement (?P<package>.{1,200}?) "
            r"\(from versions: (?P<versions>[^)]{0,400})"
        ),
        example="ERROR: Could not find a version that satisfies the requirement einops==99 (from versions: "
        "0.8.0, 0.8.1)",
        near_miss="INFO no ERROR: Could not find a version that satisfies the requirement",
        says="pip finds no {package}; versions that it finds: {versions}",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="no matching distribution found for",
        pattern=re.compile(r"ERROR: No matching distribution found for (?P<package>\S.{0,200})"),
        example="ERROR: No matching distribution found for einops==99",
        near_miss="INFO no matching distribution found for the histogram",
        says="pip finds no package {package}",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="because these package versions have conflicting dependencies",
        pattern=re.compile(r"ERROR: Cannot install (?P<packages>.{1,300}?) because these package versions"),
        example="ERROR: Cannot install -r requirements.txt (line 1) and torch==2.8.0 because these package "
        "versions have conflicting dependencies.",
        near_miss="INFO not installed because these package versions have conflicting dependencies",
        says="pip finds no versions that fit together of {packages}",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="resolutionimpossible",
        pattern=re.compile(r"ERROR: ResolutionImpossible: for help visit"),
        example="ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/",
        near_miss="INFO except ResolutionImpossible",
        says="pip finds no versions of the required packages that fit together",
        vague=True,
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="could not build wheels for",
        pattern=re.compile(r"ERROR: Could not build wheels for (?P<package>[^\s,]+)"),
        example="ERROR: Could not build wheels for deepspeed, which is required to install "
        "pyproject.toml-based projects",
        near_miss="WARNING: Could not build wheels for deepspeed, using the source",
        says="pip cannot build {package} from its source, and there is no wheel of it for this Python",
    ),
    Signature(
        mode=job_runtime.EXTENSION_MISMATCH,
        role=LineRole.INITIATOR,
        literal="undefined symbol:",
        pattern=re.compile(
            r"^(?!.{0,200}(?:[Ww]arning|Failed to load image Python extension|warn\()).{0,300}?"
            r"(?P<library>[\w.+-]{1,120}\.so[\w.]{0,20}): undefined symbol:(?: (?P<symbol>\w{1,80}))?"
        ),
        example="ImportError: "
        "/opt/conda/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-"
        "gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        near_miss="UserWarning: Failed to load image Python extension: '/opt/conda/lib/image.so: undefined "
        "symbol: _ZN3c104cuda9SetDeviceEi'",
        says="{library} was built for another torch or CUDA than the one that is there",
    ),
    Signature(
        mode=job_runtime.EXTENSION_MISMATCH,
        role=LineRole.INITIATOR,
        literal="' not found (required by ",
        pattern=re.compile(
            r"version [`'](?P<version>(?:GLIBC|GLIBCXX|CXXABI)_[\d.]{1,12})' not found \(required by "
            r"(?P<library>[^)\s]{1,300})"
        ),
        example="ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found "
        "(required by /root/.cache/torch_extensions/cpu_adam.so)",
        near_miss="INFO version '3' not found (required by nobody)",
        says="{library} wants {version}, which the image's C++ library does not have",
    ),
    *(_not_installed(error) for error in ("InstallRequirementsError", "InstallModuleError")),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="requires a different python",
        pattern=re.compile(
            r"^ERROR: Package (?P<package>\S{1,100}) requires a different Python: (?P<there>\S{1,20}) not in "
            r"(?P<wanted>\S{1,60})"
        ),
        example="ERROR: Package 'transformers' requires a different Python: 3.7.16 not in '>=3.8.0'",
        near_miss="WARNING: a package requires a different Python, skipping it",
        says="{package} wants Python {wanted}, and the image's is {there}",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="error: ",
        # conda and mamba.
        pattern=re.compile(r"^(?P<what>(?:PackagesNotFound|LibMambaUnsatisfiable)Error: .{1,200})"),
        example="PackagesNotFoundError: The following packages are not available from current channels:",
        near_miss="INFO PackagesNotFoundError: they are asked for in another channel",
        says="conda has no such environment: {what}",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="library but it was not found in your environment",
        # transformers' requires_backends, below a line that says ImportError alone.
        pattern=re.compile(r"^\w{1,80} requires the (?P<package>[\w. -]{1,60}) library but it was not found"),
        example="LlamaTokenizer requires the SentencePiece library but it was not found in your environment.",
        near_miss="INFO it wants a library but it was not found in your environment",
        says="package {package} is not installed",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="error: ",
        pattern=re.compile(
            r"^(?:ERROR: (?P<what>Failed to build installable wheels for .{1,200}"
            r"|THESE PACKAGES DO NOT MATCH THE HASHES|Invalid requirement: .{1,200}"
            r"|\S{1,200}\.whl is not a supported wheel on this platform|Could not open requirements "
            r"file: .{1,200}"
            r"|Could not install packages due to an OSError: HTTPSConnectionPool.{1,100})"
            r"|error: (?P<why>externally-managed-environment))"
        ),
        example="ERROR: Failed to build installable wheels for some pyproject.toml based projects "
        "(flash-attn)",
        near_miss="INFO ERROR: Invalid requirement: 'torch=2.1' is skipped",
        says="pip installs nothing: {what}",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.SYMPTOM,
        literal="error: ",
        pattern=re.compile(r"^\s{0,8}error: (?:subprocess-exited-with-error|metadata-generation-failed)$"),
        example="  error: subprocess-exited-with-error",
        near_miss="INFO error: subprocess-exited-with-error is what pip says then",
        says="pip cannot build a package from its source",
        vague=True,
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="no solution found when resolving dependencies",
        pattern=re.compile(r"^\W{0,8}No solution found when resolving dependencies"),
        example="  × No solution found when resolving dependencies:",
        near_miss="INFO no solution found when resolving dependencies, asking again",
        says="uv finds no versions of the required packages that fit together",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="error: ",
        # What a package raises that misses another one, or has it in another version, whatever its words.
        pattern=re.compile(
            r"^(?:(?:\w+\.)*(?:Import|ModuleNotFound)Error: (?!cannot import name|attempted relative "
            r"import|No module named"
            r"|\S{1,300}\.so[\d.]*: "
            r")(?P<what>.{0,300}?\b(?:required?|requires|installed|[Ii]nstall|were not found"
            r"|but found)\b.{0,200})"
            r"|(?:\w+\.)*\w+Error: (?P<why>.{0,200}?\b(?:not (?:being )?installed|to be installed"
            r"|No package metadata was found for \S{1,60}|Cannot find a working triton installation)))"
        ),
        example="ImportError: Using `bitsandbytes` 4-bit quantization requires the latest version of "
        "bitsandbytes: `pip install -U bitsandbytes`",
        near_miss="WARNING error: a package is not installed",
        says="a package is missing, or is there in another version: {what}",
        vague=True,
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="pkg_resources.",
        pattern=re.compile(
            r"^pkg_resources\.(?:DistributionNotFound|(?:Contextual)?VersionConflict): "
            r"(?P<what>.{1,200})"
        ),
        example="pkg_resources.DistributionNotFound: The 'tokenizers' distribution was not found and is "
        "required",
        near_miss="INFO pkg_resources.DistributionNotFound: it is made",
        says="a package is missing, or is there in another version: {what}",
    ),
    Signature(
        mode=job_runtime.REQUIREMENT_MISSING,
        role=LineRole.INITIATOR,
        literal="descriptors cannot be created directly",
        pattern=re.compile(r"^TypeError: Descriptors cannot(?: not)? be created directly"),
        example="TypeError: Descriptors cannot be created directly.",
        near_miss="INFO descriptors cannot be created directly",
        says="protobuf is newer than what the packages were made for: pin protobuf<4 in requirements.txt",
    ),
)

"""The packages of requirements.txt: installed once per host before the script starts, into its Python.

As the training toolkit of AWS's images does it (aws/sagemaker-training-toolkit, entry_point.py and
modules.py), but that what torch is built with stays as it is, and that a failure names the package. Also a
program, `python -m slipway.requirements FILE`, for the launcher's own local runs.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from slipway.failure import BootError
from slipway.processes.supervise import StopRequest, process_itself, supervise

# What pip says of an installation that failed: which package, and why.
#
# Texts: pip 20.3 to 26 (resolution/resolvelib/factory.py, req/req_file.py, wheel_builder.py,
# exceptions.py). pip prints its errors on stderr, and on stdout what a conflict is caused by.


UNREACHABLE = "the package index cannot be reached"

_NO_VERSION = re.compile(
    r"ERROR: Could not find a version that satisfies the requirement (?P<what>.+?) "
    r"\(from versions: (?P<versions>[^)]*)\)"
)
_NO_MATCH = re.compile(r"ERROR: No matching distribution found for (?P<what>.+)")
_CONFLICT = re.compile(r"ERROR: Cannot install (?P<what>.+?) because these package versions have conflicting")
_CAUSES = "The conflict is caused by:"
_NOT_BUILT = re.compile(
    r"ERROR: (?:Failed to build '(?P<named>[^']+)'|Failed building wheel for (?P<what>\S+)"
    r"|Could not build wheels for (?P<these>[^,\n]+))"
)
_NOT_BUILT_IN_CONTEXT = re.compile(r"╰─> (?!\[|See above)(?P<what>\S.*)")
_FAILED_BUILD = re.compile(
    r"subprocess-exited-with-error|metadata-generation-failed"
    r"|Discarding \S+?[. ].{0,200}errored out with exit status"
)
_TAKEN_UP = re.compile(r"^ *(?:Collecting|Processing) (?P<what>[^\s(]+)", re.MULTILINE)
"""What pip was at, on stdout: where its error names no package (pip 22 to 24 on a failed setup.py)."""
_OUTPUT_END = re.compile(r"\n[ │]*(?P<last>[^\n]{1,300})\n\s+(?:\[end of output\]|-{20,})")
"""The last line of what a build printed."""
_BUILD_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception)\b|(?:fatal )?error:|\S+: (?:fatal )?error:")
_NO_WAY = re.compile(
    r"after connection broken by|Failed to establish a new connection|Max retries exceeded"
    r"|Name or service not known|Temporary failure in name resolution|Network is unreachable"
)
_NOT_FETCHED = re.compile(r"(?:× |errored out with exit status \d+: )(?P<tool>git|hg|svn|bzr) (?P<what>\S+)")
_ADDRESS_FAILED = re.compile(r"× (?P<what>Failed to connect to \S+ while fetching [^\s?]+)")
_DENIED = re.compile(r"(?:\b401 (?:Client )?Error|HTTP error 40[13]|\b403 (?:Client )?Error|User for \S+: )")
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_NO_PIP = re.compile(r"No module named '?pip'?")
_ERROR = re.compile(r"^ERROR: (?P<what>.+)$", re.MULTILINE)

_MOST_VERSIONS = 5


def why_pip_failed(stdout: str, stderr: str, exit_code: int) -> tuple[str, str]:
    """The failure mode's code and, in a clause, which package it was and why pip did not install it."""
    both = f"{stdout}\n{stderr}"
    if _FULL.search(both):
        return "DISK001", "the disk is full (No space left on device)"
    return "CODE005", _reason(stdout, stderr, exit_code)


def _reason(stdout: str, stderr: str, exit_code: int) -> str:
    if _NO_PIP.search(stderr):
        return "this Python has no pip"
    conflict = _CONFLICT.search(stderr)
    if conflict:
        return f"no versions fit together: {_causes(stdout) or conflict['what']}"
    missing = _NO_VERSION.search(stderr)
    unnamed = missing or _NO_MATCH.search(stderr)
    if unnamed and _FAILED_BUILD.search(stderr):
        return _unbuilt(unnamed["what"], stderr)
    if missing and missing["versions"].strip() not in ("", "none"):
        versions = missing["versions"].split(", ")
        newest = ", ".join(versions[-_MOST_VERSIONS:])
        return f"there is no version {missing['what']} for this Python and machine; the newest are {newest}"
    if unnamed:
        return f"{unnamed['what']}: {_why_nothing_was_found(stderr)}"
    return _other(stdout, stderr, exit_code)


def _why_nothing_was_found(stderr: str) -> str:
    if _DENIED.search(stderr):
        return "the package index refuses these credentials"
    if _NO_WAY.search(stderr):
        return UNREACHABLE
    return "the package index has no package of that name for this Python and machine"


def _causes(stdout: str) -> str:
    """The lines below pip's own heading, up to the next empty one."""
    _, heading, rest = stdout.partition(_CAUSES)
    lines = rest.lstrip("\r\n").splitlines() if heading else []
    causes = []
    for line in lines:
        if not line.strip():
            break
        causes.append(line.strip())
    return "; ".join(causes)


def _other(stdout: str, stderr: str, exit_code: int) -> str:
    built = _NOT_BUILT.search(stderr)
    named = next((name for name in built.groups() if name), None) if built else None
    if built is None and _FAILED_BUILD.search(stderr):
        arrows = _NOT_BUILT_IN_CONTEXT.findall(stderr)
        taken_up = _TAKEN_UP.findall(stdout)
        named = arrows[-1].strip() if arrows else taken_up[-1] if taken_up else "a package"
        named = re.sub(r"^.*/|\.(?:tar\.\w+|zip|tgz)$", "", named)
    fetched = _NOT_FETCHED.search(stderr)
    if fetched:
        whose = named.partition(" ")[0] if named else "a package"
        return (
            f"{whose} cannot be fetched: {fetched['tool']} {fetched['what']} failed, whose own error stands "
            "above in the log"
        )
    address = _ADDRESS_FAILED.search(stderr)
    if address:
        return address["what"]
    if named:
        return _unbuilt(named, stderr)
    errors = _ERROR.findall(stderr)
    if errors:
        return errors[-1].strip() if _DENIED.search(stderr) is None else f"{errors[-1].strip()} (refused)"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"pip ended with exit code {exit_code}"


def _unbuilt(package: str, stderr: str) -> str:
    """That there is no wheel of a package and its build failed, with its last line where that is an error."""
    last = [match["last"].strip() for match in _OUTPUT_END.finditer(stderr)]
    errors = [line for line in last if _BUILD_ERROR.match(line)]
    why = f": {errors[-1]}" if errors else "; its build's own error stands above in the log"
    return f"{package} has no wheel for this Python and machine and cannot be built from its source here{why}"


DEFAULT_FILE = "requirements.txt"
"""What is installed where the job does not say otherwise, and not missed where it is not there."""

INDEX_VARIABLE = "CA_REPOSITORY_ARN"
"""The environment variable with the CodeArtifact repository to install from, as the toolkit reads it."""

WITHOUT_A_WAY_OUT = (
    "In a VPC without a way out, set CA_REPOSITORY_ARN in `environment` to a repository of CodeArtifact that "
    "has an endpoint there, or pack wheels and write --no-index and --find-links ./wheels into the file"
)

_PIP_SETTINGS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    # The environment is the job's own and ends with it: what a system's Python forbids (PEP 668) is meant.
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PYTHONUNBUFFERED": "1",
}
"""Variables and no options: pip ignores those that it is too old to know."""

_BUILT_FOR_TORCH = (
    "torch", "torchvision", "torchaudio", "torchtext", "torch-xla", "torch-neuronx", "torch-tensorrt", "apex",
    "flash-attn", "transformer-engine", "transformer-engine-torch", "libneuronxla", "neuronx-cc",
    "smdistributed-dataparallel", "smdistributed-modelparallel",
)  # fmt: skip
"""Distributions of AWS's images that are compiled for each other: another version of one breaks the rest."""

_OF_CUDA = re.compile(r"(?:nvidia|cuda|triton|pytorch-triton)(?:-|$)")
_REQUIRED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[\w.!+-]+")
_ARN = re.compile(
    r"arn:[^:]+:codeartifact:(?P<region>[^:]+):(?P<account>[^:]+):repository/(?P<domain>[^/]+)/(?P<name>.+)"
)


# The working directory is the user's source, whose modules would come before Python's own: a types.py there
# would end pip. -I would leave out what PYTHONPATH leads to as well.
_PIP = """\
import sys
sys.path[:] = [place for place in sys.path if place]
sys.argv[0] = "pip"
import runpy
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def install(
    file: str,
    *,
    folder: Path,
    environment: Mapping[str, str],
    stop: StopRequest,
    logs: Path | None = None,
    hint: str = "",
) -> None:
    """Install the packages of `file` below `folder` with pip, into the Python that runs this.

    What pip prints is passed on line by line, and kept in `logs` where that is given; `hint` is what to do
    where no index can be reached. Returns early where a
    stop was requested, which ends pip. Raises BootError (CODE005, or DISK001 on a full disk) where a package
    cannot be installed; a file of the default name that is not there is none.
    """
    path = folder / file
    if not path.is_file():
        if file == DEFAULT_FILE:
            print(f"slipway: the source has no {file}: nothing to install", flush=True)
            return
        raise BootError("CODE005", f"{file} is not in the job's source. Correct `code.requirements`")
    print(f"slipway: installing {file}", flush=True)
    with tempfile.TemporaryDirectory(prefix="slipway-") as scratch:
        constraints = Path(scratch) / "constraints.txt"
        held = held_versions(metadata.distributions())
        constraints.write_text(
            "".join(f"{name}=={version}\n" for name, version in held.items()), encoding="utf-8"
        )
        ended = supervise(
            [sys.executable, "-c", _PIP, "install", "-c", str(constraints), "-r", str(path)],
            environment={**_PIP_SETTINGS, **environment, **index_settings(environment)},
            folder=folder,
            stop=stop,
            targets=process_itself,
            streams=(logs / "pip.stdout.log", logs / "pip.stderr.log") if logs else (None, None),
        )
    if ended.exit_code == 0 or stop.at is not None:
        return
    code, reason = why_pip_failed(ended.stdout, ended.stderr, ended.exit_code)
    kept = [name for name in held if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", reason)]
    more = f". {_kept_in_words(kept, held)}" if kept and "constraint" in reason else ""
    if reason.endswith(UNREACHABLE) and hint:
        more = f". {hint}"
    raise BootError(code, f"{file} cannot be installed: {reason}{more}")


def held_versions(distributions: Iterable[Any]) -> dict[str, str]:
    """What must stay as it is, by name: torch, what is compiled for it, and the CUDA that it requires.

    `distributions` are those installed, in the order in which Python finds them.
    """
    versions: dict[str, str] = {}
    needs: dict[str, Sequence[str]] = {}
    for each in distributions:
        name = _normal(each.metadata["Name"] or "")
        if name and name not in versions and _VERSION.fullmatch(each.version or ""):
            versions[name] = each.version
            needs[name] = each.requires or ()
    held: dict[str, str] = {}
    waiting = [name for name in _BUILT_FOR_TORCH if name in versions]
    while waiting:
        name = waiting.pop(0)
        if name in held:
            continue
        held[name] = versions[name]
        required = [match.group() for match in map(_REQUIRED.match, needs[name]) if match]
        waiting += [each for each in map(_normal, required) if each in versions and _OF_CUDA.match(each)]
    return held


def index_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """pip's index where CA_REPOSITORY_ARN names a repository: with a token, so for pip's own process only.

    Raises BootError (CODE005) where that is no such ARN, or AWS gives no token.
    """
    arn = environment.get(INDEX_VARIABLE)
    if not arn:
        return {}
    parts = _ARN.fullmatch(arn)
    if parts is None:
        raise BootError(
            "CODE005",
            f"{INDEX_VARIABLE} {arn!r} is not the ARN of a CodeArtifact repository: "
            "arn:aws:codeartifact:REGION:ACCOUNT:repository/DOMAIN/REPOSITORY",
        )
    try:
        client = importlib.import_module("boto3").client("codeartifact", region_name=parts["region"])
        domain = {"domain": parts["domain"], "domainOwner": parts["account"]}
        token = client.get_authorization_token(**domain)["authorizationToken"]
        endpoint = client.get_repository_endpoint(**domain, repository=parts["name"], format="pypi")
    except Exception as error:  # botocore's own classes cannot be named without the library
        raise BootError(
            "CODE005",
            f"the packages cannot be installed from {arn}: {type(error).__name__}: {error}. The job's role "
            "needs codeartifact:GetAuthorizationToken, codeartifact:GetRepositoryEndpoint, "
            "codeartifact:ReadFromRepository and sts:GetServiceBearerToken, the image boto3, and a VPC "
            "without a way out endpoints for codeartifact.api and codeartifact.repositories",
        ) from None
    address = str(endpoint["repositoryEndpoint"]).partition("://")[2].rstrip("/")
    return {"PIP_INDEX_URL": f"https://aws:{token}@{address}/simple/"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the file named by the only argument, relative to the working directory; 1 where that fails.

    The last line on stderr then begins with the failure mode's code.
    """
    (file,) = sys.argv[1:] if arguments is None else arguments
    # PYTHONPATH only leads here.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    stop = StopRequest()
    lifeline = environment.pop("SLIPWAY_LIFELINE", None)
    try:
        stop.listen(lifeline)
        install(file, folder=Path.cwd(), environment=environment, stop=stop)
    except BootError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0 if stop.at is None else 128 + stop.signal


def _kept_in_words(names: Sequence[str], held: Mapping[str, str]) -> str:
    kept = ", ".join(f"{name} {held[name]}" for name in names)
    return f"{kept} stays as it is, since other libraries there are built for it: ask for versions that fit"


def _normal(name: str) -> str:
    """A distribution's name as PEP 503 compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())

"""What pip says of an installation that failed: which package, and why.

Texts: pip 20.3 to 26 (resolution/resolvelib/factory.py, req/req_file.py, wheel_builder.py, exceptions.py).
pip prints its errors on stderr, and on stdout what a conflict is caused by.
"""

from __future__ import annotations

import re

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
_NOT_BUILT_IN_CONTEXT = re.compile(r"╰─> (?!\[)(?P<what>\S.*)")
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
    if missing and missing["versions"].strip() not in ("", "none"):
        versions = missing["versions"].split(", ")
        newest = ", ".join(versions[-_MOST_VERSIONS:])
        return f"there is no version {missing['what']} for this Python and machine; the newest are {newest}"
    unnamed = missing or _NO_MATCH.search(stderr)
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
    if built is None and ("subprocess-exited-with-error" in stderr or "metadata-generation-failed" in stderr):
        arrows = _NOT_BUILT_IN_CONTEXT.findall(stderr)
        named = arrows[-1].strip() if arrows else "a package"
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
        return (
            f"{named} has no wheel for this Python and machine and cannot be built from its source here; "
            "its build's own error stands above in the log"
        )
    errors = _ERROR.findall(stderr)
    if errors:
        return errors[-1].strip() if _DENIED.search(stderr) is None else f"{errors[-1].strip()} (refused)"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"pip ended with exit code {exit_code}"

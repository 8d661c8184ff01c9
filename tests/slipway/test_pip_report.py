"""Why pip failed, from what several of its versions print."""

from __future__ import annotations

import pytest

from slipway.pip_report import why_pip_failed

BROKEN = (
    "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after "
    "connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at "
    "0x7f>: Failed to establish a new connection: [Errno 101] Network is unreachable')': /simple/einops/\n"
)
NOTHING = (
    "ERROR: Could not find a version that satisfies the requirement einops (from versions: none)\n"
    "ERROR: No matching distribution found for einops\n"
)


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        (NOTHING, "einops: the package index has no package of that name for this Python and machine"),
        (BROKEN + NOTHING, "einops: the package index cannot be reached"),
        ("WARNING: 401 Error, Credentials not correct for https://x/\n" + NOTHING,
         "einops: the package index refuses these credentials"),
        ("ERROR: Could not find a version that satisfies the requirement einops==9 (from versions: 0.1, 0.2, "
         "0.3, 0.4, 0.5, 0.6)\nERROR: No matching distribution found for einops==9\n",
         "there is no version einops==9 for this Python and machine; the newest are 0.2, 0.3, 0.4, 0.5, 0.6"),
        ("  error: subprocess-exited-with-error\n  ERROR: Failed building wheel for deepspeed\n"
         "ERROR: Could not build wheels for deepspeed, which is required to install pyproject.toml-based "
         "projects\n",
         "deepspeed has no wheel for this Python and machine and cannot be built from its source here; its "
         "build's own error stands above in the log"),
        ("error: subprocess-exited-with-error\n\n× python setup.py egg_info did not run successfully.\n"
         "│ exit code: 1\n╰─> [1 lines of output]\n      no nvcc\n      [end of output]\n"
         "error: metadata-generation-failed\n\n× Encountered error while generating package metadata.\n"
         "╰─> flash-attn\n",
         "flash-attn has no wheel for this Python"),
        ("  error: subprocess-exited-with-error\n\n  × git clone --quiet https://h/x /tmp/x did "
         "not run successfully.\n  ╰─> No available output.\nERROR: Failed to build 'pkg' when git clone "
         "--quiet https://h/x /tmp/x\n",
         "pkg cannot be fetched: git clone failed, whose own error stands above in the log"),
        ("ERROR: Command errored out with exit status 128: git clone -q https://h/x /tmp/x Check the logs\n",
         "a package cannot be fetched: git clone failed"),
        ("error: connection-failed\n\n× Failed to connect to h.org while fetching https://h.org/x.whl?token=s3\n"
         "╰─> [Errno 111] Connection refused\n\nhint: Are you connected to the Internet?\n",
         "Failed to connect to h.org while fetching https://h.org/x.whl"),
        ("ERROR: Failed to build 'apex' when getting requirements to build wheel\n", "apex has no wheel for"),
        ("ERROR: Invalid requirement: 'two words'\n", "Invalid requirement: 'two words'"),
        ("ERROR: Could not open requirements file: [Errno 2] No such file or directory: 'base.txt'\n",
         "Could not open requirements file: [Errno 2] No such file or directory: 'base.txt'"),
        ("/usr/bin/python3: No module named pip\n", "this Python has no pip"),
        ("Killed\n", "Killed"),
        ("", "pip ended with exit code 3"),
    ],
)  # fmt: skip
def test_the_package_and_the_reason_are_named(stderr: str, reason: str) -> None:
    code, said = why_pip_failed("", stderr, 3)
    assert code == "CODE005"
    assert said.startswith(reason)
    assert "token" not in said


def test_a_conflict_is_told_with_what_causes_it() -> None:
    stdout = (
        "\nThe conflict is caused by:\n    lightning 2.0 depends on torch<2.1\n"
        "    The user requested (constraint) torch==2.8.0\n\nTo fix this you could try to:\n1. loosen\n"
    )
    stderr = (
        "ERROR: Cannot install lightning==2.0 because these package versions have conflicting dependencies.\n"
        "ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/\n"
    )
    assert why_pip_failed(stdout, stderr, 1) == (
        "CODE005",
        "no versions fit together: lightning 2.0 depends on torch<2.1; "
        "The user requested (constraint) torch==2.8.0",
    )


def test_a_full_disk_is_that_and_no_fault_of_a_package() -> None:
    stderr = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
    assert why_pip_failed("", stderr, 1) == ("DISK001", "the disk is full (No space left on device)")

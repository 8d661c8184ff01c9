"""What to do about a limit that was reached: the time-out of a process group, a quota."""

from __future__ import annotations

import re
from collections.abc import Sequence

from launcher.diagnosis.remedies.asked_job import AskedJob
from launcher.diagnosis.sighting import Sighting
from launcher.text.durations import exact_duration

_OF_GROUP = re.compile(r"\bTimeout\(ms\)=(\d{1,12})\)")
"""What the work of ProcessGroupNCCL says of its group (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)."""

_WAITED = re.compile(r"\bran for (\d{1,12}) milliseconds\b")
_WITHOUT_A_STEP = re.compile(r"no rank has made a step for (\d{1,9}) s \(limit (\d{1,9}) s\)")
"""What the boot's watchdog says (slipway/watchdog/judgement.py)."""

_QUOTA = re.compile(
    r"limit '(?P<limit>[^']{1,200})' is (?P<allowed>\d{1,9}) \w{1,40}, with current utilization of "
    r"(?P<used>\d{1,9}) \w{1,40} and a request delta of (?P<wanted>\d{1,9})\b"
)
"""What SageMaker says where a quota is too small (ResourceLimitExceeded)."""


def timeout(root: Sighting, job: AskedJob, alike: Sequence[Sighting] = ()) -> str | None:
    """How long it waited and what the limit was; None where no line tells the limit.

    `alike` are the other signs of the mode: the line with the times need not be the first one.
    """
    texts = [sign.text for sign in (root, *alike)]
    if still := _first(_WITHOUT_A_STEP, texts):
        waited, stall = map(exact_duration, map(int, still.groups()))
        said = f"The watchdog waited {waited} for a step; its limit (watchdog.stall) was {stall}."
        return f"{said} {root.mode.remedy}"
    group, waited_for = _first(_OF_GROUP, texts), _first(_WAITED, texts)
    if group is None:
        return None
    limit = exact_duration(int(group[1]) // 1000)
    said = f"The process group's limit is {limit}"
    if waited_for is not None:
        said = f"It waited {exact_duration(int(waited_for[1]) // 1000)}; the process group's limit is {limit}"
    given = job.number(("ddp_timeout",))
    which = f" That limit is {given.name}, which is {given.value}." if given is not None else ""
    return f"{said}. {root.mode.remedy}{which}"


def larger_quota(root: Sighting) -> str | None:
    """To how much the quota has to be raised for this job; None where the service does not say."""
    said = _QUOTA.search(root.text)
    if said is None:
        return None
    needed = int(said["used"]) + int(said["wanted"])
    return (
        f"Request an increase of '{said['limit']}' in Service Quotas from {said['allowed']} to at least "
        f"{needed} ({said['used']} in use, {said['wanted']} for this job), stop jobs and warm pools that "
        "hold it, or use fewer hosts."
    )


def _first(pattern: re.Pattern[str], texts: Sequence[str]) -> re.Match[str] | None:
    return next((found for text in texts if (found := pattern.search(text))), None)

"""The identity of a run: what makes a launch the same one, whichever machine repeats it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from launcher.failure_modes.model import Figure
from launcher.failure_modes.refusal import Refusal

FIGURES = (Figure("128", "characters of a run's id, a bound of our own", None),)

RUNS: tuple[tuple[str, ...], ...] = (
    ("GITHUB_REPOSITORY", "GITHUB_RUN_ID"),
    ("CI_PROJECT_ID", "CI_PIPELINE_ID"),
    ("BUILDKITE_BUILD_ID",),
    ("CIRCLE_WORKFLOW_ID",),
    ("CODEBUILD_BUILD_ID",),
    ("SYSTEM_TEAMPROJECTID", "BUILD_BUILDID"),
    ("BITBUCKET_REPO_UUID", "BITBUCKET_PIPELINE_UUID"),
    ("JENKINS_URL", "BUILD_TAG"),
    ("TRAVIS_BUILD_ID",),
)
"""The variables that tell one run from all others: of GitHub Actions, GitLab, Buildkite, CircleCI, CodeBuild,
Azure Pipelines, Bitbucket, Jenkins and Travis (each one's documentation of its predefined variables).

Those of the whole run, not of an attempt at it: a runner that died is followed by another, and the job that
it had started runs on meanwhile."""

_RUN_ID = re.compile(r"[\w.:/@=+-]{1,128}", re.ASCII)


def run_id_of(given: str | None, environment: Mapping[str, str]) -> str | None:
    """The id of this run: as given, else that of the continuous integration that runs it, else None.

    An empty one is none. Raises Refusal for one that could not be told from others at a glance.
    """
    if given is not None:
        if given and not _RUN_ID.fullmatch(given):
            raise Refusal(
                f"{given!r} is not an id of a run.",
                "Write it with letters, digits and . : / @ = + - _, at most 128 characters.",
            )
        return given or None
    for names in RUNS:
        values = [environment.get(name) for name in names]
        if all(values):
            return ":".join(map(str, values))
    return None

"""What is installed before the script starts, by whom and from where."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from launcher.jobs.code import Code
from launcher.planning.shown import shown_text
from launcher.planning.training_plan import TrainingPlan
from launcher.source.tree import SourceTree
from launcher.text.secrets import without_credentials

CODE_ARTIFACT_VARIABLE = "CA_REPOSITORY_ARN"
"""The environment variable with the CodeArtifact repository that packages come from, which the images'
toolkit reads (aws/sagemaker-training-toolkit, modules.py) and the boot as well."""

_PIP_INDEX_VARIABLE = "PIP_INDEX_URL"


@dataclass(frozen=True, slots=True)
class PlannedRequirements:
    """What pip installs on each host: the lines of the file, as they may be shown.

    `installed_by` is `boot` or `toolkit`, the one of AWS's images; `index` is where the packages come from,
    in words, `links` are further places.
    """

    file: str
    installed_by: str
    packages: tuple[str, ...]
    index: str
    links: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """In the shape that `plan --output json` prints."""
        return {**asdict(self), "packages": list(self.packages), "links": list(self.links)}


def boot_installs(code: Code, source: SourceTree) -> str | None:
    """The file that the boot is told to install: one that is packed, or one that cannot be looked for here.

    A default that is not there is nothing to install. What the user named is passed on wherever it is.
    """
    unseen = code.source_dir.startswith("s3://")
    if source.requirements is not None or unseen or code.requirements is not None:
        return code.requirements_file
    return None


def planned_requirements(plan: TrainingPlan) -> PlannedRequirements | None:
    """What the plan's job installs, as it is shown; None where it is nothing, or there is no request."""
    if plan.package is None or plan.view is None:
        return None
    found = plan.package.source.requirements
    if found is None:
        return None
    given = plan.view.environment
    environment = {name: shown_text(plan, value, ("environment", name)) for name, value in given.items()}
    repository = environment.get(CODE_ARTIFACT_VARIABLE)
    if found.no_index:
        index = "no index"
    elif found.index is not None:
        index = found.index
    elif repository:
        index = f"CodeArtifact, {repository}"
    else:
        index = without_credentials(environment.get(_PIP_INDEX_VARIABLE) or "PyPI")
    return PlannedRequirements(
        file=found.file,
        installed_by="boot" if plan.with_boot else "toolkit",
        packages=tuple(each.text for each in found.packages),
        index=index,
        links=(*found.links, *found.fetched),
    )

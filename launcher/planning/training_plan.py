"""The training plan: everything that a backend needs to run a job, and what was found on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from launcher.failure_modes.model import Finding, any_blocks
from launcher.jobs.specification import JobSpec
from launcher.jobs.substitutions import NOTHING_REPLACED, Substitutions
from launcher.planning.checkpoints import PlannedCheckpoints
from launcher.planning.debugger import PlannedDebugger
from launcher.planning.request_view import RequestView
from launcher.planning.setting import Setting
from launcher.planning.version_choice import VersionChoice
from launcher.source.packaging import SOURCE_NAME
from launcher.source.tree import SourceTree

Request = dict[str, Any]
"""A request, with the key names of the API."""

Operation = Literal["CreateTrainingJob", "CreateHyperParameterTuningJob"]
"""What a request is sent to."""


@dataclass(frozen=True, slots=True)
class SourcePackage:
    """What must be uploaded before the request is sent.

    `source` is the user's code as it was read for the plan, `s3_uri` the prefix where it goes, packed under
    the name `archive`; with `with_boot` it is the request's `code` channel, and the boot goes there too.
    """

    source: SourceTree
    s3_uri: str
    archive: str = SOURCE_NAME
    with_boot: bool = True

    @property
    def digest(self) -> str:
        """What the code was when it was planned: the last part of its prefix."""
        return self.s3_uri.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A job, or a tuning job of several, made concrete.

    `job` is the resolved job in the job file's own keys, `spec` the job itself with the version of its
    framework that was chosen (`version_choice`, None where the file names one; both None where the file has
    errors), `region` where it goes, `request` what is sent as it is to `operation` (None where errors kept
    it from being built), `placeholders` the names of the values that stand in for what only a cluster or an
    account knows; a submission to AWS refuses while there are any. `substitutions` are the values from
    variables: `launcher.planning.shown` makes what people see of the plan, without them. `settings` are
    what the plan chose for the environment, with reasons, also where the user's own choice stands instead.
    `queue_arn` is the cluster's queue, through which the job may go, `bucket_owners` the accounts of the
    cluster's buckets, by their names.

    What was derived on the way is there also without a request: `processes_per_host` and `world_size`, the
    processes of all hosts of a job (None where only the user can say, and did not), `with_boot`, whether
    the boot starts the script and not the toolkit of the image, where its `checkpoints` go (None where it
    keeps none), and whether `debugger` is on.
    """

    job: dict[str, Any]
    region: str | None
    request: Request | None
    package: SourcePackage | None
    findings: tuple[Finding, ...]
    placeholders: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    processes_per_host: int | None = None
    world_size: int | None = None
    with_boot: bool = False
    checkpoints: PlannedCheckpoints | None = None
    debugger: PlannedDebugger = field(default_factory=PlannedDebugger)
    operation: Operation = "CreateTrainingJob"
    queue_arn: str | None = None
    substitutions: Substitutions = NOTHING_REPLACED
    bucket_owners: Mapping[str, str] = field(default_factory=dict)
    spec: JobSpec | None = None
    version_choice: VersionChoice | None = None

    @property
    def name(self) -> str | None:
        """The unique name of the job, with which the names of a tuning job's training jobs begin."""
        return None if self.view is None else self.view.name

    @property
    def view(self) -> RequestView | None:
        """What the request says; None where there is none."""
        return None if self.request is None else RequestView(self.request)

    @property
    def refused(self) -> bool:
        """Whether it must not be sent: a finding is an error that nobody accepted, or there is no request."""
        return self.request is None or any_blocks(self.findings)

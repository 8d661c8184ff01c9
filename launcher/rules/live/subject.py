"""What a live rule is, and what it judges: a job and its request beside what the account holds."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

from launcher.account.facts import AccountFacts, Fact, Unverified
from launcher.account.network import NetworkState
from launcher.cluster.instances import InstanceFacts
from launcher.cluster.traffic import SecurityGroup
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.jobs.specification import JobSpec
from launcher.planning.request_view import FileSystemChannel, RequestView, S3Channel
from launcher.text.values import split_uri

T = TypeVar("T")


@frozen
class S3Location:
    """A place in S3 that the request names: its URI, what it is to the job, and the field it came from.

    `path` is that field of the job file, such as `("inputs", "train")`.
    """

    uri: str
    what: str
    path: tuple[str, ...]

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return split_uri(self.uri)[0]


@frozen
class LiveSubject:
    """A job, its request, and the facts about both.

    `job` is None where only the request is known, as of a job that has run; `facts` is None for an unknown
    instance type.
    """

    job: JobSpec | None
    request: RequestView
    facts: InstanceFacts | None
    account: AccountFacts

    @property
    def hosts_at_once(self) -> int:
        """The hosts of all jobs that run beside each other: a tuning job has several."""
        return self.hosts * self.request.jobs_at_once

    @property
    def hosts(self) -> int:
        """How many hosts the request asks for."""
        return self.request.hosts or 1

    @property
    def instance_type(self) -> str:
        """The hosts' type, such as `ml.p5.48xlarge`."""
        return str(self.request.instance_type)

    @property
    def has_efa(self) -> bool:
        """Whether the instance type is known to have EFA."""
        return self.facts is not None and self.facts.has_efa

    @property
    def subnet_ids(self) -> tuple[str, ...]:
        """The subnets that the request names; the service places the job in any one of them."""
        return self.request.subnet_ids

    @property
    def group_ids(self) -> tuple[str, ...]:
        """The security groups that the request names; every host has all of them."""
        return self.request.security_group_ids

    @property
    def network(self) -> NetworkState:
        """The network as far as it is known; what is not known is empty, so a rule asks for it first."""
        return NetworkState(
            subnets=known(self.account.subnets) or (),
            groups=known(self.account.groups) or (),
            route_tables=known(self.account.route_tables) or (),
            endpoints=known(self.account.endpoints) or (),
            acls=known(self.account.acls) or (),
        )

    @property
    def file_system_groups(self) -> tuple[SecurityGroup, ...]:
        """The groups of the file system's servers, as far as they are known."""
        return known(self.account.file_system_groups) or ()

    @property
    def mounts(self) -> tuple[FileSystemChannel, ...]:
        """The Lustre directories that the job mounts."""
        return self.request.mounts

    @property
    def inputs(self) -> tuple[S3Location, ...]:
        """What the job reads from S3. The code is not among it: it is uploaded with the submission."""
        return tuple(map(_input, self.request.s3_inputs))

    @property
    def downloads(self) -> tuple[S3Location, ...]:
        """The inputs in File mode: downloaded by every host before the script starts."""
        return tuple(_input(channel) for channel in self.request.s3_inputs if channel.mode == "File")

    @property
    def checkpoints(self) -> S3Location | None:
        """Where the checkpoints go, whoever moves them; None where they do not go to S3."""
        uri = self.request.checkpoints.prefix
        return None if uri is None else S3Location(uri, "checkpoints", ("checkpoint", "s3_uri"))

    @property
    def places(self) -> tuple[S3Location, ...]:
        """Every place in S3 that the request names, the inputs first."""
        return tuple(self._places())

    def _places(self) -> Iterator[S3Location]:
        yield from self.inputs
        if self.checkpoints is not None:
            yield self.checkpoints
        if self.request.output_uri is not None:
            yield S3Location(self.request.output_uri, "output", ("output", "s3_uri"))
        if self.request.code_uri is not None:
            yield S3Location(self.request.code_uri, "code", ("cluster",))


def _input(channel: S3Channel) -> S3Location:
    return S3Location(channel.uri, f"input {channel.name}", ("inputs", channel.name))


def known(fact: Fact[T] | None) -> T | None:
    """The fact where it was had; None where it was not, or is not needed."""
    return None if isinstance(fact, Unverified) else fact


Judge: TypeAlias = Callable[[LiveSubject], Iterator[Finding]]

_FACTS = frozenset(field.name for field in dataclasses.fields(AccountFacts)) - {"region"}


def live_rule(mode: FailureMode, *facts: str, absence_counts: bool = False) -> Callable[[Judge], Judge]:
    """Register a rule that finds `mode` and judges by these fields of AccountFacts.

    Where one of the facts could not be had, the rule is not called: each gives one finding that says
    so. Where one is None, because the job does not need it, nothing is found; a rule with
    `absence_counts` is called all the same, because None is also what does not exist.

    Raises ValueError where a field is not in AccountFacts.
    """
    if unknown := set(facts) - _FACTS:
        raise ValueError(f"AccountFacts has no {', '.join(sorted(unknown))}")

    def mark(judge: Judge) -> Judge:
        @functools.wraps(judge)
        def guarded(subject: LiveSubject) -> Iterator[Finding]:
            held = [getattr(subject.account, name) for name in facts]
            if None in held and not absence_counts:
                return
            missing = [fact for fact in held if isinstance(fact, Unverified)]
            if missing:
                yield from (could_not_verify(mode, fact) for fact in missing)
            else:
                yield from judge(subject)

        return finds(Stage.LIVE, mode)(guarded)

    return mark


def could_not_verify(mode: FailureMode, fact: Unverified) -> Finding:
    """The finding in place of a judgement: what could not be seen, why, and the permission for it."""
    return mode.finding(
        Stage.LIVE,
        f"could not verify ({mode.title}): {fact.what} could not be read, which needs {fact.permission}: "
        f"{fact.reason.rstrip('.')}",
        remedy=f"Ask for {fact.permission} (the cluster's launcher policy has what the checks need), or "
        "look at it yourself before you launch.",
        severity=Severity.WARNING,
        subject=fact.what,
        verified=False,
    )

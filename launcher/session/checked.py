"""A diagnosis held against the account: what may lie behind it is looked at at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from launcher.account.questions.gathering import gather, gather_network
from launcher.aws.clients import Clients
from launcher.backends.interface import JobStatus
from launcher.cluster.instances import instance_facts
from launcher.diagnosis.model import AccountCheck, CheckOutcome, Diagnosis
from launcher.failure_modes.model import Retry
from launcher.failure_modes.refusal import AwsRefusal
from launcher.planning.request_view import RequestView
from launcher.rules.live.subject import LiveSubject
from launcher.rules.live.suspects import OF_NETWORK, checked, suspects_of
from launcher.session.diagnosis import Check
from launcher.session.wanted import wanted_of


def account_check(clients: Clients) -> Check:
    """What asks the account about a diagnosis, with the clients of a command."""

    def check(diagnosis: Diagnosis, status: JobStatus) -> Diagnosis:
        codes = suspects_of(diagnosis, status.hosts)
        if not codes or status.request is None or status.request.region is None:
            return diagnosis
        return _with(diagnosis, _checks(clients, status.request, status.request.region, codes))

    return check


def _checks(
    clients: Clients, request: RequestView, region: str, codes: Sequence[str]
) -> tuple[AccountCheck, ...]:
    """What the account shows of the codes; where it cannot be asked at all, that and why."""
    wanted = wanted_of(request, region)
    try:
        asked = gather_network if OF_NETWORK.issuperset(codes) else gather
        account = asked(clients, wanted)
    except AwsRefusal as refusal:
        said = f"the account could not be asked: {refusal.message}"
        return tuple(AccountCheck(code, CheckOutcome.NOT_VERIFIED, said, refusal.remedy) for code in codes)
    facts = instance_facts(wanted.instance_type)
    return checked(LiveSubject(job=None, request=request, facts=facts, account=account), codes)


def _with(diagnosis: Diagnosis, checks: tuple[AccountCheck, ...]) -> Diagnosis:
    """The diagnosis with the checks. What is wrong in the account stays so on other hosts and later."""
    wrong = any(each.outcome is CheckOutcome.WRONG for each in checks)
    return replace(diagnosis, checked=checks, retry=Retry.NEVER if wrong else diagnosis.retry)

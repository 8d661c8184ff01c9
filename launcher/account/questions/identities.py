"""The identities' part of the live stage: the role, who launches, and what IAM lets both do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launcher.account.facts import Fact
from launcher.account.permissions import (
    Check,
    Decision,
    Permissions,
    parse_evaluation,
    permissions_of,
    principal_of,
)
from launcher.account.questions.asking import Answers, Question, Service
from launcher.account.questions.needs import caller_checks, role_checks
from launcher.account.questions.wanted import Wanted
from launcher.account.role import Role, parse_role
from launcher.account.unverified import Unverified
from launcher.aws.errors import aws_errors
from launcher.aws.session import Caller, fetch_caller

_SIMULATE = "iam:SimulatePrincipalPolicy"
_WHAT_YOU_MAY = "what you may do"

Simulation = Question[tuple[Decision, ...]]


class IdentityQuestions:
    """What is asked about the role and the caller, and what comes of it.

    `known_caller` is the caller's ARN, where it is known before; else STS is asked.
    """

    def __init__(self, wanted: Wanted, known_caller: str | None = None) -> None:
        self._role_arn = wanted.role_arn
        self._known_caller = known_caller
        self._caller_checks = caller_checks(wanted)
        self._iam = Service("iam", wanted.region)
        self._identity: Question[Caller] = Service("sts", wanted.region).question(
            "who you are", "sts:GetCallerIdentity", fetch_caller
        )
        self._role: Question[Role | None] = self._iam.question(
            "the role", "iam:GetRole", fetch_role, wanted.role_arn
        )
        self._role_may = self._simulations("what the role may do", wanted.role_arn, role_checks(wanted))

    def questions(self, answers: Answers) -> list[Question[Any]]:
        """All that can be asked, with the answers so far."""
        first = [] if self._known_caller is not None else [self._identity]
        return [*first, self._role, *self._role_may, *self._about_caller(answers)]

    def role(self, answers: Answers) -> Fact[Role | None]:
        """The role, None where there is none."""
        return answers.of(self._role)

    def permissions(self, answers: Answers) -> Fact[Permissions] | None:
        """What the role lacks; None where there is no role."""
        if answers.of(self._role) is None:
            return None
        return _put_together(self._role_arn, self._role_may, answers)

    def caller(self, answers: Answers) -> Fact[Permissions] | None:
        """What the caller lacks; nothing for the account's root user, whom no policy binds."""
        arn = self._caller_arn(answers)
        if arn is None or isinstance(arn, Unverified):
            return arn
        if arn.endswith(":root"):
            return Permissions(arn, ())
        principal = principal_of(arn)
        if principal is None:
            reason = f"IAM cannot simulate {arn}, which is neither a user nor a role."
            return Unverified(_WHAT_YOU_MAY, _SIMULATE, reason)
        exact = self._with_path(principal, answers) or principal
        return _put_together(exact, self._caller_may(exact), answers)

    def _about_caller(self, answers: Answers) -> list[Question[Any]]:
        """The simulations for the caller, under the ARN that a session tells or the one with its path."""
        arn = self._caller_arn(answers)
        principal = None if arn is None or isinstance(arn, Unverified) else principal_of(arn)
        if principal is None:
            return []
        if ":role/" not in principal:
            return [*self._caller_may(principal)]
        # Most roles have no path: rather guess that than wait for it.
        exact = self._with_path(principal, answers) or principal
        return [self._caller_role(principal), *self._caller_may(exact)]

    def _caller_arn(self, answers: Answers) -> Fact[str] | None:
        if self._known_caller is not None:
            return self._known_caller
        identity = answers.of(self._identity)
        return identity.arn if isinstance(identity, Caller) else identity

    def _with_path(self, principal: str, answers: Answers) -> str | None:
        """The ARN of the caller's role as IAM has it; None where it is not known."""
        role = answers.of(self._caller_role(principal))
        return role.arn if isinstance(role, Role) else None

    def _caller_role(self, principal: str) -> Question[Role | None]:
        return self._iam.question("the path of your role", "iam:GetRole", fetch_role, principal)

    def _caller_may(self, principal: str) -> tuple[Simulation, ...]:
        return self._simulations(_WHAT_YOU_MAY, principal, self._caller_checks)

    def _simulations(self, what: str, principal: str, checks: Iterable[Check]) -> tuple[Simulation, ...]:
        return tuple(self._iam.question(what, _SIMULATE, simulate, principal, check) for check in checks)


def fetch_role(iam: Any, name_or_arn: str) -> Role | None:
    """The role; None if there is no such role.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    name = name_or_arn.rpartition("/")[2]
    with aws_errors(f"look up the role {name} (iam:GetRole)"):
        try:
            return parse_role(iam.get_role(RoleName=name)["Role"])
        except iam.exceptions.NoSuchEntityException:
            return None


def simulate(iam: Any, principal: str, check: Check) -> tuple[Decision, ...]:
    """IAM's decisions on one check, for a user or role.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"simulate the permissions of {principal} (iam:SimulatePrincipalPolicy)"):
        pages = iam.get_paginator("simulate_principal_policy").paginate(
            PolicySourceArn=principal,
            ActionNames=list(check.actions),
            ResourceArns=list(check.resources),
            ContextEntries=[
                {
                    "ContextKeyName": name,
                    "ContextKeyValues": list(values),
                    "ContextKeyType": "string" if len(values) == 1 else "stringList",
                }
                for name, values in check.context.items()
            ],
        )
        return tuple(
            decision
            for page in pages
            for each in page["EvaluationResults"]
            for decision in parse_evaluation(each, resource_may_allow=check.resource_may_allow)
        )


def _put_together(principal: str, simulations: Iterable[Simulation], answers: Answers) -> Fact[Permissions]:
    """One fact from many simulations: what is denied is certain, whatever the others would have said."""
    found = [answers.of(each) for each in simulations]
    decisions = [
        decision
        for answer in found
        if answer is not None and not isinstance(answer, Unverified)
        for decision in answer
    ]
    permissions = permissions_of(principal, decisions)
    unverified = next((each for each in found if isinstance(each, Unverified)), None)
    return permissions if permissions.denied or unverified is None else unverified

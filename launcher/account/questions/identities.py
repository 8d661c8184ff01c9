"""The identities' part of the live stage: the role, who launches, and what IAM lets both do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from launcher.account.facts import Fact
from launcher.account.permissions import Check, Permissions, permissions_of, principal_of, simulate
from launcher.account.questions.asking import Answers, Question
from launcher.account.questions.needs import caller_checks, role_checks
from launcher.account.questions.wanted import Wanted
from launcher.account.role import Role, fetch_role
from launcher.account.unverified import Unverified
from launcher.aws.clients import Clients
from launcher.aws.session import caller_arn

_SIMULATE = "iam:SimulatePrincipalPolicy"


@dataclass(frozen=True, slots=True)
class IdentityQuestions:
    """What is asked about the role and the caller, and what comes of it.

    `known_caller` is the caller's ARN, where it is known before; else STS is asked.
    """

    clients: Clients
    wanted: Wanted
    known_caller: str | None = None

    def questions(self, answers: Answers) -> dict[str, Question]:
        """All that can be asked, with the answers so far."""
        asked: dict[str, Question] = {}
        if self.known_caller is None:
            asked["caller"] = Question(
                "who you are", "sts:GetCallerIdentity", lambda: caller_arn(self._client("sts"))
            )
        asked["role"] = Question(
            "the role",
            "iam:GetRole",
            lambda: fetch_role(self._client("iam"), self.wanted.role_arn),
        )
        asked |= self._simulations(
            "role may", "what the role may do", self.wanted.role_arn, role_checks(self.wanted)
        )
        return asked | self._about_caller(answers)

    def role(self, answers: Answers) -> Fact[Role | None] | None:
        """The role, None where there is none."""
        found: Fact[Role | None] | None = answers.get("role")
        return found

    def permissions(self, answers: Answers) -> Fact[Permissions] | None:
        """What the role lacks; None where there is no role."""
        if answers.get("role") is None:
            return None
        return _put_together(self.wanted.role_arn, _of(answers, "role may"))

    def caller(self, answers: Answers) -> Fact[Permissions] | None:
        """What the caller lacks; nothing for the account's root user, whom no policy binds."""
        arn = self._caller(answers)
        if arn is None or isinstance(arn, Unverified):
            return arn
        if arn.endswith(":root"):
            return Permissions(arn, ())
        principal = principal_of(arn)
        if principal is None:
            reason = f"IAM cannot simulate {arn}, which is neither a user nor a role."
            return Unverified("what you may do", _SIMULATE, reason)
        exact = self._with_path(principal, answers)
        key = "caller may" if exact in (None, principal) else "caller by path may"
        return _put_together(exact or principal, _of(answers, key))

    def _about_caller(self, answers: Answers) -> dict[str, Question]:
        """The simulations for the caller, under the ARN that a session tells or the one with its path."""
        arn = self._caller(answers)
        if arn is None or isinstance(arn, Unverified):
            return {}
        principal = principal_of(arn)
        if principal is None:
            return {}
        what, checks = "what you may do", caller_checks(self.wanted)
        if ":role/" not in principal:
            return self._simulations("caller may", what, principal, checks)
        asked = {
            "caller role": Question(
                "the path of your role",
                "iam:GetRole",
                lambda: fetch_role(self._client("iam"), principal),
            )
        }
        exact = self._with_path(principal, answers)
        if exact is None or exact == principal:
            # Most roles have no path: rather guess that than wait for it.
            return asked | self._simulations("caller may", what, principal, checks)
        return asked | self._simulations("caller by path may", what, exact, checks)

    def _caller(self, answers: Answers) -> Fact[str] | None:
        found: Fact[str] | None = self.known_caller or answers.get("caller")
        return found

    @staticmethod
    def _with_path(principal: str, answers: Answers) -> str | None:
        """The ARN of the caller's role as IAM has it; None where it is not known."""
        role = answers.get("caller role")
        return role.arn if isinstance(role, Role) else None

    def _simulations(
        self, key: str, what: str, principal: str, checks: Iterable[Check]
    ) -> dict[str, Question]:
        def question(check: Check) -> Question:
            return Question(what, _SIMULATE, lambda: simulate(self._client("iam"), principal, check))

        return {f"{key} {number}": question(check) for number, check in enumerate(checks)}

    def _client(self, service: str) -> Any:
        return self.clients(service, self.wanted.region)


def _of(answers: Answers, key: str) -> list[Any]:
    return [answer for name, answer in answers.items() if name.startswith(f"{key} ")]


def _put_together(principal: str, answers: list[Any]) -> Fact[Permissions]:
    """One fact from many simulations: what is denied is certain, whatever the others would have said."""
    decisions = [each for answer in answers if not isinstance(answer, Unverified) for each in answer]
    found = permissions_of(principal, decisions)
    unverified = next((each for each in answers if isinstance(each, Unverified)), None)
    return found if found.denied or unverified is None else unverified

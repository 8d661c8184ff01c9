"""What people are told of a managed run, by mail or chat: a line that says it all, then the rest."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.planning.next_attempt import managed_budget
from launcher.session.managed.records import AttemptRecord, ManagedPlan, Records, StartClaim
from launcher.text.values import duration_in_words, without_controls

_LONGEST_SUBJECT = 99
"""Characters; SNS takes fewer than 100, ASCII without line feeds (Amazon SNS API reference, Publish)."""


@frozen
class RunNotice:
    """A message: the subject is one line of ASCII, the text has several."""

    subject: str
    text: str


def notice_of_end(plan: ManagedPlan, record: AttemptRecord, records: Records) -> RunNotice:
    """That an attempt has ended: how, why, what follows, what it cost, where the page is."""
    cause = f" ({record.cause})" if record.cause else ""
    lines = [f"{plan.job}: attempt {record.number}, {record.name}, is {record.state}{cause}.", ""]
    lines += _cause(record)
    lines += [decision_in_words(record), "", *_costs(plan, record, records), ""]
    lines += [f"Page: {records.uri(f'attempt-{record.number}.html')}", f"Run:  launch status {plan.first}"]
    return _notice(f"{plan.job} attempt {record.number} {record.state}{cause}", lines)


def notice_of_stop(plan: ManagedPlan, claim: StartClaim) -> RunNotice:
    """That no other attempt starts, as somebody has stopped the run."""
    said = f"{plan.job}: the run was stopped by {claim.who}; attempt {claim.number} does not start."
    return _notice(f"{plan.job} stopped", [said, "", f"Run:  launch status {plan.first}"])


def notice_of_failed_start(plan: ManagedPlan, number: int, refusal: Refusal) -> RunNotice:
    """That the next attempt could not be started."""
    lines = [
        f"{plan.job}: attempt {number} could not be started: {refusal.message}",
        "",
        f"To do: {refusal.remedy} The controller tries again four times within some four hours; then its "
        "alarm tells that the run is lost.",
        "",
        f"Run:  launch status {plan.first}",
    ]
    return _notice(f"{plan.job} attempt {number} not started", lines)


def decision_in_words(record: AttemptRecord) -> str:
    """What follows an attempt, in one sentence."""
    following = record.following
    if following is None:
        return f"No other attempt follows: {record.why}."
    when = f" after {duration_in_words(following.wait_seconds)}" if following.wait_seconds else ""
    return f"Attempt {record.number + 1} follows{when} on {following.instance_type}: {record.why}."


def _cause(record: AttemptRecord) -> Iterator[str]:
    if record.message is None:
        return
    who = "" if record.rank is None else f" on rank {record.rank}"
    where = "" if record.host is None else f" of {record.host}" if who else f" on {record.host}"
    yield f"Cause{who}{where}: {record.message}"
    if record.remedy and record.following is None:
        yield f"To do: {record.remedy}"
    yield ""


def _costs(plan: ManagedPlan, record: AttemptRecord, records: Records) -> Iterator[str]:
    spent = [each.usd for each in records.attempts()]
    if record.usd is None or any(usd is None for usd in spent):
        yield "Cost: not known, as no price of the hosts is."
        return
    budget = managed_budget(plan.requests)
    within = "" if budget is None else f" of {budget:,.2f} USD"
    total = sum(usd or 0.0 for usd in spent)
    yield f"Cost: {record.usd:,.2f} USD; the run so far {total:,.2f} USD{within}."


def _notice(subject: str, lines: list[str]) -> RunNotice:
    plain = without_controls(f"slipway: {subject}").encode("ascii", "replace").decode()
    return RunNotice(plain.replace("\n", " ")[:_LONGEST_SUBJECT], "\n".join(map(without_controls, lines)))

"""What passes by itself, what a new sign-in cures, and what stays."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from launcher.aws.faults import CredentialsExpired, Outage, answers
from launcher.failure_modes.refusal import AwsRefusal


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        pytest.param(400, "ThrottlingException", Outage, id="throttled, by its code"),
        pytest.param(429, "Odd", Outage, id="throttled, by the status alone"),
        pytest.param(500, "Odd", Outage, id="a service's fault, by the status alone"),
        pytest.param(503, "Odd", Outage, id="another"),
        pytest.param(400, "InternalFailure", Outage, id="a service's fault, by its code"),
        pytest.param(403, "RequestTimeTooSkewed", Outage, id="a wrong clock"),
        pytest.param(400, "ExpiredToken", CredentialsExpired, id="expired credentials"),
        pytest.param(400, "Odd", AwsRefusal, id="the caller's mistake"),
        pytest.param(404, "Odd", AwsRefusal, id="nothing there"),
    ],
)
def test_each_answer_is_of_its_kind(status: int, code: str, kind: type[AwsRefusal]) -> None:
    assert type(refusal_of(status, code)) is kind


@pytest.mark.parametrize(("status", "throttled"), [(429, True), (500, False)])
def test_who_asks_for_fewer_calls_is_known(status: int, throttled: bool) -> None:
    refusal = refusal_of(status, "Odd")
    assert isinstance(refusal, Outage)
    assert refusal.throttled is throttled


def refusal_of(status: int, code: str) -> AwsRefusal:
    response = {
        "Error": {"Code": code, "Message": "reason"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    with pytest.raises(AwsRefusal) as refused, answers("try it"):
        raise ClientError(response, "Operation")
    return refused.value

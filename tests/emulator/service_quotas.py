"""SageMaker's quotas, which moto does not have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from moto.core.exceptions import JsonRESTError
from moto.servicequotas.responses import ServiceQuotasResponse

from launcher.account.facts import known_code

PAGE = 2
"""A real page has a hundred; two make several pages of a test's few quotas."""


@contextmanager
def emulated_quotas(applied: Mapping[str, float], defaults: Mapping[str, float]) -> Iterator[None]:
    """Within this, SageMaker has these quotas, by name. Use inside `mock_aws`.

    An account has an applied value only for some; the codes are the real ones where they are known.
    """

    def one(quotas: Mapping[str, float]) -> Any:
        def answer(response: ServiceQuotasResponse) -> str:
            code = json.loads(response.body)["QuotaCode"]
            for name, value in quotas.items():
                if code_of(name) == code:
                    return json.dumps({"Quota": _quota(name, value)})
            raise JsonRESTError("NoSuchResourceException", "The request failed: no such quota.")

        return answer

    def listed(response: ServiceQuotasResponse) -> str:
        # Every quota has a default, also one of which the account has an applied value.
        every = [_quota(name, value) for name, value in {**dict.fromkeys(applied, 0.0), **defaults}.items()]
        start = int(json.loads(response.body).get("NextToken") or 0)
        page: dict[str, Any] = {"Quotas": every[start : start + PAGE]}
        if start + PAGE < len(every):
            page["NextToken"] = str(start + PAGE)
        return json.dumps(page)

    replaced = {
        "get_service_quota": one(applied),
        "get_aws_default_service_quota": one(defaults),
        "list_aws_default_service_quotas": listed,
    }
    with mock.patch.multiple(ServiceQuotasResponse, create=True, **replaced):
        yield


def code_of(name: str) -> str:
    """The code of a quota here: the real one, else one that follows from the name."""
    return known_code(name) or f"L-{sum(map(ord, name)):08X}"


def _quota(name: str, value: float) -> dict[str, Any]:
    return {"ServiceCode": "sagemaker", "QuotaName": name, "QuotaCode": code_of(name), "Value": value}

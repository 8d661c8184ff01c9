"""What EC2 has of one kind, over all pages of a Describe call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def described(ec2: Any, operation: str, key: str, filter_: str, values: Iterable[str]) -> Iterator[Any]:
    """What the filter passes with one of the values, as EC2 describes it; without a value nothing is asked.

    `operation` is the client's, as describe_subnets, and `key` names the resources in its answer. A filter
    passes over what is missing, where ids would have the whole call refused.
    """
    wanted = list(dict.fromkeys(values))
    if wanted:
        pages = ec2.get_paginator(operation).paginate(Filters=[{"Name": filter_, "Values": wanted}])
        for page in pages:
            yield from page[key]

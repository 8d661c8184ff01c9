"""What AWS could not give: instances, quota.

Texts: FailureReason and errors of the SageMaker API; the error codes of EC2's API, such as
InsufficientReservedInstanceCapacity, which SageMaker passes on as well.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import job_runtime

SIGNATURES = (
    Signature(
        mode=job_runtime.NO_CAPACITY,
        role=LineRole.INITIATOR,
        literal="capacityerror",
        pattern=re.compile(r"\bCapacityError: (?P<what>[^.]{0,120})"),
        example="Failed Reason: CapacityError: Unable to provision requested ML compute capacity. Please "
        "retry using a different ML instance type.",
        near_miss="INFO CapacityError is retried",
        says="AWS has no instances free: {what}",
    ),
    Signature(
        mode=job_runtime.NO_CAPACITY,
        role=LineRole.INITIATOR,
        literal="insufficient",
        pattern=re.compile(
            r"\b(?:EC2)?Insufficient(?:Reserved)?(?:Instance|Host)?Capacity(?:Exception|Error)?\b.{0,120}|"
            r"insufficient capacity to (?:provision|launch|fulfil)",
        ),
        example="EC2InsufficientCapacityError: Instance type 'ml.g5.48xlarge' is temporarily unavailable in "
        "supported availability zones [euw1-az1].",
        near_miss="INFO insufficient capacity of the cache, growing",
        says="AWS has no instances free",
    ),
    Signature(
        mode=job_runtime.NO_CAPACITY,
        role=LineRole.INITIATOR,
        literal="maxwaittimeexceeded",
        pattern=re.compile(r"^(?:SecondaryStatus: |.*\bstatus(?: is|:)? )?MaxWaitTimeExceeded\b"),
        example="SecondaryStatus: MaxWaitTimeExceeded",
        near_miss="INFO a spot job can end with MaxWaitTimeExceeded",
        says="no spot instances came within the waiting time",
    ),
    Signature(
        mode=job_runtime.QUOTA_TOO_SMALL,
        role=LineRole.INITIATOR,
        literal="resourcelimitexceeded",
        pattern=re.compile(
            r"\bResourceLimitExceeded\)?(?:(?>.*?limit '(?P<limit>[^']+)' is (?P<allowed>\d+)).*?"
            r"delta of (?P<wanted>\d+))?"
        ),
        example="An error occurred (ResourceLimitExceeded) when calling the CreateTrainingJob operation: The "
        "account-level service limit 'ml.p3.2xlarge for training job usage' is 0 Instances, with current "
        "utilization of 0 Instances and a request delta of 1 Instances.",
        near_miss="INFO retry on _ResourceLimitExceeded_",
        says="the quota '{limit}' is {allowed}; the job wants {wanted} more",
    ),
    Signature(
        mode=job_runtime.QUOTA_TOO_SMALL,
        role=LineRole.INITIATOR,
        literal="exceeded)",
        pattern=re.compile(
            r"\((?P<what>VcpuLimitExceeded|InstanceLimitExceeded|MaxSpotInstanceCountExceeded)\)"
        ),
        example="An error occurred (MaxSpotInstanceCountExceeded) when calling the RunInstances operation: "
        "Max spot instance count exceeded",
        near_miss="INFO (RequestLimitExceeded) is retried",
        says="a quota of the account is used up ({what})",
    ),
)

"""Permissions, the way to S3, and what is there.

Texts: botocore's ClientError, FailureReason of the SageMaker API.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import network, storage

_RAISED = r"^(?:[\w.]{1,60}|fatal error): An error occurred "
"""How botocore's exceptions begin, and what the AWS command line says of them."""

_S3 = (
    r"(?:HeadObject|GetObject|PutObject|ListObjects(?:V2)?|ListBuckets?|CreateMultipartUpload|UploadPart|"
    r"DeleteObjects?"
    r"|CompleteMultipartUpload|CopyObject|HeadBucket|GetBucketLocation|CreateBucket)"
)

SIGNATURES = (
    Signature(
        mode=storage.S3_ACCESS_DENIED,
        role=LineRole.INITIATOR,
        literal="when calling the",
        pattern=re.compile(
            r"\((?P<why>AccessDenied|403|AllAccessDisabled|AccessDeniedException|KMS\.\w+)\) when calling "
            r"the "
            r"(?P<operation>" + _S3 + r") operation"
        ),
        example="botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the "
        "CreateMultipartUpload operation: Access Denied",
        near_miss="botocore.exceptions.ClientError: An error occurred (404) when calling the HeadObject "
        "operation: Not Found",
        says="S3 refused {operation} ({why})",
    ),
    Signature(
        mode=storage.S3_ACCESS_DENIED,
        role=LineRole.INITIATOR,
        literal="is not authorized to perform",
        pattern=re.compile(r"is not authorized to perform:? (?P<operation>(?:s3|kms):\w+)"),
        example="User: arn:aws:sts::111122223333:assumed-role/r/SageMaker is not authorized to perform: "
        "s3:ListBucket on resource: arn:aws:s3:::data",
        near_miss="User: arn:aws:iam::111122223333:user/u is not authorized to perform: "
        "sagemaker:CreateTrainingJob",
        says="the role may not {operation}",
    ),
    Signature(
        mode=storage.S3_ACCESS_DENIED,
        role=LineRole.INITIATOR,
        literal="data download failed",
        pattern=re.compile(
            r"Data download failed:.*(?:Access ?[Dd]enied|\(403\)|Access Denied|Forbidden|not authorized)"
        ),
        example="ClientError: Data download failed:AccessDenied (403): Access Denied",
        near_miss="ClientError: Data download failed:NoSuchKey (404): The specified key does not exist.",
        says="S3 refused the download of the input data",
    ),
    Signature(
        mode=storage.S3_ACCESS_DENIED,
        role=LineRole.INITIATOR,
        literal="403 forbidden",
        pattern=re.compile(
            r"(?:s3://|S3|amazonaws\.com).*403 Forbidden|fatal error(?>.*?403)(?>.*?HeadObject).*Forbidden"
        ),
        example="HTTP error on https://data.s3.us-west-2.amazonaws.com/train: 403 Forbidden",
        near_miss="GET http://localhost:8080/ 403 Forbidden",
        says="S3 refused an access (403)",
    ),
    Signature(
        mode=storage.S3_ACCESS_DENIED,
        role=LineRole.INITIATOR,
        literal="access denied",
        pattern=re.compile(
            r"^(?:PermissionError: Access Denied|(?>.*?s3(?:fs|://|torchconnector)).*Access Denied"
            r"|S3 ?\w*Error: .*Access Denied|(?>.*?(?:upload|download) failed: )(?>.*?s3://).*Access Denied)"
        ),
        example="upload failed: ./step.pt to s3://models/step.pt An error occurred: Access Denied",
        near_miss="mysql: access denied for user",
        says="S3 refused an access",
    ),
    Signature(
        mode=storage.ROLE_INSUFFICIENT,
        role=LineRole.INITIATOR,
        literal="is not authorized to perform",
        pattern=re.compile(r"is not authorized to perform:? (?P<operation>(?!s3:|kms:)[\w-]+:\w+)"),
        example="User: arn:aws:iam::111122223333:user/u is not authorized to perform: "
        "sagemaker:CreateTrainingJob on resource: x",
        near_miss="User: x is not authorized to perform: s3:GetObject on resource: y",
        says="a permission is missing: {operation}",
    ),
    Signature(
        mode=storage.ROLE_INSUFFICIENT,
        role=LineRole.INITIATOR,
        literal="assume",
        pattern=re.compile(
            r"(?:Could not|unable to) assume (?:the )?role ['\"]?(?P<role>[^\s'\"]{1,300})"
            r"|Could not assume role|SageMaker is unable to perform: sts:AssumeRole on the role"
        ),
        example="ValidationException: Could not assume role arn:aws:iam::111122223333:role/train. Please "
        "ensure that the role exists and allows principal 'sagemaker.amazonaws.com' to assume the role.",
        near_miss="INFO if you could not assume role x, see the guide",
        says="SageMaker could not assume the execution role {role}",
    ),
    Signature(
        mode=storage.ROLE_INSUFFICIENT,
        role=LineRole.INITIATOR,
        literal="accessdenied",
        pattern=re.compile(
            r"\(AccessDenied(?:Exception)?\) when calling the (?P<operation>(?!" + _S3 + r" )\w+) operation"
        ),
        example="ClientError: An error occurred (AccessDeniedException) when calling the GetSecretValue "
        "operation",
        near_miss="ClientError: An error occurred (AccessDenied) when calling the PutObject operation",
        says="AWS refused {operation}",
    ),
    Signature(
        mode=storage.ROLE_INSUFFICIENT,
        role=LineRole.INITIATOR,
        literal="unable to locate credentials",
        pattern=re.compile(
            r"NoCredentialsError: Unable to locate credentials|fatal error: Unable to locate credentials"
        ),
        example="botocore.exceptions.NoCredentialsError: Unable to locate credentials",
        near_miss="INFO unable to locate credentials, going on anonymously",
        says="no credentials were found",
    ),
    Signature(
        mode=network.NO_WAY_OUT,
        role=LineRole.INITIATOR,
        literal="unable to execute request to s3",
        # FailureReason: no answer came, and S3 gives one wherever it is reached.
        pattern=re.compile(
            r"(?P<operation>\w{1,60}) failed for s3://.{1,1100}: Unable to execute request to S3"
        ),
        example="ClientError: Failed to download data. ListObjectsV2 failed for s3://bucket/train. "
        "nextToken:[null]: Unable to execute request to S3",
        near_miss="INFO unable to execute request to S3, asking again",
        says="{operation} got no answer from S3",
        vague=True,
    ),
    Signature(
        mode=network.NO_WAY_OUT,
        role=LineRole.INITIATOR,
        literal="route to an s3 vpc endpoint",
        pattern=re.compile(r"subnet's route table has a route to an S3 VPC endpoint"),
        example="ClientError: Data download failed:Please ensure that the subnet's route table has a route "
        "to an S3 VPC endpoint or a NAT device, both the security groups and the subnet's network ACL allow "
        "outbound traffic",
        near_miss="INFO the route to an S3 VPC endpoint is there",
        says="the subnet has no way to S3",
    ),
    Signature(
        mode=network.NO_WAY_OUT,
        role=LineRole.SYMPTOM,
        literal="connect timeout on endpoint url",
        pattern=re.compile(
            r"(?:ConnectTimeoutError|EndpointConnectionError).*endpoint URL:? \"?(?P<url>https://[\w.-]+)",
            re.I,
        ),
        example="botocore.exceptions.ConnectTimeoutError: Connect timeout on endpoint URL: "
        '"https://data.s3.us-west-2.amazonaws.com/train"',
        near_miss="INFO raise the connect timeout on endpoint URL trouble",
        says="{url} cannot be reached",
    ),
    Signature(
        mode=network.NO_WAY_OUT,
        role=LineRole.SYMPTOM,
        literal="could not connect to the endpoint url",
        pattern=re.compile(
            r"Could not connect to the endpoint URL: \"(?P<url>https://[\w.-]+amazonaws\.com)"
        ),
        example="botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "
        '"https://sts.us-west-2.amazonaws.com/"',
        near_miss='Could not connect to the endpoint URL: "http://localhost:4566/"',
        says="{url} cannot be reached",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="nosuchbucket",
        pattern=re.compile(
            _RAISED + r"\(NoSuchBucket\) when calling the (?P<operation>\w{1,60}) operation"
            r"|Data download failed: ?NoSuchBucket"
        ),
        example="botocore.exceptions.ClientError: An error occurred (NoSuchBucket) when calling the "
        "ListObjectsV2 operation: The specified bucket does not exist",
        near_miss="INFO NoSuchBucket is raised for a bucket that is missing",
        says="there is no such bucket",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="permanentredirect",
        pattern=re.compile(
            _RAISED + r"\(PermanentRedirect\) when calling the (?P<operation>\w{1,60}) operation"
            r"|Data download failed: ?PermanentRedirect|^PermanentRedirect$"
        ),
        example="botocore.exceptions.ClientError: An error occurred (PermanentRedirect) when calling the "
        "ListObjectsV2 operation: The bucket you are attempting to access must be addressed "
        "using the specified endpoint.",
        near_miss="INFO following a PermanentRedirect",
        says="the bucket is in another region",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="authorizationheadermalformed",
        pattern=re.compile(
            _RAISED + r"\(AuthorizationHeaderMalformed\) when calling the \w{1,60} operation: .{0,80}"
            r"the region '(?P<asked>[\w-]{1,30})' is wrong; expecting '(?P<region>[\w-]{1,30})'"
        ),
        example="botocore.exceptions.ClientError: An error occurred (AuthorizationHeaderMalformed) when "
        "calling the ListObjectsV2 operation: The authorization header is malformed; the region "
        "'us-east-1' is wrong; expecting 'us-west-2'",
        near_miss="INFO retrying after (AuthorizationHeaderMalformed)",
        says="the bucket is in {region}, and was asked for in {asked}",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="data download failed",
        pattern=re.compile(
            r"Data download failed: ?(?:NoSuchKey|Failed to download data\. No S3 objects found|No S3 "
            r"objects found|.{0,80}\(404\))"
        ),
        example="ClientError: Data download failed:NoSuchKey (404): The specified key does not exist.",
        near_miss="INFO a data download failed: trying again",
        says="there is nothing at the S3 location of an input channel",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.SYMPTOM,
        literal=" when calling the ",
        pattern=re.compile(
            _RAISED + r"\((?:404\) when calling the HeadObject|NoSuchKey\) when calling the \w{1,40})"
        ),
        example="botocore.exceptions.ClientError: An error occurred (404) when calling the HeadObject "
        "operation: Not Found",
        near_miss="INFO (404) when calling the HeadObject operation: it is made now",
        says="there is no such object in S3",
        vague=True,
    ),
)

"""What the service says of a job's data: the S3 locations of its channels, and what it uploads afterwards.

No container sees these lines: they are in the job's FailureReason and in the API's answers. What a program
says as well when it reads S3 itself is in `access`.

Texts: FailureReason of the SageMaker API, and its ValidationException, as public threads quote them.
"""

from __future__ import annotations

import re

from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes import storage

SIGNATURES = (
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="no s3 objects found under s3 url",
        pattern=re.compile(
            r"No S3 objects found under S3 URL \"(?P<uri>[^\"]{1,1100})\""
            r"(?!.{0,2000}Error message from S3: (?:Access Denied|Forbidden))"
        ),
        example='ValidationException: No S3 objects found under S3 URL "s3://data/train" given in input data '
        "source. Please ensure that the bucket exists in the selected region (us-east-1), that objects exist "
        "under that S3 prefix",
        near_miss="INFO no S3 objects found under S3 URL so far",
        says="there is nothing at the S3 location of an input channel: {uri}",
    ),
    Signature(
        mode=storage.S3_ACCESS_DENIED,
        role=LineRole.INITIATOR,
        literal="artifact upload failed",
        pattern=re.compile(
            r"Artifact upload failed:.{0,300}(?:AccessDenied|Access Denied|\b403\b|Forbidden|not authorized)"
        ),
        example="ClientError: Artifact upload failed:Error 4: Error executing an HTTP request: HTTP response "
        "code 403 with body",
        near_miss="InternalServerError: Artifact upload failed:Error 7: The credentials have been expired",
        says="S3 refused the upload of what the job leaves",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="matched no files on s3",
        pattern=re.compile(r"S3 key:? '?(?P<uri>s3://[^\s']{1,1100})'? matched no files on s3"),
        example="ClientError: S3 key: s3://data/sets/201609-trips.csv matched no files on s3",
        near_miss="INFO the pattern matched no files on s3 so far",
        says="there is nothing at the S3 location of an input channel: {uri}",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="has an illegal char sub-sequence",
        pattern=re.compile(r"has an illegal char sub-sequence '(?P<part>[^']{1,20})' in it"),
        example="ClientError: Data download failed:Failed to download data. S3 key: s3://data//a.txt has an "
        "illegal char sub-sequence '//' in it",
        near_miss="INFO no key has an illegal char sub-sequence",
        says="a key below the S3 location of an input channel has {part} in it, which no path can have",
        remedy="Take the doubled slash out of the channel's URI, or copy the objects to keys that can be "
        "paths: a prefix that ends with a slash, joined with another one, makes such keys.",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="partial s3 prefix is not supported",
        pattern=re.compile(r"For FastFile mode, partial S3 prefix is not supported"),
        example="ClientError: Data download failed:Failed to download data. For FastFile mode, partial S3 "
        "prefix is not supported. S3 prefix has to end with a full file or folder.",
        near_miss="INFO a partial S3 prefix is not supported by the mirror",
        says="the S3 location of an input channel ends within a name, which FastFile mode does not read",
        remedy="End the channel's URI with a slash, or with the whole name of an object.",
    ),
    Signature(
        mode=storage.BUCKET_UNUSABLE,
        role=LineRole.INITIATOR,
        literal="previously downloaded file/folder clashes with it",
        pattern=re.compile(
            r"Cannot download (?P<uri>s3://\S{1,1100}), a previously downloaded file/folder clashes with it"
        ),
        example="ClientError: Data download failed:Failed to download data. Cannot download s3://data/a/b, a "
        "previously downloaded file/folder clashes with it.",
        near_miss="INFO a previously downloaded file/folder clashes with it and is kept",
        says="below an input channel's S3 location one key is a file and a folder at once: {uri}",
        remedy="Rename the object whose key is also the beginning of other keys, such as a/b beside a/b/c.",
    ),
)

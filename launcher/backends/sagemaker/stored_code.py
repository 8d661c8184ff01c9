"""Whether what lies on S3 under a key of our code is our code: by S3's own checksum, else by reading it.

What an object's writer says of it, in its metadata for one, proves nothing: whoever may write to the bucket
may write under our key, and knows which it will be.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from launcher.aws.errors import aws_errors
from launcher.backends.interface import BackendError
from launcher.backends.sagemaker.transfers import parts_of
from launcher.source.packaging import BOOT_NAME

_CHUNK = 1024 * 1024
_MOST_GROWTH = 2
"""Another zlib compresses a little better or worse; what is larger by this factor is something else."""


def is_stored(s3: Any, bucket: str, key: str, file: Path) -> bool:
    """Whether the object is there already, with the content of our file.

    Raises BackendError where it is there and holds something else, AwsRefusal where AWS refuses. Without
    permission to look, or to list (S3 then answers 403 for what is not there), it counts as missing: an
    upload needs neither, and says itself where something lies there.
    """
    from botocore.exceptions import ClientError

    with aws_errors(f"look for the code in the bucket {bucket}"):
        try:
            found = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (403, 404):
                return False
            raise
    _check(s3, bucket, key, file, found)
    return True


def check_stored(s3: Any, bucket: str, key: str, file: Path) -> None:
    """The same for an object that is known to be there. Raises BackendError where it holds something else."""
    with aws_errors(f"compare s3://{bucket}/{key} with the code (s3:GetObject)"):
        found = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    _check(s3, bucket, key, file, found)


def _check(s3: Any, bucket: str, key: str, file: Path, found: dict[str, Any]) -> None:
    checksum = found.get("ChecksumSHA256")
    if checksum is not None and checksum == _checksum(file, in_parts="-" in checksum):
        return
    # Another zlib gives other bytes for the same code, other launchers other parts, other tools no SHA-256.
    # Nobody can write the object again, so that it must be read to be judged.
    size, ours = found["ContentLength"], file.stat().st_size
    if size <= _MOST_GROWTH * ours + _CHUNK and _holds_the_same(s3, bucket, key, file):
        return
    raise BackendError(
        f"what lies at s3://{bucket}/{key} is not the code of this job, although its key says so: "
        f"{size:,} bytes, written {found['LastModified']:%Y-%m-%d %H:%M} UTC. The job would have run what "
        "somebody else put there, so nothing was created.",
        "Find out who wrote it (the bucket's access log), let somebody who may delete it remove that object, "
        "and launch again. Changed code goes under another key.",
    )


def _checksum(file: Path, *, in_parts: bool) -> str:
    """S3's SHA-256 of the file: of the whole, or that of its parts' digests and their number.

    Source: Amazon S3 user guide, checking-object-integrity (composite checksums).
    """
    with file.open("rb") as content:
        if not in_parts:
            return base64.b64encode(hashlib.file_digest(content, "sha256").digest()).decode()
        parts = [hashlib.sha256(part).digest() for part in parts_of(content)]
    return f"{base64.b64encode(hashlib.sha256(b''.join(parts)).digest()).decode()}-{len(parts)}"


def _holds_the_same(s3: Any, bucket: str, key: str, file: Path) -> bool:
    """Read the object, no further than to the first difference; archives by what they hold decompressed."""
    from botocore.exceptions import BotoCoreError

    with aws_errors(f"compare s3://{bucket}/{key} with the code (s3:GetObject)"):
        body = s3.get_object(Bucket=bucket, Key=key)["Body"]
        try:
            if file.name == BOOT_NAME:
                return bool(body.read() == file.read_bytes())
            with gzip.open(file) as ours, gzip.GzipFile(fileobj=body) as theirs:
                return _agree(ours, theirs)
        except BotoCoreError:
            raise  # of the connection; some are OSErrors too
        except (OSError, EOFError, zlib.error):
            return False
        finally:
            body.close()


def _agree(ours: BinaryIO | gzip.GzipFile, theirs: BinaryIO | gzip.GzipFile) -> bool:
    while True:
        expected = ours.read(_CHUNK)
        if theirs.read(_CHUNK) != expected:
            return False
        if not expected:
            return True

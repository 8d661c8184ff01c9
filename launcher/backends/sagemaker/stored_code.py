"""Whether what lies on S3 under a key of our code is our code: by S3's own checksum, else by reading it.

What an object's writer says of it, in its metadata for one, proves nothing: whoever may write to the bucket
may write under our key, and knows which it will be.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from launcher.aws.errors import aws_errors
from launcher.backends.interface import BackendError
from launcher.backends.sagemaker.transfers import parts_of
from launcher.source.errors import SourceError

if TYPE_CHECKING:
    from launcher.source.tree import StoredSource

_CHUNK = 1024 * 1024


@dataclass(frozen=True)
class CodeObject:
    """An object of a plan's code: its place on S3, and what must lie there.

    `digest` is the SHA-256 of what it holds, decompressed where it is `compressed`, and `most_bytes` more
    than that can be. `build` writes it as a file and raises SourceError where that is no longer possible. It
    is copied from `origin` where it lies on S3 elsewhere.
    """

    bucket: str
    key: str
    digest: str
    most_bytes: int
    compressed: bool
    build: Callable[[], Path]
    origin: StoredSource | None = None

    @cached_property
    def file(self) -> Path:
        """The object as a file, built when it is first asked for. Raises SourceError as `build` does."""
        return self.build()


def is_stored(s3: Any, code: CodeObject) -> bool:
    """Whether the object is there already, and is ours.

    Raises BackendError where it is there and holds something else, AwsRefusal where AWS refuses. Without
    permission to look, or to list (S3 then answers 403 for what is not there), it counts as missing: an
    upload needs neither, and says itself where something lies there.
    """
    from botocore.exceptions import ClientError

    with aws_errors(f"look for the code in the bucket {code.bucket}"):
        try:
            found = _found(s3, code)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (403, 404):
                return False
            raise
    _check(s3, code, found)
    return True


def check_stored(s3: Any, code: CodeObject) -> None:
    """The same for an object that is known to be there. Raises BackendError where it holds something else."""
    with aws_errors(f"compare s3://{code.bucket}/{code.key} with the code (s3:GetObject)"):
        found = _found(s3, code)
    _check(s3, code, found)


def _found(s3: Any, code: CodeObject) -> dict[str, Any]:
    found: dict[str, Any] = s3.head_object(Bucket=code.bucket, Key=code.key, ChecksumMode="ENABLED")
    return found


def _check(s3: Any, code: CodeObject, found: dict[str, Any]) -> None:
    if _has_our_checksum(code, found.get("ChecksumSHA256")):
        return
    # Another zlib gives other bytes for the same code, other launchers other parts, other tools no SHA-256,
    # and the files may have changed since. Nobody can write the object again, so that it must be read.
    if found["ContentLength"] <= code.most_bytes and _holds_our_code(s3, code):
        return
    size, written = f"{found['ContentLength']:,} bytes", f"{found['LastModified']:%Y-%m-%d %H:%M} UTC"
    raise BackendError(
        f"what lies at s3://{code.bucket}/{code.key} is not the code of this job, although its key says so: "
        f"{size}, written {written}. The job would have run what somebody else put there, so nothing was "
        "created.",
        "Find out who wrote it (the bucket's access log), let somebody who may delete it remove that object, "
        "and launch again. Changed code goes under another key.",
    )


def _has_our_checksum(code: CodeObject, checksum: str | None) -> bool:
    """Whether S3's SHA-256 is the file's: of the whole, or of its parts' digests, with their number.

    Source: Amazon S3 user guide, checking-object-integrity (composite checksums).
    """
    if checksum is None:
        return False
    try:
        file = code.file
    except SourceError:
        return False  # a further attempt runs the code of the first one, whatever became of the files
    with file.open("rb") as content:
        if "-" not in checksum:
            return checksum == _base64(hashlib.file_digest(content, "sha256").digest())
        parts = [hashlib.sha256(part).digest() for part in parts_of(content)]
    return checksum == f"{_base64(hashlib.sha256(b''.join(parts)).digest())}-{len(parts)}"


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def _holds_our_code(s3: Any, code: CodeObject) -> bool:
    """Read the object and hash what it holds, no further than what our code may have."""
    from botocore.exceptions import BotoCoreError

    with aws_errors(f"compare s3://{code.bucket}/{code.key} with the code (s3:GetObject)"):
        body = s3.get_object(Bucket=code.bucket, Key=code.key)["Body"]
        digest, size = hashlib.sha256(), 0
        try:
            for chunk in _chunks(gzip.GzipFile(fileobj=body) if code.compressed else body):
                digest.update(chunk)
                size += len(chunk)
                if size > code.most_bytes:
                    return False
        except BotoCoreError:
            raise  # of the connection; some are OSErrors too
        except (OSError, EOFError, zlib.error):
            return False
        finally:
            body.close()
    return digest.hexdigest() == code.digest


def _chunks(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK), b"")

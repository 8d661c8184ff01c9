"""The user's source where it lies on S3 as an archive: read there, from its first byte to its last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from launcher.aws.errors import aws_errors
from launcher.source.archive import OnRead
from launcher.source.errors import SourceError
from launcher.source.packed import read_packed
from launcher.source.tree import SourceTree, StoredSource, packed_tree
from launcher.text.uris import split_uri


def read_stored_source(
    s3: Any, uri: str, entry_point: str, wanted: Collection[str] = (), on_read: OnRead | None = None
) -> SourceTree:
    """The tree of the archive at a URI; one that is missing, or that no host should unpack, has problems.

    Nothing is written to this machine. Raises AwsRefusal where S3 refuses or the connection is lost.
    """
    from botocore.exceptions import ClientError

    bucket, key = split_uri(uri)
    with aws_errors(f"read the code at {uri} (s3:GetObject)"):
        try:
            found = s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
                raise
            missing = SourceError(
                f"the source archive {uri} is not there.", "Upload it, or correct `code.source_dir`."
            )
            return SourceTree(
                Path(uri),
                entry_point,
                exists=True,
                has_entry_point=True,
                problems=(missing,),
                is_packed=True,
                stored=StoredSource(uri),
            )
        try:
            body = cast(BinaryIO, _Body(found["Body"]))
            content = read_packed(body, uri, Path(uri), int(found["ContentLength"]), on_read)
        except _ConnectionLost as lost:
            raise lost.__cause__ or lost from None
        finally:
            found["Body"].close()
    return replace(
        packed_tree(Path(uri), entry_point, wanted, content), stored=StoredSource(uri, str(found["ETag"]))
    )


class _ConnectionLost(Exception):
    """Why reading ended, in words that are not taken for the archive's fault."""


class _Body:
    """The object's content; botocore's errors of the connection, some of them OSErrors, are told apart."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def read(self, size: int) -> bytes:
        from botocore.exceptions import BotoCoreError

        try:
            return bytes(self._body.read(size))
        except BotoCoreError as error:
            raise _ConnectionLost from error

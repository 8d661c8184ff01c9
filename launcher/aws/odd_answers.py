"""Answers that are not AWS's: a portal's sign-in page, an empty body, half a document, JSON of another shape.

botocore takes some of them for an answer without content, and falls over others in ways of its own. Here each
becomes an `OddAnswer`, of the family of errors of the connection: nobody knows what became of the call.

Imports botocore: to be imported where a client is made, not before.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import HTTPClientError
from botocore.parsers import ResponseParserFactory

from launcher.aws.errors import Unreachable


class OddAnswer(HTTPClientError):  # type: ignore[misc]
    """An answer came that AWS would not give. `error` says what is odd about it."""

    fmt = "what answered is not AWS, or was cut on its way: {error}"


class CheckedParsers(ResponseParserFactory):  # type: ignore[misc]
    """botocore's parsers, of which each answer is checked.

    The component `response_parser_factory` of a botocore session; all its clients use it.
    """

    def create_parser(self, protocol_name: str) -> Any:
        """The parser of a protocol, by botocore's name of it."""
        return _CheckedParser(super().create_parser(protocol_name))


class _CheckedParser:
    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def parse(self, response: dict[str, Any], shape: Any) -> Any:
        """What botocore's parser makes of the answer; raises OddAnswer where AWS gave none like it."""
        status = response["status_code"]
        try:
            parsed = self._parser.parse(response, shape)
        except Exception as error:
            # The parsers meet a foreign document with any error that Python has.
            if status >= 500:
                # As for other pages of a failing service: botocore tries again.
                return self._parser.parse({**response, "body": b""}, shape)
            raise OddAnswer(error=f"it cannot be parsed ({type(error).__name__})") from error
        if status >= 300 or not isinstance(parsed, dict):
            return parsed
        odd = _oddness(parsed, shape)
        if odd is not None:
            raise OddAnswer(error=odd)
        return _Answer(parsed)


class _Answer(dict[str, Any]):
    """A good answer as far as could be seen; what is asked of it and not there makes it an odd one."""

    def __missing__(self, key: str) -> Any:
        raise Unreachable(
            f"AWS's answer is not complete: it has no {key}.", "Check the network, then try again."
        ) from OddAnswer(error=f"it has no {key}")


def _oddness(parsed: dict[str, Any], shape: Any) -> str | None:
    """What is odd about an answer that could be parsed; None where it may be AWS's.

    One expected member is enough: services leave out members that their models require, such as AWS Batch
    the `startedAt` of a service job that waits.
    """
    expected = _in_the_body(shape)
    if expected:
        # Members that are not required may be absent one by one, but not all of them.
        wanted = [name for name in shape.required_members if name in expected] or expected
        # A structure that is a body of its own is there but empty where the body was a foreign document.
        return (
            None
            if any(parsed.get(name) not in (None, {}) for name in wanted)
            else f"it has no {' nor '.join(wanted[:3])}"
        )
    # Nothing to be seen in the body: what tells AWS from all others is the id that it gives each request.
    return None if parsed.get("ResponseMetadata", {}).get("RequestId") else "it has no request id"


def _in_the_body(shape: Any) -> list[str]:
    """The members of an output that come in the answer's body as a document."""
    if shape is None:
        return []
    payload = shape.serialization.get("payload")
    if payload is not None:
        return [payload] if shape.members[payload].type_name == "structure" else []
    return [name for name, member in shape.members.items() if "location" not in member.serialization]

"""Answers that are not AWS's: a portal's sign-in page, an empty body, half a document, JSON of another shape,
a proxy's page that says 403 or 404.

botocore takes some of them for an answer without content, and falls over others in ways of its own. Here each
becomes an `OddAnswer`, of the family of errors of the connection: nobody knows what became of the call.

Imports botocore: to be imported where a client is made, not before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import HTTPClientError
from botocore.parsers import BaseJSONParser, ResponseParserError, ResponseParserFactory

from launcher.failure_modes.model import Unreachable


class OddAnswer(HTTPClientError):  # type: ignore[misc]
    """An answer came that AWS would not give. `error` says what is odd about it."""

    fmt = "what answered is not AWS, or was cut on its way: {error}"


class CheckedParsers(ResponseParserFactory):  # type: ignore[misc]
    """botocore's parsers, of which each answer is checked.

    The component `response_parser_factory` of a botocore session; all its clients use it.
    """

    def create_parser(self, protocol_name: str) -> Any:
        """The parser of a protocol, by botocore's name of it."""
        parser = super().create_parser(protocol_name)
        if isinstance(parser, BaseJSONParser):
            parser._handle_list = _lists_only(parser._handle_list)
        return _CheckedParser(parser)


def _lists_only(handle: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """botocore's reader of a JSON list, which would take the letters of a text for its members."""

    def handle_list(shape: Any, node: Any) -> Any:
        if not isinstance(node, list):
            raise ResponseParserError(f"a list is expected in place of {type(node).__name__}")
        return handle(shape, node)

    return handle_list


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
            said = f"it says {status} and" if status >= 300 else "it"
            raise OddAnswer(error=f"{said} cannot be parsed ({type(error).__name__})") from error
        if not isinstance(parsed, dict) or status >= 500:
            return parsed
        if status >= 300:
            # A refusal of a kind that the model knows is parsed once more, by that kind's shape.
            is_known = shape is not None and shape.metadata.get("exception", False)
            if not is_known and not _is_awss_error(parsed, response["headers"]):
                raise OddAnswer(error=f"it says {status} without an error of AWS or a request id")
            return parsed
        odd = _oddness(parsed, shape)
        if odd is not None:
            raise OddAnswer(error=odd)
        return parsed if shape is None else _read_strictly(parsed, shape, ())


class _Answer(dict[str, Any]):
    """A good answer as far as could be seen; what is asked of it and not there makes it an odd one."""

    def __missing__(self, key: str) -> Any:
        raise Unreachable(
            f"AWS's answer is not complete: it has no {key}.", "Check the network, then try again."
        ) from OddAnswer(error=f"it has no {key}")


_KINDS: dict[str, tuple[type, ...]] = {
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
    "string": (str,),
    "boolean": (bool,),
    **dict.fromkeys(("integer", "long", "float", "double"), (int, float)),
}
"""What a parsed value is, by the kind of its shape; others, such as times and streams, are what they are."""


def _read_strictly(value: Any, shape: Any, path: tuple[str, ...]) -> Any:
    """The parsed value, with every structure in it as an `_Answer`. Raises OddAnswer for a wrong type.

    That a member is missing shows when it is asked for: services leave out members that their models require.
    """
    if value is None or shape.serialization.keys() & {"jsonvalue", "eventstream"}:
        return value
    kind = shape.type_name
    if kind in _KINDS and not isinstance(value, _KINDS[kind]):
        raise OddAnswer(error=f"{'.'.join(path)} is {type(value).__name__} in place of {kind}")
    if kind == "structure":
        members = shape.members
        return _Answer(
            (name, _read_strictly(part, members[name], (*path, name)) if name in members else part)
            for name, part in value.items()
        )
    if kind == "list":
        if shape.member.type_name == "structure" and None in value:
            raise OddAnswer(error=f"{'.'.join(path)} has a null among its members")
        return [_read_strictly(part, shape.member, (*path, str(at))) for at, part in enumerate(value)]
    if kind == "map":
        return {key: _read_strictly(part, shape.value, (*path, str(key))) for key, part in value.items()}
    return value


_REQUEST_IDS = ("x-amzn-requestid", "x-amz-request-id", "x-amzn-request-id")


def _is_awss_error(parsed: Mapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Whether a refusal is AWS's own: it has a code of AWS's, or the id that AWS gives each request.

    botocore takes the number of the status for the code where there is none. S3's answers to HEAD have no
    body and so no code, but the id.
    """
    code = str(parsed.get("Error", {}).get("Code") or "")
    if code and not code.isdigit():
        return True
    known = {name.lower() for name in headers}
    return bool(parsed.get("ResponseMetadata", {}).get("RequestId") or known.intersection(_REQUEST_IDS))


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

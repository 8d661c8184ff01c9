"""The job's secrets: fetched before the script starts, and hidden in all that its processes print.

The job's request names them; their values come from AWS Secrets Manager, with the role that the container
has. In a run on the user's machine the launcher has put them into this process' environment.
"""

from __future__ import annotations

import importlib
import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from slipway.failure import BootError

SECRETS_VARIABLE = "SLIPWAY_SECRETS"
"""JSON: from the name of each variable to the name or the ARN of its secret."""

SECRETS_HERE_VARIABLE = "SLIPWAY_SECRETS_HERE"
"""Set where the values are in the environment already, under the variables' own names."""

_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 5, 10, 4
"""So that a service that cannot be reached is given up after about a minute (botocore, Config)."""

# That of collections.abc has no brackets before Python 3.9.
Connect = typing.Callable[[str], Any]
"""From a region to a client of Secrets Manager."""


def take_secrets(environment: dict[str, str], connect: Connect | None = None) -> dict[str, str]:
    """The values of the job's secrets, by variable; empty for a job without any.

    All that says something of them is taken out of `environment`. Raises BootError (IAM002), which names
    every secret that cannot be had, why, and the permission that is missing.
    """
    named = environment.pop(SECRETS_VARIABLE, None)
    here = environment.pop(SECRETS_HERE_VARIABLE, None)
    if not named:
        return {}
    wanted: dict[str, str] = json.loads(named)
    if here:
        return {variable: environment.pop(variable) for variable in wanted}
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    return _fetch_values(wanted, region, connect or _client)


def _fetch_values(wanted: Mapping[str, str], region: str | None, connect: Connect) -> dict[str, str]:
    found: dict[str, str] = {}
    problems: dict[str, str] = {}
    clients: dict[str, Any] = {}
    for variable, secret in wanted.items():
        try:
            place = secret.split(":")[3] if secret.startswith("arn:") else region
            if place is None:
                raise _Unusable("no region is known; name it by its ARN")
            clients[place] = clients.get(place) or connect(place)
            found[variable] = _secret_value(clients[place].get_secret_value(SecretId=secret))
        except ImportError:
            problems[f"{secret} (for {variable})"] = (
                "the image has no boto3, with which secrets are fetched; add boto3 to the image"
            )
        except _Unusable as error:
            problems[f"{secret} (for {variable})"] = str(error)
        except Exception as error:  # botocore makes its exceptions when they are raised
            problems[f"{secret} (for {variable})"] = _why_not_fetched(error, str(place))
            if not hasattr(error, "response"):
                # Whoever was not reached would not be for the next one, and each takes its time.
                break
    if problems:
        told = "; ".join(f"{secret}: {problem}" for secret, problem in problems.items())
        raise BootError("IAM002", f"the script was not started without its secrets: {told}")
    return found


class _Unusable(Exception):
    """A secret that is there and does not help, with the reason."""


def _secret_value(answer: Mapping[str, Any]) -> str:
    value: str | None = answer.get("SecretString")
    if value is None:
        raise _Unusable("its value is binary, which no environment variable holds; keep it as text")
    if not value or "\0" in value:
        raise _Unusable("its value holds a NUL, which no variable can" if value else "its value is empty")
    return value


def _why_not_fetched(error: Exception, region: str) -> str:
    answer: Mapping[str, Any] = getattr(error, "response", {}).get("Error", {})
    code, said = str(answer.get("Code", "")), str(answer.get("Message", error))
    if code == "AccessDeniedException" and "KMS" in said:
        code = "DecryptionFailure"
    known = {
        "AccessDeniedException": "the execution role may not secretsmanager:GetSecretValue on it; name it in "
        "`secrets` of the cluster file and deploy, or allow it in the role's policy",
        "DecryptionFailure": "the execution role may not kms:Decrypt with the key that encrypts it; name the "
        "key in `secret_keys` of the cluster file and deploy, or allow it in the role's policy",
        "ResourceNotFoundException": f"there is no such secret in {region}, or it has no value yet",
        "InvalidRequestException": f"it cannot be read now ({said})",
    }
    if code:
        return known.get(code, f"Secrets Manager answered {code}: {said}")
    return (
        f"Secrets Manager in {region} was not reached ({type(error).__name__}: {said}); in a network without "
        "NAT it needs an endpoint for secretsmanager, which `secrets` of the cluster file creates"
    )


def _client(region: str) -> Any:
    boto3, config = importlib.import_module("boto3"), importlib.import_module("botocore.config")
    retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
    return boto3.client(
        "secretsmanager",
        region_name=region,
        config=config.Config(connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS, retries=retries),
    )


# The values of secrets, hidden in all that the boot passes on, keeps and reports.
#
# What is found is the value as it is and as Python, JSON and URLs write it, line by line where it has
# several, and the texts in it where it is JSON. Whoever encodes it otherwise, or prints it in parts on
# several lines, is beyond this.


MASK = b"***"
"""What stands in the place of a value."""

SHORTEST_ANYWHERE = 8
"""Characters. A shorter value stands in other words by chance, and is masked as a word of its own only."""

SHORTEST = 4
"""Characters. What is shorter still is not masked: it would hide most of what is printed."""

_WORD = rb"[0-9A-Za-z_]"
_WORDS = re.compile(_WORD)


class Masking:
    """What is hidden: the values of the job's secrets."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        texts = sorted({text for value in values for text in _spellings(value)}, key=len, reverse=True)
        self._texts = [text.encode("utf-8", "surrogateescape") for text in texts]
        self._any = re.compile(b"|".join(map(_pattern, self._texts))) if texts else None

    def __bool__(self) -> bool:
        return self._any is not None

    def text(self, text: str) -> str:
        """A text without the values."""
        if self._any is None:
            return text
        return self._any.sub(MASK, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def stream(self) -> MaskedStream:
        """What masks a stream that comes in pieces."""
        return MaskedStream(self._any, self._texts)


NOTHING_MASKED = Masking()
"""Of a job without secrets."""


class MaskedStream:
    """Hides values in a stream; what may be the beginning of one waits for what follows, however long.

    So at most the longest value is held back.
    """

    def __init__(self, any_text: re.Pattern[bytes] | None, texts: list[bytes]) -> None:
        self._any = any_text
        self._texts = texts
        self._before = b""
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """The next piece of the stream: what of it can be passed on, and of what waited."""
        if self._any is None:
            return piece
        self._held += piece
        return self._mask_until(min(_begun_at(self._held, text) for text in self._texts))

    def end(self) -> bytes:
        """What waited, when nothing follows; a long beginning of a value is hidden as well."""
        if len(self._held) >= SHORTEST_ANYWHERE and any(text.startswith(self._held) for text in self._texts):
            self._held = b""
            return MASK
        return self._mask_until(len(self._held)) if self._held else b""

    def _mask_until(self, until: int) -> bytes:
        """What waited, up to a place, the values hidden; one that reaches beyond the place is not cut."""
        assert self._any is not None
        # The byte before decides whether a word begins here.
        begun = reached = len(self._before)
        data, until = self._before + self._held, begun + until
        out = []
        for match in self._any.finditer(data, begun):
            if match.start() >= until:
                break
            out += [data[reached : match.start()], MASK]
            reached = match.end()
        until = max(until, reached)
        out.append(data[reached:until])
        self._before, self._held = data[max(0, until - 1) : until], data[until:]
        return b"".join(out)


def _begun_at(data: bytes, text: bytes) -> int:
    """Where the longest end of `data` begins with which `text` begins; its length where there is none.

    A short value that is there already waits for the character after it, which decides whether it is a word.
    """
    whole = len(text) < SHORTEST_ANYWHERE
    at = max(0, len(data) - len(text) + (not whole))
    while True:
        at = data.find(text[:1], at)
        if at < 0:
            return len(data)
        if text.startswith(data[at:]):
            return at
        at += 1


def _pattern(text: bytes) -> bytes:
    literal = re.escape(text)
    if len(text) >= SHORTEST_ANYWHERE:
        return literal
    before = b"(?<!%b)" % _WORD if _WORDS.match(text) else b""
    after = b"(?!%b)" % _WORD if _WORDS.match(text[-1:]) else b""
    return before + literal + after


def _spellings(value: str) -> Iterator[str]:
    """Everything to be looked for because of one value."""
    for part in _parts_to_mask(value):
        if len(part) < SHORTEST:
            continue
        yield part
        for written in (repr(part), json.dumps(part), json.dumps(part, ensure_ascii=False)):
            yield written[1:-1]
        for safe in ("/", ""):
            yield quote(part, safe=safe, errors="surrogateescape")
        yield quote_plus(part, errors="surrogateescape")


def _parts_to_mask(value: str) -> Iterator[str]:
    """The value, its lines, and where it is JSON the texts in it that are long enough to be secrets."""
    yield value.strip()
    lines = [line.strip() for line in value.splitlines()]
    if lines[1:]:
        yield from (line for line in lines if len(line) >= SHORTEST_ANYWHERE)
    if value.lstrip()[:1] in ("{", "["):
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return
        yield from (text for text in _texts_within(document) if len(text) >= SHORTEST_ANYWHERE)


def _texts_within(document: Any) -> Iterator[str]:
    waiting = [document]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str):
            yield from [each.strip(), *(line.strip() for line in each.splitlines())]

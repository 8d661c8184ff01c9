"""Log lines fit to be shown: no control characters, no secrets, not too long."""

from __future__ import annotations

import re

from launcher.text.controls import without_controls
from launcher.text.line_length import LONGEST_LINE
from launcher.text.secrets import CREDENTIAL_FORMS, HIDDEN, without_secrets

LONGEST = 400

_TOKEN = r"token(?!i[sz]|s[\w.-]{0,40}[\"']?[ =:]{1,4}[\d.]+(?![\w.]))"
"""A token that may be one of access. Tokenizers have none, and tokens that are counted are words."""

_NAME = (
    r"(?>[\w.-]*?(?:secret|" + _TOKEN + r"|passw(?:or)?d|passwd|credential|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|auth(?!or))[\w.-]*)"
)
"""The whole of a name with such a word in it. It begins where no name goes on and is never tried in part, so
that a name of any length is read once."""

_BY_WHAT_STANDS_BESIDE = (
    re.compile(
        r"(?i:(?<![\w.-])" + _NAME + r"[\"']?\s*(?:=|:|=>)\s*)(?P<value>\"[^\"]*\"?|'[^']*'?|[^\s,;&}]+)"
    ),
    re.compile(r"(?i:(?<![\w.-])--" + _NAME + r"\s+)(?P<value>[^\s]+)"),
    re.compile(r"(?i:\b(?:bearer|basic)\s+)(?P<value>[\w.~+/=-]{8,})"),
    re.compile(
        r"[?&](?i:X-Amz-(?:Signature|Credential|Security-Token)|sig(?:nature)?)=(?P<value>[^\s&\"']+)"
    ),
)
_LIKE_A_KEY = re.compile(
    r"(?P<value>(?<![\w/+.-])(?=[\w/+]*[a-z])(?=[\w/+]*[A-Z])(?=[\w/+]*\d)[A-Za-z0-9/+]{40}(?![\w/+=.-]))"
)
"""Secret keys of AWS, by what is known of their form: forty characters, with both cases and a digit."""

_SECRETS = (*_BY_WHAT_STANDS_BESIDE, *(form for _, form in CREDENTIAL_FORMS), _LIKE_A_KEY)
_GAPS = re.compile(r"[ \t]{3,}")
_ENVIRONMENT = re.compile(r"^\s*(?:export |declare -x )?([A-Z][A-Z0-9_]{2,})=\S.*$")
_DICTIONARY = re.compile(r"\benviron\(\{|\benv(?:ironment)?[\"']?\s*[:=]\s*\{", re.I)


def shown(text: str, longest: int = LONGEST) -> str:
    """The line as evidence: one line, printable, its secrets hidden, cut to `longest` characters."""
    text = without_controls(text.replace("\n", " ")).strip()
    text = _GAPS.sub("  ", redacted(text))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def redacted(text: str) -> str:
    """The text with what may be a secret replaced by `[hidden]`.

    Values of names that speak of secrets, keys by their known forms, whole lines that print an environment
    variable or a dictionary of them. Of a line beyond LONGEST_LINE only the beginning is given back.
    """
    text = _read_in_full(text)
    if match := _ENVIRONMENT.match(text):
        return text[: match.end(1) + 1] + HIDDEN
    if match := _DICTIONARY.search(text):
        return text[: match.end()] + HIDDEN
    for pattern in _SECRETS:
        text = without_secrets(text, pattern)
    return text


def _read_in_full(text: str) -> str:
    """What of a text is short enough to be read, without the word that the cut tore: half of a secret has no
    form that could be known."""
    if len(text) <= LONGEST_LINE:
        return text
    words = text[:LONGEST_LINE].rsplit(None, 1)
    return f"{words[0]} …" if len(words) == 2 else HIDDEN

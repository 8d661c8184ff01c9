"""What a credential looks like by itself: the published forms of those who issue them.

The rule that keeps credentials out of jobs and the redaction of log lines share this table. What only the
words around a text give away (`password=...`, a `--token` option) is theirs: a rule that stops a launch must
be surer than a redaction, which may hide too much.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[hidden]"
"""What stands in the place of what may be a secret."""

MASK: Final = "***"
"""What stands in the place of what is known to be one."""

CREDENTIAL_FORMS: Final = tuple(
    (what, re.compile(form))
    for what, form in (
        ("an AWS access key id", r"(?P<value>\b(?:AKIA|ASIA)[A-Z0-9]{16}\b)"),
        ("a private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?:-----)?(?P<value>.*)"),
        ("a GitHub token", r"(?P<value>\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}))"),
        ("a GitLab token", r"(?P<value>\bglpat-[A-Za-z0-9_-]{16,})"),
        ("a Hugging Face token", r"(?P<value>\bhf_[A-Za-z0-9]{20,})"),
        ("a Slack token", r"(?P<value>\bxox[abeprs]-[A-Za-z0-9-]{10,})"),
        (
            "an API key",
            r"(?P<value>\b(?:sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35}|nvapi-[A-Za-z0-9_-]{20,}))",
        ),
        (
            "a JSON web token",
            r"(?<![A-Za-z0-9_-])(?>[A-Za-z0-9_-]*?\b(?=eyJ[A-Za-z0-9_-]{8}))"
            r"(?P<value>eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
        ),
        ("a password in a URL", r"(?<=\w)://[^\s/:@]+:(?P<value>[^\s/@]+)@"),
        (
            "an AWS secret",
            r"(?i:\baws_?(?:secret_?access_?key|session_?token))\s*[=:]\s*(?P<value>[A-Za-z0-9/+]{16,})",
        ),
    )
)
"""What each is called, and its form; the group `value` is the part that must not be shown."""


_BEFORE_THE_HOST = re.compile(r"://[^/\s]*@")


def credential_in(text: str) -> str | None:
    """What the first credential in a text is, such as `a GitHub token`; None where there is none."""
    return next((what for what, form in CREDENTIAL_FORMS if form.search(text)), None)


def without_credentials(text: str) -> str:
    """The text with what stands before the host in each of its addresses masked, such as an index's token."""
    return _BEFORE_THE_HOST.sub(f"://{MASK}@", text)


def without_secrets(text: str, form: re.Pattern[str]) -> str:
    """The text with the group `value` of each match replaced by `[hidden]`."""

    def hidden(match: re.Match[str]) -> str:
        start, end = (position - match.start() for position in match.span("value"))
        return f"{match[0][:start]}{HIDDEN}{match[0][end:]}"

    return form.sub(hidden, text)

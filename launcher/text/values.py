"""Values as people write and read them: durations, sizes, moments, ranks and URIs, the nearest word to a
misspelt one.

Disks, files and S3 are counted in powers of 1000, memory in powers of 1024. Text from elsewhere loses what
would act on a terminal instead of being shown, and what a credential looks like by itself stands here, too:
the published forms of those who issue them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

_DURATION_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", start=1)},
}


def parse_duration(value: Any) -> int:
    """Seconds from `24h`, `1d12h`, `90m` or a number of seconds.

    Raises ValueError for anything else, a negative number or a boolean.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    text = str(value).strip().lower()
    if text.isdigit():
        return int(text)
    parts = re.findall(r"(?<!\d)(\d+)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{value!r} is not a duration; write it as 30m, 24h or 1d12h")
    return sum(int(number) * _DURATION_UNITS[unit] for number, unit in parts)


def parse_size(value: Any) -> int:
    """Bytes from `500GB`, `2TB`, `64GiB` or a number of bytes.

    Raises ValueError for anything else.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip().lower())
    if match is None or match[2] not in _SIZE_UNITS:
        raise ValueError(f"{value!r} is not a size; write it as 500GB, 2TB or 64GiB")
    return int(float(match[1]) * _SIZE_UNITS[match[2]])


def exact_duration(seconds: int) -> str:
    """A duration as people write it in a job file, nothing rounded: 30m, 24h, 1h30m."""
    units = (("h", seconds // 3600), ("m", seconds % 3600 // 60), ("s", seconds % 60))
    return "".join(f"{count}{unit}" for unit, count in units if count) or "0s"


def elapsed_time(seconds: float) -> str:
    """How long something has taken, to two units and aligned in columns: 42s, 3m07s, 2h05m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def list_in_words(words: Sequence[str], last: str) -> str:
    """Such as `a, b or c`, with the `last` two joined by that word."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def duration_in_words(seconds: float) -> str:
    """A duration in a sentence, rounded down: less than a minute, 1 minute, 45 minutes, 3 hours."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 120:
        return f"{minutes} minute{'s' if minutes > 1 else ''}"
    return f"{minutes // 60} hours"


def size_in_words(size: float) -> str:
    """Bytes in the unit that fits them, to three digits: 512 B, 3.4 MB, 12 GB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        # What would round to four digits belongs to the next unit.
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def gigabytes(size: float) -> str:
    """Bytes in GB whatever their number, so that they compare with a disk's: 500 GB, 10,000 GB."""
    return f"{size / 1e9:,.0f} GB"


def memory_in_words(size: float) -> str:
    """Bytes of memory as PyTorch tells them, in MiB below one GiB: 18.6 MiB, 2.5 GiB."""
    return gibibytes(size) if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def gibibytes(size: float) -> str:
    """Bytes of memory in GiB, as the makers of accelerators count them: 40.0 GiB."""
    return f"{size / 2**30:,.1f} GiB"


def moment_in_words(seconds: float) -> str:
    """Seconds since the epoch, such as `2026-08-20 11:30:44 UTC`."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


_LISTED = 8
"""So many ranks are named one by one; of more the neighbours are drawn together."""


def list_some(names: Sequence[str], most: int) -> str:
    """The first names, and how many there are beside them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 0, 1, 3`, or `ranks 0-6, 8-63`."""
    ordered = sorted(set(ranks))
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) <= _LISTED:
        return "ranks " + ", ".join(map(str, ordered))
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    more = f" and {len(parts) - _LISTED} more stretches" if len(parts) > _LISTED else ""
    return "ranks " + ", ".join(parts[:_LISTED]) + more


BUCKET_NAME: Final = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
"""What a bucket's name looks like (S3 user guide, bucketnamingrules)."""


def split_uri(uri: str) -> tuple[str, str]:
    """The bucket and the key of an S3 URI; the key is empty where the URI is a bucket's alone."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


_IMAGE_URI = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\."
    r"(?:amazonaws\.com(?:\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn)/"
    r"(?P<repository>[a-z0-9._/-]+?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


class ImageReference(NamedTuple):
    """What an image's URI in ECR says; without a tag and a digest the tag is `latest`."""

    uri: str
    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None


def parse_image_uri(uri: str) -> ImageReference | None:
    """The parts of an image's URI; None where it is not in ECR.

    Source: ECR user guide, registries (the endpoints `dkr.ecr` and, over IPv4 and IPv6, `dkr-ecr`).
    """
    match = _IMAGE_URI.fullmatch(uri)
    if match is None:
        return None
    tag = match["tag"] or (None if match["digest"] else "latest")
    return ImageReference(uri, match["account"], match["region"], match["repository"], tag, match["digest"])


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
_SHOWN = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Delete, the 8-bit controls of ISO 6429 (U+009B begins a sequence as ESC and a bracket do, U+009D one that
may write the clipboard), separators of lines, and the marks that reorder what follows: the nine of
"Trojan Source" (Boucher and Anderson, 2021)."""


def without_controls(text: str) -> str:
    """The text as it may be printed on a terminal; tabs and line feeds stay.

    Colours, cursor movements and the controls below the space go, as coloured logs are full of them.
    The rare ones above (see `_SHOWN`) are written as JSON writes them, `\\u009b`: nobody puts them into a
    line without a purpose, and JSON text is the same value afterwards.
    """
    if text.isprintable():
        return text
    return _SHOWN.sub(_escape, _CONTROL.sub("", _ANSI.sub("", text)))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


LONGEST_WORD = 200
"""Longer ones are no slip of anybody's, and comparing them takes time in proportion to their square: no name
that is looked for has more."""


def nearest(word: str, known: Iterable[str], *, most: int = 1, likeness: float = 0.6) -> list[str]:
    """The known words that are most like the given one, the likest first; none for one that is too long.

    `likeness` from 0 to 1 is what they must have at least (difflib.SequenceMatcher.ratio).
    """
    import difflib  # here: most commands that might need it never do

    if len(word) > LONGEST_WORD:
        return []
    return difflib.get_close_matches(word, list(known), n=most, cutoff=likeness)


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

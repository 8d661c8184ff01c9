"""The pages that users read, taken apart: their code, their links, their headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from launcher.failure_modes.registry import CATALOGUE

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
IDS = [str(page.relative_to(ROOT)) for page in PAGES]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return _FENCE.sub("", text)


def blocks(text: str, language: str | None = None) -> list[str]:
    """The blocks of code of a page; with `language` only those that are marked so."""
    return [body for marked, body in _FENCE.findall(text) if language is None or marked == language]


def spans(text: str) -> list[str]:
    """What stands between backticks within the sentences of a page."""
    return _SPAN.findall(prose(text))


def links(text: str) -> list[str]:
    """The targets of the links within the sentences of a page."""
    return _LINK.findall(prose(text))


def code(text: str) -> Iterator[str]:
    """Every piece of code on its own: spans, and the lines of blocks without prompt and comment."""
    yield from spans(text)
    for line in "\n".join(blocks(text)).splitlines():
        yield line.removeprefix("$ ").partition("  #")[0].strip()


def anchors(text: str) -> set[str]:
    """What `#name` may follow a link to the page: its headings as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def catalogue() -> str:
    """What the catalogue tells a reader to do, as one text."""
    return "\n".join(f"{mode.cause}\n{mode.remedy}" for mode in CATALOGUE.values())

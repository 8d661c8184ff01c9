"""What a requirements file asks pip to install: read, and never fetched.

Syntax: pip documentation, "Requirements File Format"; each requirement as in PEP 508, read by `packaging`.
Paths of packages are relative to the source folder, in which pip runs; those of further files (`-r`, `-c`) to
the file that names them.
"""

from __future__ import annotations

import codecs
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from launcher.frozen import frozen
from launcher.source.folder_walk import SourceError, SourceFile
from launcher.text.values import nearest, without_credentials

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MOST_REQUIREMENTS_BYTES = 1_000_000
"""Of one file; lists of every package with its hashes have a tenth of that."""

MOST_LINES = 20_000
"""Of all files together."""

MOST_FILES = 50

MOST_BRACKETS = 50
"""Of one line; the reader of markers goes one deeper with each, and Python's own depth has an end."""

_IN_CONTAINER = "/opt/ml/"
"""What lies below it, such as wheels in a channel, is there on the hosts, though not here."""

_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?!\\)")
_EXTRAS = re.compile(r"\[[\w.,\s-]*\]$")
_FLAGS = frozenset({"--no-index", "--pre", "--prefer-binary", "--require-hashes"})
_WITH_VALUE = {
    "-r": "--requirement", "-c": "--constraint", "-e": "--editable", "-i": "--index-url",
    "-f": "--find-links", "--pypi-url": "--index-url",
}  # fmt: skip
_LONG = frozenset(
    {
        "--requirement", "--constraint", "--editable", "--index-url", "--extra-index-url", "--find-links",
        "--no-binary", "--only-binary", "--trusted-host", "--use-feature",
    }
)  # fmt: skip
_OF_A_PACKAGE = ("--hash", "--config-setting", "--config-settings", "--global-option", "-C")
_BESIDE_A_PACKAGE = {*_OF_A_PACKAGE, *_WITH_VALUE, *_LONG, *_FLAGS}
"""pip takes an option of the whole file behind a package, too (23.2 and 26.3)."""


def read_requirements(
    name: str, files: Iterable[SourceFile], read: Callable[[SourceFile, int], bytes]
) -> RequirementsFile | None:
    """Read the requirements file `name` of a source, whose packed files are given; None where it is none.

    `read` gives the first so many bytes of a file, or raises SourceError.

    Never raises: a line that cannot be used is among the `unusable`.
    """
    packed = {file.name: file for file in files}
    first = posixpath.normpath(name)
    if first not in packed:
        return None
    reading = _RequirementsReader(RequirementsFile(first), packed, read)
    reading.read_file(first, constraints=False)
    return reading.found


@dataclass(slots=True)
class _RequirementsReader:
    """A file under way, with those that it names."""

    found: RequirementsFile
    packed: Mapping[str, SourceFile]
    read: Callable[[SourceFile, int], bytes]
    lines: int = 0
    within: list[str] = field(default_factory=list)

    def read_file(self, name: str, *, constraints: bool) -> None:
        """Read one file, all of whose packages are constraints or none."""
        file = self.packed[name]
        self.found.files.append(file)
        self.within.append(name)
        for number, text in self._bounded_lines(file):
            place = FileLine(name, number, file.path)
            if text.startswith("-"):
                self._option(text, place, constraints)
            else:
                self._package(text, place, constraints)
        self.within.pop()

    def _bounded_lines(self, file: SourceFile) -> Iterator[tuple[int, str]]:
        """Each line with its number from 1: continued ones joined, comments and empty ones left out."""
        place = FileLine(file.name, 1, file.path)
        try:
            content = self.read(file, MOST_REQUIREMENTS_BYTES + 1)
            if len(content) > MOST_REQUIREMENTS_BYTES:
                self._add_unusable(
                    place,
                    f"is larger than {MOST_REQUIREMENTS_BYTES // 1_000_000} MB",
                    "Is it the right file?",
                )
                return
            text = _decoded(content)
        except SourceError as error:
            self._add_unusable(place, f"cannot be read: {error.message.rstrip('.')}", error.remedy)
            return
        except UnicodeDecodeError:
            self._add_unusable(place, "is not text in UTF-8", "Save it as UTF-8, without null characters.")
            return
        if file.name == self.found.file:
            self.found.text = text
        lines = text.splitlines()
        self.lines += len(lines)
        if self.lines > MOST_LINES:
            self._add_unusable(
                place, f"makes more than {MOST_LINES:,} lines of all files together", "Shorten it."
            )
            return
        yield from logical_lines(lines)

    def _option(self, text: str, place: FileLine, constraints: bool) -> None:
        try:
            words = shlex.split(text)
        except ValueError as error:
            self._add_unusable(
                place, f"{_masked_text(text)!r} cannot be read: {error}", "Close the quotation mark."
            )
            return
        while words:
            name, value = _name_and_value(words)
            if name in _FLAGS:
                self.found.no_index |= name == "--no-index"
            elif value is None:
                self._unknown(name, place)
                return
            else:
                self._with_value(name, value, place, constraints)

    def _with_value(self, name: str, value: str, place: FileLine, constraints: bool) -> None:
        if name in ("--requirement", "--constraint"):
            self._further_file(name, value, place, constraints)
        elif name == "--editable":
            self._path_or_address(value, place, constraints)
        elif name == "--index-url":
            self.found.index = without_credentials(value)
        elif name == "--extra-index-url":
            self.found.links.append(without_credentials(value))
        elif name == "--find-links":
            self.found.links.append(without_credentials(value))
            if not _is_address(value) or value.startswith("file:"):
                here = posixpath.join(posixpath.dirname(place.file), value)
                known = next((each for each in (here, value) if self._is_packed(each)), value)
                self.found.links_in_source |= self._usable_path(known, _masked_text(value), place)

    def _unknown(self, name: str, place: FileLine, packages: str = "") -> None:
        near = nearest(name, [*_LONG, *_FLAGS])
        hint = f"Did you mean {near[0]}?" if near else "Take the line out."
        message = f"the option {_masked_text(name)!r} is none of a requirements file"
        self._add_unusable(place, message, hint, packages)

    def _further_file(self, option: str, value: str, place: FileLine, constraints: bool) -> None:
        if _is_address(value):
            self.found.fetched.append(without_credentials(value))
            return
        name = posixpath.normpath(posixpath.join(posixpath.dirname(place.file), value))
        if posixpath.isabs(value) or name.startswith("../") or name == "..":
            self._leads_out_of_source(value, place)
        elif name in self.within:
            message = f"{_masked_text(value)} leads back to itself, and pip would not end"
            self._add_unusable(place, message, "Take it out.")
        elif name not in self.packed:
            near = nearest(name, [each for each in self.packed if each.endswith((".txt", ".in"))])
            hint = f" Did you mean {near[0]}?" if near else ""
            self._add_unusable(
                place,
                f"{_masked_text(value)} is not among the files that are packed, and pip would stop there",
                f"Correct the name, add the file, or see whether .gitignore leaves it out.{hint}",
            )
        elif len(self.found.files) >= MOST_FILES:
            self._add_unusable(place, f"names one file more than {MOST_FILES}", "Put them together.")
        else:
            self.read_file(name, constraints=constraints or option == "--constraint")

    def _package(self, text: str, place: FileLine, constraints: bool) -> None:
        words = text.split()
        cut = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
        for word in words[cut:]:
            if word.startswith("-") and word.partition("=")[0] not in _BESIDE_A_PACKAGE:
                self._unknown(word.partition("=")[0], place, " ".join(words[:cut]))
                return
        self._requirement(" ".join(words[:cut]), place, constraints)

    def _requirement(self, text: str, place: FileLine, constraints: bool) -> None:
        from packaging.requirements import InvalidRequirement, Requirement

        if text.lower().endswith(_ARCHIVES) and " @ " not in text:
            self._path_or_address(text, place, constraints)
            return
        if (brackets := text.count("(")) > MOST_BRACKETS:
            self._add_unusable(
                place,
                f"{_masked_text(text)!r} has {brackets:,} brackets, more than {MOST_BRACKETS}",
                "Write its marker with fewer: `and` binds more tightly than `or`.",
            )
            return
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            if _is_address(text) or "/" in text or text.startswith("."):
                self._path_or_address(text, place, constraints)
                return
            why = str(error).splitlines()[0].rstrip(".")
            self._add_unusable(
                place,
                f"{_masked_text(text)!r} cannot be read: {why}; pip would refuse the whole file",
                "Write a package a line, such as einops==0.8.0 or transformers>=4.40,<5.",
                text,
            )
            return
        if requirement.url is None or self._is_usable_address(requirement.url, place):
            self._add_package(WantedPackage(_masked_text(text), place, requirement), constraints)

    def _path_or_address(self, text: str, place: FileLine, constraints: bool) -> None:
        if _is_address(text):
            if self._is_usable_address(text, place):
                self._add_package(WantedPackage(_masked_text(text), place), constraints)
            return
        path = _EXTRAS.sub("", text)
        if self._usable_path(path, _masked_text(text), place):
            self._add_package(
                WantedPackage(_masked_text(text), place, in_source=not posixpath.isabs(path)), constraints
            )

    def _is_usable_address(self, url: str, place: FileLine) -> bool:
        """Whether it is no way to a file; `file:./wheels/x.whl` is one within the source and no address."""
        if not re.match(r"(?:[a-z]+\+)?file:", url, re.IGNORECASE):
            return True
        path = urlsplit(url.partition("+")[2] or url).path
        if urlsplit(url).netloc or not path.startswith(_IN_CONTAINER):
            self._leads_out_of_source(url, place)
            return False
        return True

    def _usable_path(self, path: str, shown: str, place: FileLine) -> bool:
        normal = posixpath.normpath(path.removeprefix("file:"))
        outside = normal == ".." or normal.startswith(("../", "~"))
        if outside or (posixpath.isabs(normal) and not normal.startswith(_IN_CONTAINER)):
            self._leads_out_of_source(shown, place)
            return False
        if not posixpath.isabs(normal) and not self._is_packed(normal):
            self._add_unusable(
                place,
                f"{shown} is not among the files that are packed, so pip would not find it on the hosts",
                "Correct the path, which is relative to the source folder, or see whether .gitignore leaves "
                "it out.",
            )
            return False
        return True

    def _is_packed(self, path: str) -> bool:
        normal = posixpath.normpath(path)
        return normal == "." or any(name == normal or name.startswith(f"{normal}/") for name in self.packed)

    def _leads_out_of_source(self, shown: str, place: FileLine) -> None:
        self._add_unusable(
            place,
            f"{_masked_text(shown)} leads out of the source folder, of which alone the hosts get a copy",
            "Move what it names into the source folder, and write the path from there: ./libs/name.",
        )

    def _add_package(self, wanted: WantedPackage, constraints: bool) -> None:
        (self.found.constraints if constraints else self.found.packages).append(wanted)

    def _add_unusable(self, place: FileLine, message: str, remedy: str, packages: str = "") -> None:
        self.found.unusable.append(UnusableLine(place, message, remedy, packages))


_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
"""By which pip knows a file that is not in UTF-8, as PowerShell writes them (pip 24, req_file.py); the longer
ones first, as they begin alike."""


def _decoded(content: bytes) -> str:
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8-sig")
    return content.decode(encoding)


def _name_and_value(words: list[str]) -> tuple[str, str | None]:
    """Take the next option off the words: its long name, and its value, None where there is none."""
    word = words.pop(0)
    name, equals, value = word.partition("=")
    if word[:2] in _WITH_VALUE and not word.startswith("--"):
        name, equals, value = word[:2], word[2:3], word[2:].removeprefix("=")
    name = _WITH_VALUE.get(name, name)
    if name in _FLAGS:
        return name, None
    if name not in _LONG:
        return name, None
    if not equals and words:
        return name, words.pop(0)
    return name, value or None


def _is_address(text: str) -> bool:
    """Whether it is a URL, or a repository behind one (`git+ssh://`); a path has no scheme."""
    found = _URL.match(text)
    return found is not None and ("//" in text or found["scheme"].lower() == "file") and " @ " not in text


def _masked_text(text: str) -> str:
    """The text as it may be shown, credentials hidden and not too long."""
    shown = without_credentials(text)
    return shown if len(shown) <= 200 else f"{shown[:199]}…"


_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$")


def logical_lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Each line with its number from 1: continued ones are joined, comments and empty ones left out."""
    joined, start = "", 0
    for number, line in enumerate(lines, start=1):
        start = start or number
        # A comment may stand between the lines of a continued one, and does not end it.
        commented = joined and line.lstrip().startswith("#")
        continues = line.endswith("\\") and not commented
        joined += "" if commented else line[:-1].rstrip() + " " if continues else line
        if continues or commented:
            continue
        if bare := _without_comment(joined):
            yield start, bare
        joined, start = "", 0
    if bare := _without_comment(joined):
        yield start, bare


def _without_comment(line: str) -> str:
    return _COMMENT.sub("", line).strip()


@frozen
class FileLine:
    """A line of a requirements file: the file's name below the source folder, and where it lies here."""

    file: str
    line: int
    path: Path

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@frozen
class WantedPackage:
    """One package that a line asks for.

    `text` is the line without credentials; `requirement` what it says by PEP 508, None for a path or the
    address of a repository. `in_source` says that it is built from the source folder itself.
    """

    text: str
    place: FileLine
    requirement: Requirement | None = None
    in_source: bool = False


@frozen
class UnusableLine:
    """A line that pip would refuse on the hosts, or must not follow: why, and what to do."""

    place: FileLine
    message: str
    remedy: str
    packages: str = ""
    """The packages that it asks for, as they are written; empty where it names none."""


@dataclass(slots=True)
class RequirementsFile:
    """What a file and those that it names ask for, in their order.

    `file` is its name below the source folder, `files` all that were read. `constraints` limit versions and
    install nothing. `index` is the package index, where a line names one, `links` further places; in both
    credentials are hidden. `fetched` are files behind an address, whose content is not known here. `text` is
    that of the file itself, as far as it can be read.
    """

    file: str
    files: list[SourceFile] = field(default_factory=list)
    packages: list[WantedPackage] = field(default_factory=list)
    constraints: list[WantedPackage] = field(default_factory=list)
    index: str | None = None
    no_index: bool = False
    links: list[str] = field(default_factory=list)
    links_in_source: bool = False
    fetched: list[str] = field(default_factory=list)
    unusable: list[UnusableLine] = field(default_factory=list)
    text: str = field(default="", repr=False)

    @property
    def needs_source(self) -> bool:
        """Whether pip reads more of the source folder than the files themselves."""
        return self.links_in_source or any(each.in_source for each in (*self.packages, *self.constraints))

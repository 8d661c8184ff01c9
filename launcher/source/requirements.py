"""What a requirements file asks pip to install, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.source.files import SourceFile

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a requirements file: the file's name below the source folder, and where it lies here."""

    file: str
    line: int
    path: Path

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class WantedPackage:
    """One package that a line asks for.

    `text` is the line without credentials; `requirement` what it says by PEP 508, None for a path or the
    address of a repository. `in_source` says that it is built from the source folder itself.
    """

    text: str
    place: FileLine
    requirement: Requirement | None = None
    in_source: bool = False


@dataclass(frozen=True, slots=True)
class UnusableLine:
    """A line that pip would refuse on the hosts, or must not follow: why, and what to do."""

    place: FileLine
    message: str
    remedy: str


@dataclass(slots=True)
class RequirementsFile:
    """What a file and those that it names ask for, in their order.

    `file` is its name below the source folder, `files` all that were read. `constraints` limit versions and
    install nothing. `index` is the package index, where a line names one, `links` further places; in both
    credentials are hidden. `fetched` are files behind an address, whose content is not known here.
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

    @property
    def needs_source(self) -> bool:
        """Whether pip reads more of the source folder than the files themselves."""
        return self.links_in_source or any(each.in_source for each in (*self.packages, *self.constraints))

"""`[tool.slipway.lint]` of a project's pyproject.toml: which codes are looked for, and where not."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from launcher.failure_modes import job_file
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import FailureMode, Finding, Location, Stage
from launcher.failure_modes.registry import finds
from launcher.text.nearest import nearest

FILE = "pyproject.toml"
MOST_BYTES = 4_000_000
"""A larger file is not read."""

SECTION = "tool.slipway.lint"
KEYS = ("select", "ignore", "per-file-ignores", "exclude")


@dataclass(frozen=True, slots=True)
class LintConfiguration:
    """What a project says of its lint. Codes may be whole (`DDP004`) or those of a family (`DDP`).

    `select` empty is all of them. Patterns are those of a shell, held against the path below `folder`,
    against each folder on the way and against the bare name; `*` matches `/` as well.
    """

    folder: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=(), compare=False)
    """What is wrong with the section; what is right of it holds all the same."""

    def selects(self, code: str) -> bool:
        """Whether a code is looked for at all."""
        return not self.select or is_among(code, self.select)

    def ignores(self, code: str, file: Path) -> bool:
        """Whether the findings of a code in a file are accepted."""
        return is_among(code, self.ignore) or any(
            is_among(code, codes) and self._matches(file, pattern) for pattern, codes in self.per_file_ignores
        )

    def excludes(self, path: Path) -> bool:
        """Whether a file or folder that lies below a folder given to the lint is left out."""
        return any(self._matches(path, pattern) for pattern in self.exclude)

    def _matches(self, path: Path, pattern: str) -> bool:
        whole = path.absolute()
        if self.folder is not None and whole.is_relative_to(self.folder):
            whole = whole.relative_to(self.folder)
        names = (whole.name, *(each.as_posix() for each in (whole, *whole.parents)))
        return any(fnmatchcase(name, pattern.rstrip("/")) for name in names)


def is_among(code: str, codes: Iterable[str]) -> bool:
    """Whether a code, or the family that it begins with, is one of these."""
    return any(code == each or code.rstrip("0123456789") == each for each in codes)


def is_known(code: str) -> bool:
    """Whether there is such a code or family."""
    return code in CATALOGUE or any(is_among(each, (code,)) for each in CATALOGUE)


def meant_instead(code: str) -> str:
    """What to do about an unknown code."""
    near = nearest(code.upper(), CATALOGUE)
    return f"Did you mean {near[0]}?" if near else "`launch explain --all` lists all codes."


class Configurations:
    """The configurations of the folders asked for so far; each file is read once."""

    def __init__(self) -> None:
        """Start empty."""
        self._of_folder: dict[Path, LintConfiguration] = {}

    def of(self, path: Path) -> LintConfiguration:
        """That of the nearest pyproject.toml above a path that has the section; else the empty one."""
        folder = path.absolute()
        return self._of(folder if folder.is_dir() else folder.parent)

    def _of(self, folder: Path) -> LintConfiguration:
        for place in (folder, *folder.parents):
            found = self._of_folder.get(place)
            if found is None:
                found = read_configuration(place / FILE)
                self._of_folder[place] = found = found or LintConfiguration()
            if found.folder is not None:
                return found
        return LintConfiguration()

    def findings(self) -> Iterator[Finding]:
        """What is wrong with those that were read."""
        for configuration in self._of_folder.values():
            yield from configuration.findings


@finds(Stage.SCRIPT, job_file.UNREADABLE)
def read_configuration(file: Path) -> LintConfiguration | None:
    """The section of one pyproject.toml; None without such a file or section."""
    try:
        if not file.is_file() or file.stat().st_size > MOST_BYTES:
            return None
        text = file.read_text("utf-8")
        if "slipway" not in text:
            return None
        section: Any = tomllib.loads(text)
        for key in SECTION.split("."):
            if not isinstance(section, dict):
                raise ValueError(f"what [{SECTION}] stands in is no table, but {section!r:.40}")
            section = section.get(key, {} if key != "lint" else None)
    except OSError:
        return None
    except (ValueError, RecursionError) as error:
        finding = job_file.UNREADABLE.finding(
            Stage.SCRIPT,
            f"{FILE} cannot be read, so that its [{SECTION}] has no effect: {error or 'nested too deeply'}",
            remedy="Correct it: https://toml.io shows the syntax.",
            location=Location(str(as_seen_from_here(file)), 1, 1),
        )
        return LintConfiguration(file.parent, findings=(finding,))
    return None if section is None else _LintTable(file, text).read(section)


class _LintTable:
    def __init__(self, file: Path, text: str) -> None:
        self.file, self.lines = file, text.splitlines()
        self.findings: list[Finding] = []

    def read(self, section: Any) -> LintConfiguration:
        if not isinstance(section, dict):
            self.wrong(f"[{SECTION}] is no table", "lint")
            section = {}
        for key in section:
            if key not in KEYS:
                self.unknown(f"unknown key `{key}` in [{SECTION}]", key, _key_meant(key))
        per_file = section.get("per-file-ignores", {})
        if not isinstance(per_file, dict):
            self.wrong("`per-file-ignores` is no table of patterns with their codes", "per-file-ignores")
            per_file = {}
        return LintConfiguration(
            self.file.parent,
            select=self.codes(section, "select"),
            ignore=self.codes(section, "ignore"),
            per_file_ignores=tuple((pattern, self.codes(per_file, pattern)) for pattern in per_file),
            exclude=self.strings(section, "exclude"),
            findings=tuple(self.findings),
        )

    def strings(self, table: dict[str, Any], key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        self.wrong(f"`{key}` of [{SECTION}] is no list of strings", key)
        return ()

    def codes(self, table: dict[str, Any], key: str) -> tuple[str, ...]:
        named = self.strings(table, key)
        for code in named:
            if not is_known(code):
                self.unknown(f"{code} in `{key}` of [{SECTION}] is no code", code, meant_instead(code))
        return named

    @finds(Stage.SCRIPT, job_file.UNKNOWN_FIELD)
    def unknown(self, message: str, word: str, remedy: str) -> None:
        self.note(job_file.UNKNOWN_FIELD, f"{message}, and has no effect", word, remedy)

    @finds(Stage.SCRIPT, job_file.INVALID_VALUE)
    def wrong(self, message: str, word: str) -> None:
        self.note(job_file.INVALID_VALUE, f"{message}, and has no effect", word, _SHAPE)

    def note(self, mode: FailureMode, message: str, word: str, remedy: str) -> None:
        place = self.place(word)
        self.findings.append(mode.finding(Stage.SCRIPT, message, remedy=remedy, location=place, subject=word))

    def place(self, word: str) -> Location:
        """Where a word stands: TOML's reader gives no positions, so it is looked for below the heading."""
        heading = next((number for number, line in enumerate(self.lines) if SECTION in line), 0)
        for number, line in enumerate(self.lines[heading + 1 :], start=heading + 2):
            for written in (f'"{word}"', f"'{word}'", word):
                # In quotes anywhere, bare only as a key.
                at = line.find(written)
                if at >= 0 and (written != word or line.lstrip().startswith(word)):
                    return Location(
                        str(as_seen_from_here(self.file)), number, at + 1, number, at + 1 + len(written)
                    )
        return Location(str(as_seen_from_here(self.file)), heading + 1, 1)


_SHAPE = 'Write it as `select = ["DDP"]` or, of per-file-ignores, `"tests/*" = ["DDP006"]`.'


def _key_meant(key: str) -> str:
    near = nearest(key, KEYS)
    return f"Did you mean `{near[0]}`?" if near else f"Its keys are {', '.join(KEYS)}."


def as_seen_from_here(path: Path) -> Path:
    """A path as it is shorter to name: relative below the working folder, else as it is."""
    try:
        here = Path.cwd()
    except OSError:  # The folder is gone; what has a whole path can be read all the same.
        return path
    return path.relative_to(here) if path.is_relative_to(here) else path

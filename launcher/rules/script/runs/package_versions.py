"""Which versions of packages the ranks of a job run with: its image's, or what its requirements bring."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from launcher.planning.images import image_python, image_release
from launcher.program.values import LIBRARY_TABLES
from launcher.rules.job.image_packages import (
    ON_NO_INDEX,
    ImagePackages,
    first_wheel,
    image_packages,
    may_be_built,
    modules_brought,
    modules_of,
    modules_of_requirements,
)
from launcher.rules.script.findings import ScriptSubject
from launcher.source.archive import read_first_bytes
from launcher.source.folder_walk import SourceError, SourceFile, walk_folder
from launcher.source.requirements_file import RequirementsFile, read_requirements

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

_AT_LEAST = {
    (2, 3): {"numpy": "1.24", "scipy": "1.3", "Pillow": "10.0"},
    (2, 6): {
        "numpy": "1.26",
        "scipy": "1.11",
        "pandas": "2.1",
        "matplotlib": "3.8",
        "scikit-learn": "1.3",
        "PyYAML": "6.0",
    },
}
"""By the version of PyTorch from which on the image has these at least.

Source: the packages of AWS's images; the first wheels for Python 3.11 and, from 2.6 on, for Python 3.12.
"""
_LIMITS = frozenset({"==", "===", "~=", "<", "<="})
_FROM = frozenset({"==", "===", "~=", ">="})
_OLDEST_PYTHON = Version("3.11")
"""With which the newest versions of all packages can be installed that the tables name."""
_OF_ALL = frozenset({"numpy", "torch"})
"""What is so often needed that who bounds it bounds the others as well."""


_EXTENSION = re.compile(
    r"(?:[Ee]xt(?:ension)?\(\s*(?:name\s*=\s*)?|name\s*=\s*(?=[\"'](?:_|[\w.]+\._?\w+|\w+_(?:ext|cuda|cpp)[\"'])))"
    r"[\"']([\w.]+)[\"']"
)
"""How a setup.py names a compiled module: by what it calls with the name, or by what such names look like."""
_MOST_OF_SETUP = 200_000
"""So many bytes of a setup.py are read."""
_NEWEST = "newest"


class PackageVersions:
    """The versions of packages in a job, as far as anybody can tell before it runs."""

    def __init__(self, subject: ScriptSubject) -> None:
        """Of the job that starts a program."""
        self._framework = subject.job.framework
        self._folder, self._file = Path(subject.program.root), subject.job.code.requirements_file

    @cached_property
    def _packed(self) -> tuple[SourceFile, ...]:
        """The files of the source, as they are packed."""
        return tuple(walk_folder(self._folder).files)

    @cached_property
    def _requirements(self) -> RequirementsFile | None:
        """What the requirements file of the job's code asks for; None where there is none."""
        if self._file is None or not (self._folder / self._file).is_file():
            return None
        return read_requirements(self._file, self._packed, read_first_bytes)

    def has_since(self, package: str, since: str) -> str | None:
        """What to call the version that the job has, where that is surely `since` or a newer one."""
        has = self._lowest(package)
        if has is None or (has != _NEWEST and Version(has) < Version(since)):
            return None
        return has if has == self._exact.get(package) else f"{since} and newer"

    def lacks(self, module: str) -> bool:
        """Whether a module surely is neither in the image nor in what is installed: one of the first level,
        or a compiled one below a module of the program."""
        if self._image is None or module in self._image.modules or module in sys.stdlib_module_names:
            return False
        if "." in module or module in self.extensions:
            return module.rpartition(".")[2] in self.extensions
        if module in ON_NO_INDEX:
            return not may_be_built(self._requirements, module)
        return self._brought is not None and module not in self._brought

    @cached_property
    def extensions(self) -> frozenset[str]:
        """The compiled modules that the source's setup.py would build, where the job installs nothing of the
        source and none of them is packed."""
        wanted = self._requirements
        if wanted is not None and any(each.in_source for each in wanted.packages):
            return frozenset()
        files = walk_folder(self._folder).files
        built = {
            posixpath.basename(each.name).partition(".")[0] for each in files if each.name.endswith(".so")
        }
        texts = (_start_of(each) for each in self._packed if posixpath.basename(each.name) == "setup.py")
        named = {name for text in texts for name in _EXTENSION.findall(text)}
        return frozenset(name.rpartition(".")[2] for name in named) - built

    @cached_property
    def _brought(self) -> frozenset[str] | None:
        """The modules that the requirements bring; None where nobody can tell of one of them."""
        return modules_of_requirements(self._requirements)

    @cached_property
    def of_image(self) -> dict[str, str]:
        """The versions that the image has: of what is built for its torch, and the lowest of the others."""
        exact = self._exact
        if "torch" not in exact:
            return {}
        release = Version(exact["torch"]).release[:2]
        lowest = [table for version, table in _AT_LEAST.items() if release >= version]
        found = {package: version for table in lowest for package, version in table.items()}
        # What is there is there as a wheel.
        wheels = {each: first_wheel(_plain(each), exact.get("Python", "")) for each in found}
        newer = {name: first for name, first in wheels.items() if first is not None}
        return {name: max(found[name], newer.get(name, "0"), key=Version) for name in found} | exact

    def version_of(self, package: str) -> str | None:
        """The version that the job has, as far as it is known: its image's, the one that the requirements
        name, or the newest, which pip installs."""
        of_image = self.of_image.get(package)
        if of_image is not None or package not in LIBRARY_TABLES["newest_versions"]:
            return of_image
        lowest = self._lowest(package)
        if lowest == _NEWEST:
            newest: str = LIBRARY_TABLES["newest_versions"][package]
            return newest
        named = {each.version for each in self._asked_for(package) or () if each.operator in ("==", "~=")}
        return lowest if lowest in named and lowest.count(".") > 1 else None

    @cached_property
    def _exact(self) -> dict[str, str]:
        framework = self._framework
        if framework is None or framework.name != "pytorch" or not framework.version[:1].isdigit():
            return {}
        found = {"torch": framework.version}
        major, minor = (*Version(framework.version).release, 0)[:2]
        release = image_release("pytorch", framework.version)
        python = image_python(framework.python, () if release is None else release.python)
        if python is not None:
            found["Python"] = python
        if major == 2:
            found["torchvision"] = f"0.{minor + 15}.0"
        return found | dict(self._image.built_for_torch if self._image is not None else {})

    @cached_property
    def _image(self) -> ImagePackages | None:
        framework = self._framework
        if framework is None or not framework.version:
            return None
        return image_packages(framework.name, framework.version, None)

    def _lowest(self, package: str) -> str | None:
        """The lowest version that the job may have, `_NEWEST` where it is what pip finds today; None where
        nobody can tell, or the package is not there."""
        of_image = self.of_image.get(package)
        wanted = self._requirements
        if of_image is None and any(map(self.lacks, modules_of([_plain(package)]))):
            return _NEWEST if self._has_new_python() else None  # Who adds it gets that one.
        # What is built for the image's torch is kept, whatever the requirements say: pip refuses the others.
        if wanted is None or package in self._exact:
            return of_image
        if wanted.fetched or self._is_opaque(package) or self._may_be_unusable(package):
            return None
        asked = self._asked_for(package)
        if asked is None:
            return of_image
        bounds = [each.version.removesuffix(".*") for each in asked if each.operator in _FROM]
        is_limited = any(each.operator in _LIMITS for each in asked)
        if of_image is not None and asked.contains(of_image, prereleases=True):
            return of_image
        if not is_limited and self._is_newest(package):
            return _NEWEST
        # What has no wheel for this Python is not installed, and gives way to one that has.
        first = first_wheel(_plain(package), self._exact.get("Python", ""))
        try:
            return max((*bounds, first) if first and is_limited else bounds, key=Version, default=None)
        except InvalidVersion:
            return None

    def _is_opaque(self, package: str) -> bool:
        """Whether something is installed of which nobody knows here what it asks for, or a marker decides."""
        wanted = self._requirements
        lines = [] if wanted is None else [*wanted.packages, *wanted.constraints]
        name = canonicalize_name(package)
        return any(
            (each.in_source and package not in self._exact)
            or (each.requirement is None and name in canonicalize_name(each.text))
            or (
                each.requirement is not None
                and canonicalize_name(each.requirement.name) == name
                and bool(each.requirement.url or each.requirement.marker)
            )
            for each in lines
        )

    def _may_be_unusable(self, package: str) -> bool:
        """Whether a line that pip refuses may ask for a package, once somebody has mended it."""
        lines = [] if self._requirements is None else self._requirements.unusable
        return any(
            not each.packages or canonicalize_name(package) in canonicalize_name(each.packages)
            for each in lines
        )

    def _asked_for(self, package: str) -> SpecifierSet | None:
        """What versions of a package the requirements ask for; None where they do not name it."""
        found = [each.specifier for each in self._named() if canonicalize_name(each.name) == _plain(package)]
        whole = None
        for each in found:
            whole = each if whole is None else whole & each
        return whole

    def _named(self) -> Iterator[Requirement]:
        wanted = self._requirements
        for each in () if wanted is None else (*wanted.packages, *wanted.constraints):
            if each.requirement is not None:
                yield each.requirement

    def _has_new_python(self) -> bool:
        """Whether the newest versions of all packages can be installed with the image's Python."""
        python = self._exact.get("Python")
        return self._image is not None and python is not None and Version(python) >= _OLDEST_PYTHON

    def _is_newest(self, package: str) -> bool:
        """Whether pip finds the newest version of a package that is asked for without an upper limit: the
        image has none that it would keep, and nothing else that is limited has to fit to it."""
        if not self._has_new_python():
            return False
        own, brought = modules_of([_plain(package)]), modules_brought(_plain(package)) or frozenset()
        if self._image is None or own & self._image.modules:
            return False
        limited = [
            canonicalize_name(each.name)
            for each in self._named()
            if any(limit.operator in _LIMITS for limit in each.specifier)
        ]
        return not any(
            each in _OF_ALL or modules_of([each]) & brought or own & (modules_brought(each) or frozenset())
            for each in limited
        )


def _start_of(file: SourceFile) -> str:
    try:
        return read_first_bytes(file, _MOST_OF_SETUP).decode(errors="replace")
    except SourceError:
        return ""


def _plain(package: str) -> str:
    return canonicalize_name(package)

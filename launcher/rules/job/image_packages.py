"""What AWS's images hold for a script to import, and what a package of the index brings with it.

The table `image_packages.json` names packages as pip does. `images` are those that each image has on
SageMaker, by framework and full version: what all versions have in common, and what one has besides, some of
it on one kind of processor alone. `brings` are well-known ones that no image needs to have, each with what
pip installs beside it that not every image has. `first_wheels` are the first versions with a wheel for each
version of Python, of packages that are hard to build (or whose source builds with it), `wheels_before` older
ones that have one as well, and `source_builds` those whose source builds in the image. `unfit` are those that
newer torches do not run, `needs` the names that cannot be used without another package (`needs_since` which
version of which package), `repositories` the packages that well-known addresses hold, and `modules` the names
by which a package is imported, where they are others than its own. What is not in the table is not known, and
no rule may judge by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from launcher.facts import read_data_file
from launcher.frozen import frozen
from launcher.planning.images import image_release

if TYPE_CHECKING:
    from launcher.source.requirements_file import RequirementsFile, WantedPackage


@frozen
class ImagePackages:
    """What an image brings: the modules that a script can import, and the versions built for its torch.

    `shown_by` is the newest version that is known, of an image that is newer; empty of one that is known.
    """

    modules: frozenset[str]
    built_for_torch: Mapping[str, str]
    shown_by: str = ""


ON_NO_INDEX = {
    "apex": "apex",
    "amp_C": "apex",
    "knn_cuda": "knn",
    "pointnet2_ops": "pointnet",
    "MultiScaleDeformableAttention": "deform",
}
"""Modules that no package of PyPI brings, and a word of the addresses of which they are built."""


def image_packages(framework: str, version: str, processor: str | None) -> ImagePackages | None:
    """What the image of a framework's version holds; None where that is not known.

    `processor` is `cpu` or `gpu`, None where it may be either.
    """
    table, release = _table()["images"].get(framework), image_release(framework, version)
    if table is None or release is None:
        return None
    known = table["versions"]
    newest = max(known, key=Version)
    # AWS adds versions faster than packages: what the newest known image lacks a newer one lacks as well.
    is_newer = release.version not in known and Version(release.version) > Version(newest)
    row = known.get(newest if is_newer else release.version)
    if row is None:
        return None
    kinds = [processor] if processor is not None else ["cpu", "gpu"]
    names = [*table["common"], *row["more"], *(name for kind in kinds for name in row[kind])]
    built = {} if is_newer else row["built_for_torch"]
    return ImagePackages(modules_of(names), built, newest if is_newer else "")


def modules_brought(package: str) -> frozenset[str] | None:
    """What can be imported once pip has installed a package without extras; None if that is not known."""
    brought = _table()["brings"].get(package)
    if brought is not None:
        return modules_of([package, *brought])
    return modules_of([package]) if package in _in_images() else None


def modules_of_requirements(wanted: RequirementsFile | None) -> frozenset[str] | None:
    """What can be imported by the requirements; None where one of them may bring what is not known here.

    Such are extras, packages of the source itself, and what the table does not have.
    """
    if wanted is None:
        return frozenset()
    if wanted.fetched or wanted.unusable:
        return None
    modules = set[str]()
    for each in wanted.packages:
        said = each.requirement
        brought = None
        if _is_address(each):
            package = _of_repository(each.text, _table()["repositories"])
            brought = None if package is None else modules_brought(package)
        elif said is not None and not said.extras:
            from packaging.utils import canonicalize_name

            brought = modules_brought(canonicalize_name(said.name))
        if brought is None:
            return None
        modules |= brought
    return frozenset(modules)


def may_be_built(wanted: RequirementsFile | None, module: str) -> bool:
    """Whether the requirements may bring a module that is on no index: by the address of its repository, or
    from a folder of the source."""
    if wanted is None:
        return False
    word = ON_NO_INDEX.get(module, module).lower()
    return bool(wanted.fetched) or any(
        each.in_source or (_is_address(each) and word in each.text.lower()) for each in wanted.packages
    )


def _is_address(wanted: WantedPackage) -> bool:
    return wanted.requirement is None or wanted.requirement.url is not None


def _of_repository(text: str, known: Mapping[str, Any]) -> Any:
    """What is known of the repository that an address names, None of others."""
    return next((each for path, each in known.items() if "/" in path and path in text.lower()), None)


def first_wheel(package: str, python: str) -> str | None:
    """The first version of a package with a wheel for a version of Python; None where that is not known."""
    found: str | None = _table()["first_wheels"].get(package, {}).get(python)
    return found


def wheels_before(package: str) -> list[str]:
    """The versions of a package before that one that have a wheel for every Python as well."""
    found: list[str] = _table()["wheels_before"].get(package, [])
    return found


def builds_from_source(package: str, version: str) -> bool:
    """Whether pip is known to build a version of a package that has no wheel, if in minutes."""
    from packaging.specifiers import SpecifierSet

    known = _table()["source_builds"].get(package)
    return known is not None and SpecifierSet(known).contains(version)


@frozen
class Unfit:
    """A package that newer torches, or what comes with them, do not run: its versions before one or all, from
    which torch on, why, and where a program ends. `used_by` is what a program names that comes there, if that
    is not every one that imports it, and `instead` what to ask for."""

    before: str | None
    torch: str
    why: str
    ends: str = "where it is imported"
    used_by: str = ""
    instead: str | None = None


def unfit_package(package: str) -> Unfit | None:
    """What is known of a package that fails with newer torches; None where nothing is."""
    found = _table()["unfit"].get(package)
    return None if found is None else Unfit(**found)


def unfit_repository(text: str) -> Unfit | None:
    """The same of the repository whose address a line gives."""
    found = _of_repository(text, _table()["unfit"])
    return None if found is None else Unfit(**found)


def package_of(module: str) -> str | None:
    """What pip calls the package of a module (`PyYAML` for yaml), None if that is not known."""
    return _by_module().get(module)


def package_behind(name: str, image: ImagePackages | None) -> str | None:
    """The package without which a name of another one cannot be used; None where there is no such thing, or
    where it is not known that the image's version of the other one needs it."""
    package: str | None = _table()["needs"].get(name)
    other, since = _table()["needs_since"].get(package, ("", ""))
    version = image.built_for_torch.get(other) if image is not None else None
    is_needed = not other or (version is not None and Version(version) >= Version(since))
    return package if is_needed else None


def parts_with_needs(module: str) -> Iterator[str]:
    """The names of a module that cannot be used without another package: `Trainer` of transformers."""
    for name in _table()["needs"]:
        above, _, part = name.rpartition(".")
        if above == module:
            yield part


def modules_of(packages: Iterable[str]) -> frozenset[str]:
    """The modules of packages themselves, under the names by which they are imported."""
    named = _table()["modules"]
    return frozenset(module for each in packages for module in named.get(each, (re.sub(r"[-.]", "_", each),)))


@cache
def _in_images() -> frozenset[str]:
    return frozenset(
        name
        for framework in _table()["images"].values()
        for names in (
            framework["common"],
            *(row[key] for row in framework["versions"].values() for key in ("more", "cpu", "gpu")),
        )
        for name in names
    )


@cache
def _by_module() -> Mapping[str, str]:
    """The package of each module; of several that hold it the first that the table names."""
    found: dict[str, str] = {}
    for package in (*_table()["brings"], *sorted(_in_images())):
        for module in modules_of([package]):
            found.setdefault(module, package)
    return found


@cache
def _table() -> dict[str, Any]:
    return read_data_file(__file__, "image_packages.json")

"""What a Python has installed, and what of a requirements file that leaves to be installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.backends.local.interpreter import answer_of
from launcher.source.requirements import RequirementsFile, WantedPackage

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# For Python 3.8 and later, with its standard library alone. The markers are those of PEP 508.
_QUESTION = """
import sys
sys.path[:] = [place for place in sys.path if place]
import importlib.util, json, os, platform, re, site
from importlib import metadata
implementation = sys.implementation
full = "{0.major}.{0.minor}.{0.micro}".format(implementation.version)
packages, commands = {}, {}
for each in metadata.distributions():
    name = re.sub("[-_.]+", "-", each.metadata["Name"] or "").lower()
    if name and each.version and name not in packages:
        packages[name] = [each.version, list(each.requires or ())]
        for entry in each.entry_points:
            if entry.group == "console_scripts":
                commands.setdefault(entry.name, entry.value)
folders = site.getsitepackages() + ([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])
print(json.dumps({
    "slipway": 1,
    "packages": packages,
    "commands": commands,
    "folders": [folder for folder in folders if os.path.isdir(folder)],
    "pip": importlib.util.find_spec("pip") is not None,
    "markers": {
        "implementation_name": implementation.name,
        "implementation_version": full,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    },
}))
"""


@dataclass(frozen=True, slots=True)
class InstalledPackages:
    """What a Python finds: by its comparable name each package's version, and what it requires.

    `folders` are where it looks for packages, `commands` what they install to be called, each with
    `module:function`; `has_pip` says whether pip is among them, `markers` are PEP 508's.
    """

    packages: Mapping[str, tuple[str, tuple[str, ...]]]
    commands: Mapping[str, str]
    folders: tuple[str, ...]
    has_pip: bool
    markers: Mapping[str, str]


def packages_of(python: Path) -> InstalledPackages:
    """Ask a Python what it has installed. Raises BackendError where it does not say."""
    found = answer_of(python, _QUESTION)
    return InstalledPackages(
        packages={name: (version, tuple(needs)) for name, (version, needs) in found["packages"].items()},
        commands=found["commands"],
        folders=tuple(found["folders"]),
        has_pip=found["pip"],
        markers=found["markers"],
    )


def missing(wanted: RequirementsFile, installed: InstalledPackages) -> list[WantedPackage]:
    """The packages of a file that are not there in a version that fits it.

    What only pip can tell, such as the content of an address, counts as missing.
    """
    from packaging.utils import canonicalize_name

    limits = {
        canonicalize_name(each.requirement.name): each.requirement.specifier
        for each in wanted.constraints
        if each.requirement is not None
    }

    def is_there(each: WantedPackage) -> bool:
        if each.requirement is None:
            return False
        name = canonicalize_name(each.requirement.name)
        version = installed.packages.get(name, ("", ()))[0]
        within = name not in limits or not version or limits[name].contains(version, prereleases=True)
        return within and _fits(each.requirement, installed, frozenset())

    return [each for each in wanted.packages if not is_there(each)]


def _fits(wanted: Requirement, installed: InstalledPackages, above: frozenset[str]) -> bool:
    """Whether a requirement is met, and those of its extras; `above` are the requirements that led here."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion

    if wanted.marker is not None and not wanted.marker.evaluate(dict(installed.markers)):
        return True
    name = canonicalize_name(wanted.name)
    if wanted.url is not None or name not in installed.packages:
        return False
    try:
        if not wanted.specifier.contains(installed.packages[name][0], prereleases=True):
            return False
    except InvalidVersion:
        return False
    if str(wanted) in above:
        return True
    return all(_fits(each, installed, above | {str(wanted)}) for each in _of_extras(wanted, installed))


def _of_extras(wanted: Requirement, installed: InstalledPackages) -> Iterator[Requirement]:
    """What the extras of an installed package require; what it requires anyway was installed with it."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for text in installed.packages[canonicalize_name(wanted.name)][1] if wanted.extras else ():
        try:
            needed = Requirement(text)
        except InvalidRequirement:
            continue  # An old package's own affair.
        marker, needed.marker = needed.marker, None
        if marker is not None and any(
            marker.evaluate({**installed.markers, "extra": extra}) for extra in wanted.extras
        ):
            yield needed

"""What is installed before the script: lines that pip would refuse on every host, found here instead."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Location, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.code import DEFAULT_REQUIREMENTS, NO_REQUIREMENTS
from launcher.planning.images import image_release
from launcher.rules.job.subject import JobSubject
from launcher.source.requirements import FileLine, WantedPackage
from launcher.source.tree import SourceTree
from launcher.text.nearest import nearest

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_FIELD = ("code", "requirements")


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def named_requirements_are_packed(subject: JobSubject) -> Iterator[Finding]:
    """A file that the job names must be on the hosts; where the source is on S3, they look for it."""
    named, source = subject.job.code.requirements, subject.source
    on_s3 = subject.job.code.source_dir.startswith("s3://")
    if named in (None, NO_REQUIREMENTS) or source.requirements is not None or not source.exists or on_s3:
        return
    yield training_script.REQUIREMENT_MISSING.at(
        _FIELD,
        f"the requirements file {named} is not among the files of {source.folder} that are packed, so "
        "nothing could be installed",
        remedy="Correct `code.requirements`, which is relative to `code.source_dir`."
        + _hint(str(named), source),
    )


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def requirements_can_be_read(subject: JobSubject) -> Iterator[Finding]:
    """pip refuses the whole file for one line, on hosts that were waited and paid for."""
    found = subject.source.requirements
    for line in found.unusable if found else ():
        yield _at(line.place, line.message, line.remedy)


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def packages_are_wanted_in_one_version(subject: JobSubject) -> Iterator[Finding]:
    """Of each two lines on a package, no version may fit only one: pip then installs nothing."""
    for name, lines in _by_name(subject).items():
        for one, other in itertools.combinations(lines, 2):
            first, second = _said_by(one), _said_by(other)
            if first.specifier == second.specifier or first.marker != second.marker:
                continue
            contradict = _contradict(first, second)
            yield _at(
                other.place,
                f"{name} is asked for twice, as {one.text} in {one.place} and as {other.text}"
                + (": no version is both, and pip would install nothing" if contradict else ""),
                "Keep one of the two lines.",
                None if contradict else Severity.WARNING,
            )
            break


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def torch_is_that_of_the_image(subject: JobSubject) -> Iterator[Finding]:
    """The boot keeps the image's torch, which the rest of the image is built for; the toolkit replaces it."""
    framework = subject.job.framework
    if framework is None or framework.name != "pytorch":
        return
    release = image_release("pytorch", framework.version)
    if release is None:
        return  # There is no such image, which is found elsewhere.
    version = release.version
    for wanted in _by_name(subject).get("torch", ()):
        said = _said_by(wanted)
        if said.marker is not None or said.specifier.contains(version, prereleases=True):
            continue
        by_boot = subject.plan.with_boot
        yield _at(
            wanted.place,
            f"{wanted.text} is not the image's torch, {version}"
            + (
                ", which is kept, so that pip would install nothing"
                if by_boot
                else ": the image's toolkit would replace that, and what the image built for it may break"
            ),
            f"Take the line out, or set `framework.version` to the version that you want; the image's "
            f"torch {version} is there without it.",
            None if by_boot else Severity.WARNING,
        )


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def toolkit_knows_one_file(subject: JobSubject) -> Iterator[Finding]:
    """The toolkit of AWS's images installs the source folder's requirements.txt, always, and no other."""
    named = subject.job.code.requirements
    if subject.plan.with_boot or named is None or posixpath.normpath(named) == DEFAULT_REQUIREMENTS:
        return
    packed = any(file.name == DEFAULT_REQUIREMENTS for file in subject.source.files)
    if named == NO_REQUIREMENTS and not packed:
        return
    what = (
        f"installs {DEFAULT_REQUIREMENTS} of the source folder whatever the job file says"
        if named == NO_REQUIREMENTS
        else f"installs {DEFAULT_REQUIREMENTS} and no other file, so {named} would be passed over"
    )
    strategy = subject.job.distribution.strategy.value
    job = "a tuning job" if subject.job.tuning is not None else f"a job of the strategy {strategy}"
    yield training_script.REQUIREMENT_MISSING.at(
        _FIELD,
        f"requirements: {named} cannot be followed: {job} starts through the toolkit of the image, which "
        f"{what}",
        remedy=f"Leave {DEFAULT_REQUIREMENTS} out by .slipwayignore."
        if named == NO_REQUIREMENTS
        else f"Call the file {DEFAULT_REQUIREMENTS}, or write `-r {named}` into a file of that name.",
    )


def _at(place: FileLine, message: str, remedy: str, severity: Severity | None = None) -> Finding:
    """A finding at a line of the requirements file itself."""
    return training_script.REQUIREMENT_MISSING.finding(
        Stage.SPEC,
        f"{place}: {message}",
        remedy=remedy,
        severity=severity,
        location=Location(str(place.path), place.line, 1),
        subject=".".join(_FIELD),
    )


def _by_name(subject: JobSubject) -> Mapping[str, list[WantedPackage]]:
    """The lines with a name, constraints among them, by the name as pip compares them."""
    found = subject.source.requirements
    lines: dict[str, list[WantedPackage]] = {}
    for each in (*found.packages, *found.constraints) if found else ():
        if each.requirement is not None:
            from packaging.utils import canonicalize_name

            lines.setdefault(canonicalize_name(each.requirement.name), []).append(each)
    return lines


def _said_by(wanted: WantedPackage) -> Requirement:
    assert wanted.requirement is not None, "only lines with a name are gathered"
    return wanted.requirement


def _contradict(one: Requirement, other: Requirement) -> bool:
    """Whether a version that the one names exactly is none of the other's, or the other way round."""
    return any(
        not excluding.specifier.contains(pinned.version, prereleases=True)
        for pinning, excluding in ((one, other), (other, one))
        for pinned in pinning.specifier
        if pinned.operator == "==" and not pinned.version.endswith(".*")
    )


def _hint(named: str, source: SourceTree) -> str:
    name = posixpath.normpath(named)
    ignored = source.why_ignored(name)
    if ignored is not None and ignored.ignore_file is not None:
        return (
            f" {ignored.ignore_file.name} leaves it out: the pattern {ignored.pattern} fits {ignored.name}."
        )
    near = nearest(name, [file.name for file in source.files if file.name.endswith((".txt", ".in"))])
    return f" Did you mean {near[0]}?" if near else ""

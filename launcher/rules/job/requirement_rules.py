"""Rules on what a script needs beside itself: modules of the user's own, and packages that are installed.

The imports are held against the source, the requirements file and what AWS's image brings, and the file
itself is read for lines that pip would refuse on every host. Of packages that the data does not know
nothing is said with certainty.
"""

from __future__ import annotations

import ast
import itertools
import os
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Edit, Finding, Fix, Location, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.job_sections import DEFAULT_REQUIREMENTS, NO_REQUIREMENTS
from launcher.jobs.load_job import import_folders
from launcher.planning.image_choice import job_image_software
from launcher.planning.images import image_python, image_release, parse_aws_image
from launcher.program.index import FileIndex, absolute_module_name, dotted_name, is_package
from launcher.program.program import Program
from launcher.program.texts import folders_added_outside
from launcher.rules.job.image_packages import (
    ON_NO_INDEX,
    ImagePackages,
    Unfit,
    builds_from_source,
    first_wheel,
    image_packages,
    may_be_built,
    modules_of_requirements,
    package_behind,
    package_of,
    parts_with_needs,
    unfit_package,
    unfit_repository,
    wheels_before,
)
from launcher.rules.job.subject import JobSubject
from launcher.source.requirements_file import FileLine, WantedPackage
from launcher.source.tree import SourceTree
from launcher.text.values import nearest

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# What the script imports of the user's own.


_MADE_LATER = ("_pb2", "_pb2_grpc", "_version", "version", "__about__")
"""The ends of modules that a build writes."""


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def own_modules_are_packed(subject: JobSubject) -> Iterator[Finding]:
    """A module of the user's that every run imports and the archive does not hold.

    It is left out by a pattern, lies beside the source folder, or is in none of the packages that are packed.
    A warning, as something that is installed may have the same name. So too of a folder above the source that
    the program adds to `sys.path`, which is not there in the container. Silent where it changes `sys.path` in
    a way that is not written out, and of what it imports in a `try`, a condition or a function.
    """
    program, source = subject.program, subject.source
    if program is None or source.problems or source.is_packed or import_folders(subject.job) is None:
        return
    imported = _files_at_start(program)
    if any(word in file.text for word in ("sys.modules", "__path__", "addsitedir") for file in imported):
        return
    outside = [_folders_added(source, file) for file in program.files]
    added = [folder for each in outside for folder in each or ()]
    seen, packed = set[str](), {each.name for each in source.files}
    reasons = set[tuple[str, tuple[str, str]]]()
    for file, node, module in sure_imports(program):
        if module in seen or module.endswith(_MADE_LATER):
            continue
        seen.add(module)
        why = _why_part_is_missing(subject, program, module, packed)
        if why is None and None not in outside:
            why = _why_module_is_missing(subject, program, module, packed, added)
        if why is not None and (top := module.partition(".")[0], why) not in reasons:
            reasons.add((top, why))
            yield training_script.REQUIREMENT_MISSING.finding(
                Stage.SPEC,
                f"{posixpath.basename(file.path.as_posix())} imports {module}, which {why[0]}: the "
                "script would end with 'No module named' on every host",
                remedy=why[1],
                severity=Severity.WARNING,
                location=file.location(node),
                subject=module,
            )


def _folders_added(source: SourceTree, file: FileIndex) -> list[Path] | None:
    """The folders outside of the source that a file adds to `sys.path`; None where nobody can tell."""
    started_in = (source.folder, source.folder / posixpath.dirname(source.entry_point_name))
    return folders_added_outside(file, started_in, source.folder)


_QUIETLY_THERE = re.compile(
    r"torch(?!codec)\w*|functorch|triton|numpy|scipy|pandas|sklearn|PIL|cv2|ya?ml|requests|tqdm|boto\w+|s3fs|s3transfer|s3torch\w+"
    r"|fsspec"
    r"|matplotlib|mpl_toolkits|seaborn|plotly|bokeh|psutil|packaging|h5py|numba|click|attrs?|filelock|networkx"
    r"|sympy|jinja2|joblib|dateutil|pytz|six|certifi|urllib3|dill|cloudpickle|typing_extensions|setuptools"
    r"|pkg_resources|pip|mpi4py|sagemaker\w*|sm\w+|shap|transformer_engine|flash_attn"
    r"|tensor(?:flow|board)|keras|google|omegaconf|huggingface_hub|tokenizers|safetensors|lightning_utilities"
    r"|slipway|IPython|Cython|pynvml|ninja"
)
"""What images and the packages that are listed often bring: of the rest one is reminded, where the image's
packages or those of a requirement are not known."""


_INSTALLING = re.compile(
    r"sys\.modules\[[^\]]*\]\s*=(?!=)|sys\.modules\.(update|setdefault)|[\"']pip3?[\"']|\bpip\.(main|_internal)"
    r"|\b(system|call|check_call|check_output|Popen|popen|run)\([^\n]*\bpip3?\b"
)
"""What a file holds that installs packages, or puts modules where they are looked for."""


def _is_built(name: str) -> bool:
    """Whether a file of the source is one that a compiler has to make a module of."""
    return name.endswith((".cpp", ".cc", ".cu", ".pyx", ".c"))


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def imports_are_installed(subject: JobSubject) -> Iterator[Finding]:
    """What every run imports, and neither the source nor the requirements nor the image has.

    A warning for each package, where it is known what the image holds and what the requirements bring, with
    the line that is missing; otherwise an information on all of them. Silent of an image of the user's own,
    and where the program installs packages or looks for modules itself.
    """
    job, program, source = subject.job, subject.program, subject.source
    image = _packages_of_image(subject)
    if (job.framework is None and image is None) or program is None or not subject.on_sagemaker:
        return
    if source.problems or source.is_packed or import_folders(job) is None:
        return
    imported = _files_at_start(program)
    if any(map(_INSTALLING.search, (file.text for file in imported))):
        return
    # A package of PyPI lies in none of the folders that a program adds.
    is_elsewhere = any(_folders_added(source, file) != [] for file in imported)
    stems = (posixpath.splitext(posixpath.basename(each.name)) for each in source.files)
    built = {stem for stem, ending in stems if _is_built(ending)}
    brought = modules_of_requirements(source.requirements)
    present = (image.modules if image is not None else frozenset()) | (brought or frozenset())
    missing: dict[Location, dict[str, str]] = {}
    not_known: dict[str, Location] = {}
    for top, (file, node, shown) in _imports_from_elsewhere(subject, program, image).items():
        package = package_of(top)
        if top in present:
            continue
        if image is not None and brought is not None and package is not None:
            yield _missing_package(subject, package, shown, file.location(node), image)
        elif image and top in (built | {*ON_NO_INDEX}) and not may_be_built(source.requirements, top):
            missing.setdefault(file.location(node), {})[shown] = top
        elif _QUIETLY_THERE.fullmatch(top) or (is_elsewhere and shown.startswith(top)):
            continue
        elif image is not None and brought is not None and top not in ON_NO_INDEX:
            missing.setdefault(file.location(node), {})[shown] = top
        else:
            not_known.setdefault(top, file.location(node))
    for location, modules in missing.items():
        yield _missing_module(subject, modules, location)
    if not_known:
        yield _packages_to_look_at(subject, not_known)


def _packages_of_image(subject: JobSubject) -> ImagePackages | None:
    """What the job's image brings; None where nobody knows, as of one that is made of AWS's."""
    job, facts = subject.job, subject.facts
    named = parse_aws_image(job.image) if job.image is not None else None
    if named is not None and named.repository not in _PLAIN_IMAGES:
        return None
    software = job_image_software(job, facts)
    if software is None:
        return None
    processor = named.processor if named is not None else _processor(subject)
    return image_packages(software.framework, software.version, processor)


_PLAIN_IMAGES = frozenset({"pytorch", "pytorch-training", "tensorflow-training"})
"""AWS's repositories of the frameworks alone; Hugging Face's images of them have more packages."""


def _processor(subject: JobSubject) -> str | None:
    return None if subject.facts is None else "gpu" if subject.facts.has_gpus else "cpu"


def _imports_from_elsewhere(
    subject: JobSubject, program: Program, image: ImagePackages | None
) -> dict[str, tuple[FileIndex, ast.stmt, str]]:
    """By module of the first level what is imported that is neither Python's own nor in the source.

    With the first import of each, and how it is shown. What another package needs only for a part of itself
    (`torch.utils.tensorboard`) counts where that part is imported.
    """
    packed = {file.name for file in subject.source.files}
    own = {part.partition(".")[0] for name in packed if not _is_built(name) for part in name.split("/")}
    sure = [each for each in sure_imports(program) if each[2].partition(".")[0] not in own]
    modules = {module for _, _, module in sure}
    left_out = {each for each in modules if _why_module_is_missing(subject, program, each, packed)}
    found: dict[str, tuple[FileIndex, ast.stmt, str]] = {}
    for file, node, module in sure:
        top = module.partition(".")[0]
        if module in left_out:
            continue
        for name in (module, *_names_within(node, module), *_names_used(file, node)):
            behind = package_behind(name, image)
            if behind is not None and not _is_installed(subject, behind):
                found.setdefault(behind, (file, node, f"{name}, which needs {behind}"))
        if not _is_installed(subject, top):
            found.setdefault(top, (file, node, top))
    return found


def _names_within(node: ast.stmt, module: str) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom):
        yield from (f"{module}.{each.name}" for each in node.names)


def _names_used(file: FileIndex, node: ast.stmt) -> Iterator[str]:
    """Of what a statement imports by its own name, the parts that need a package and that the file calls, as
    of `transformers.Trainer(...)`."""
    for each in node.names if isinstance(node, ast.Import) else ():
        for part in parts_with_needs(each.name):
            written = f"{each.asname or each.name}.{part}"
            if any(dotted_name(call.func) == written for call in file.calls_of.get(part, ())):
                yield f"{each.name}.{part}"


def _missing_package(
    subject: JobSubject, package: str, shown: str, location: Location, image: ImagePackages
) -> Finding:
    """A package that is known to be in none of the places; with the line of the file that is to be made."""
    source, wanted = subject.source, subject.source.requirements
    listed = wanted.file if wanted is not None else subject.job.code.requirements or DEFAULT_REQUIREMENTS
    by = f" (by what that of {image.shown_by} holds)" if image.shown_by else ""
    finding = training_script.REQUIREMENT_MISSING.finding(
        Stage.SPEC,
        _neither_has(subject, shown, location, listed, by),
        remedy=f"Add the line {package} to {listed} in the source folder (`launch check --fix` does)."
        if listed != NO_REQUIREMENTS
        else f"Take `requirements: {NO_REQUIREMENTS}` out, and write {package} into {DEFAULT_REQUIREMENTS}.",
        severity=Severity.WARNING,
        location=location,
        subject=package,
    )
    text = wanted.text if wanted is not None else ""
    if listed == NO_REQUIREMENTS or "--hash" in text or "--require-hashes" in text:
        return finding  # A line without hashes beside those with them makes pip refuse the file.
    line = f"{package}\n" if text[-1:] in ("", "\n") else f"\n{package}\n"
    return replace(finding, fix=Fix(True, (Edit(str(source.folder / listed), len(text), len(text), line),)))


def _neither_has(
    subject: JobSubject, shown: str, location: Location, listed: str, by: str = "", pronoun: str = "it"
) -> str:
    """What is said of a module that is in none of the places; `by` says by what the image is known."""
    brought = "the source folder" if subject.source.requirements is None else f"what {listed} installs"
    return (
        f"{posixpath.basename(location.file)} imports {shown}: neither the image{by} nor {brought} has "
        f"{pronoun}, and the script would end with 'No module named' on every host"
    )


def _missing_module(subject: JobSubject, modules: Mapping[str, str], location: Location) -> Finding:
    """Modules of no package that is known, as of one that is built by hand, imported at one place: how each
    is shown, and its name."""
    wanted = subject.source.requirements
    listed = wanted.file if wanted is not None else DEFAULT_REQUIREMENTS
    shown, module = next(iter(modules.items()))
    remedy = (
        f"Write what brings it into {listed} in the source folder: a package, an address or a folder with a "
        f"setup.py (`./{module}`), which is then built on every host."
    )
    if not shown.startswith(module):
        remedy = f"Write {module} into {listed} in the version that fits the image, or do without it."
    return training_script.REQUIREMENT_MISSING.finding(
        Stage.SPEC,
        _neither_has(
            subject, ", ".join(modules), location, listed, pronoun="them" if len(modules) > 1 else "it"
        ),
        remedy=remedy,
        severity=Severity.WARNING,
        location=location,
        subject=shown,
    )


def _packages_to_look_at(subject: JobSubject, missing: Mapping[str, Location]) -> Finding:
    """What may be missing: the image's packages are not known, or those that a requirement brings."""
    wanted = subject.source.requirements
    listed = wanted.file if wanted else None
    what = f"{listed} does not name" if listed else "nothing that is installed brings"
    return training_script.REQUIREMENT_MISSING.finding(
        Stage.SPEC,
        f"the script imports {', '.join(missing)}, which {what}: it runs only if the image has "
        f"{'it' if len(missing) == 1 else 'them'}",
        remedy=f"Add what is missing to {listed or DEFAULT_REQUIREMENTS} in the source folder.",
        severity=Severity.INFO,
        location=next(iter(missing.values())),
        subject="code.requirements",
        verified=False,
    )


def _files_at_start(program: Program) -> set[FileIndex]:
    """The files that are run as soon as the program starts."""
    return {program.entry, *(file for file, _, _ in sure_imports(program))}


def sure_imports(program: Program) -> Iterator[tuple[FileIndex, ast.stmt, str]]:
    """What is imported as soon as the program starts: in which file, by which statement, which module."""
    waiting, seen = [program.entry], {program.entry}
    while waiting:
        file = waiting.pop()
        for node in file.tree.body:
            named = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and (node.module or node.level):
                named = ["." * node.level + (node.module or "")]
            for name in named:
                module = absolute_module_name(name, program.module_name(file), is_package(file))
                parts = module.split(".")
                yield file, node, module
                names = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
                for each in (*names, *_names_within(node, module)):
                    found = program.modules.get(each)
                    if found is not None and found not in seen:
                        seen.add(found)
                        waiting.append(found)


def _why_part_is_missing(
    subject: JobSubject, program: Program, module: str, packed: set[str]
) -> tuple[str, str] | None:
    """Why a part of a package of the program's is not there, wherever that package lies; None where it is."""
    above, _, last = module.rpartition(".")
    package = program.modules.get(above)
    if module in program.modules or package is None or not is_package(package):
        return None
    folder = os.path.relpath(os.path.realpath(package.path.parent), os.path.realpath(subject.source.folder))
    place = posixpath.normpath(posixpath.join(folder, last))
    there = re.compile(rf"{re.escape(place)}(/.*|\.(py|pyc|pyd|so)|\.[^/]*\.so)")
    if any(map(there.fullmatch, packed)):
        return None
    return (
        f"is not in the package {above} that is packed",
        "Correct the import, or pack the module.",
    )


def _why_module_is_missing(
    subject: JobSubject, program: Program, module: str, packed: set[str], added: Sequence[Path] = ()
) -> tuple[str, str] | None:
    """Why a module of the user's is not in the archive, and what to do; None where it is, or is another's.

    `added` are the folders outside of the source in which the program looks, too.
    """
    source, top = subject.source, module.partition(".")[0]
    found = program.modules.get(module)
    if found is not None:
        name = os.path.relpath(os.path.realpath(found.path), os.path.realpath(source.folder))
        ignored = source.why_ignored(name) if name not in packed else None
        if ignored is None or ignored.ignore_file is None:
            return None
        return (
            f"{ignored.ignore_file.name} leaves out (the pattern {ignored.pattern} fits {ignored.name})",
            f"Change the pattern, or add the line !{name} to {source.folder / '.slipwayignore'}.",
        )
    places = {"", posixpath.dirname(source.entry_point_name)}
    own = [place for place in places if posixpath.join(place, top, "__init__.py") in packed]
    if own and "." in module:
        wanted = [posixpath.join(place, *module.split(".")) for place in own]
        if any(name.startswith((f"{each}.", f"{each}/")) for each in wanted for name in packed):
            return None
        return f"is not in the package {top} that is packed", "Correct the import, or pack the module."
    if own or any(name.startswith((f"{top}.", f"{top}/")) for name in packed) or _is_installed(subject, top):
        return None
    for folder in (source.folder.parent, *added):
        names = (f"{top}.py", f"{top}/__init__.py", *([f"{module.replace('.', '/')}.py"] if added else []))
        if any((folder / name).is_file() for name in names) and not _QUIETLY_THERE.fullmatch(top):
            return (
                f"lies in {folder}, outside of code.source_dir, and only what is inside is packed",
                "Set `code.source_dir` to the folder that holds both, or move the module.",
            )
    return None


def _is_installed(subject: JobSubject, top: str) -> bool:
    """Whether a module may come from Python itself, or from a package of the requirements."""
    wanted = subject.source.requirements
    if top == "__main__" or top in sys.stdlib_module_names or (wanted is not None and wanted.fetched):
        return True
    texts = [each.text for each in wanted.packages] if wanted else []
    return any(top.lower() in text.replace("-", "_").lower() or text.startswith(".") for text in texts)


# What is installed before the script.


_FIELD = ("code", "requirements")


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def named_requirements_are_packed(subject: JobSubject) -> Iterator[Finding]:
    """A file that the job names must be on the hosts; where the source is on S3, they look for it.

    A warning of one that is called as it is by custom and that .gitignore leaves out (.slipwayignore is
    written for jobs, and means it).
    """
    named, source = subject.job.code.requirements, subject.source
    on_s3 = subject.job.code.source_dir.startswith("s3://")
    ignored = source.why_ignored(DEFAULT_REQUIREMENTS) if named is None else None
    if ignored is not None and ignored.ignore_file is not None and ignored.ignore_file.name == ".gitignore":
        yield training_script.REQUIREMENT_MISSING.at(
            _FIELD,
            f"{DEFAULT_REQUIREMENTS} is left out by {ignored.ignore_file.name} (the pattern "
            f"{ignored.pattern}): nothing of what it asks for would be installed",
            remedy=f"Add the line !{DEFAULT_REQUIREMENTS} to {source.folder / '.slipwayignore'}; or write "
            f"`requirements: {NO_REQUIREMENTS}` where the image has all that the script needs.",
            severity=Severity.WARNING,
        )
    if named in (None, NO_REQUIREMENTS) or source.requirements is not None or not source.exists or on_s3:
        return
    yield training_script.REQUIREMENT_MISSING.at(
        _FIELD,
        f"the requirements file {named} is not among the files of {source.folder} that are packed, so "
        "nothing could be installed",
        remedy="Correct `code.requirements`, which is relative to `code.source_dir`."
        + _nearest_file_hint(str(named), source),
    )


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def requirements_can_be_read(subject: JobSubject) -> Iterator[Finding]:
    """pip refuses the whole file for one line, on hosts that were waited and paid for."""
    found = subject.source.requirements
    unusable = list(found.unusable) if found else []
    if len(unusable) > _MOST_LINES_TOLD:
        yield _at_line(
            unusable[0].place,
            f"{unusable[0].message}; {len(unusable) - 1} further lines cannot be read either",
            "Write a package a line, such as einops==0.8.0; what conda exports is no requirements file.",
        )
        return
    for line in unusable:
        yield _at_line(line.place, line.message, line.remedy)


_MOST_LINES_TOLD = 8
"""Lines of a requirements file that are told one by one; where more cannot be read, it is another kind of
file."""


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def packages_are_wanted_in_one_version(subject: JobSubject) -> Iterator[Finding]:
    """Of each two lines on a package, no version may fit only one: pip then installs nothing."""
    for name, lines in _by_name(subject).items():
        for one, other in itertools.combinations(lines, 2):
            first, second = _said_by(one), _said_by(other)
            if first.specifier == second.specifier or first.marker != second.marker:
                continue
            contradict = _exclude_each_other(first, second)
            yield _at_line(
                other.place,
                f"{name} is asked for twice, as {one.text} in {one.place} and as {other.text}"
                + (": no version is both, and pip would install nothing" if contradict else ""),
                "Keep one of the two lines.",
                None if contradict else Severity.WARNING,
            )
            break


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def torch_is_that_of_the_image(subject: JobSubject) -> Iterator[Finding]:
    """The boot keeps the image's torch, which the rest of the image is built for; the toolkit replaces it.

    A warning of a run on this machine, whose Python may have another torch than the image.
    """
    framework = subject.job.framework
    if framework is None or framework.name != "pytorch":
        return
    release = image_release("pytorch", framework.version)
    if release is None:
        return  # There is no such image, which is found elsewhere.
    by_boot = subject.plan.with_boot
    for name, versions in _versions_beside_torch(subject, release.version).items():
        for wanted in _by_name(subject).get(name, ()):
            said = _said_by(wanted)
            if said.marker or any(said.specifier.contains(each, prereleases=True) for each in versions):
                continue
            shown = versions[0] if name == "torch" else versions[0].rpartition(".")[0]
            yield _at_line(
                wanted.place,
                f"{wanted.text} is not the image's {name}, {shown}"
                + (
                    ", which is kept, so that pip would install nothing"
                    if by_boot
                    else ": the image's toolkit would replace that, and what the image built for it may break"
                ),
                f"Take the line out, or set `framework.version` to the version that you want; the image's "
                f"{name} {shown} is there without it.",
                None if by_boot and not subject.here else Severity.WARNING,
            )


def _versions_beside_torch(subject: JobSubject, torch: str) -> dict[str, tuple[str, ...]]:
    """What an image with this torch holds, which belongs together: the versions that each may have.

    Source: pytorch/vision, README (torch 2.0 has torchvision 0.15, torch 1.13 has 0.14); torchaudio has
    torch's own number, and before 2.0 its second part.
    """
    major, minor = (int(part) for part in torch.split(".")[:2])
    if (major, minor) > (2, 9):
        image = _packages_of_image(subject)
        beside = image.built_for_torch if image is not None else {}
        minors = {name: version.rpartition(".")[0] for name, version in beside.items()}
    else:
        minors = {
            "torchvision": f"0.{minor + (15 if major == 2 else 1)}",
            "torchaudio": f"2.{minor}" if major == 2 else f"0.{minor}",
        }
    return {
        "torch": (torch,),
        **{name: tuple(f"{each}.{patch}" for patch in range(4)) for name, each in minors.items()},
    }


_NO_PACKAGES = {
    "cv2": "opencv-python-headless",
    "pil": "Pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
    "dateutil": "python-dateutil",
    "pytorch": "torch",
    "python": None,
    "cudatoolkit": None,
    "pytorch-cuda": None,
}
"""What is no package of pip's, or refuses to be built: names of modules, and of packages of conda."""


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def requirements_are_packages(subject: JobSubject) -> Iterator[Finding]:
    """No names of modules, of conda's packages or of Python's own modules, and no versions that cannot be."""
    for name, lines in _by_name(subject).items():
        for wanted in lines:
            said = _said_by(wanted)
            if said.marker is not None:
                continue
            if name == "sklearn" and "0.0" in {each.version for each in said.specifier}:
                continue  # The one version that installs: it only asks for scikit-learn.
            if name in _NO_PACKAGES:
                meant = _NO_PACKAGES[name]
                yield _at_line(
                    wanted.place,
                    f"{said.name} is no package that pip could install",
                    f"Write {meant}." if meant else "Take the line out; the image brings it.",
                    Severity.WARNING,
                )
            elif name.replace("-", "_") in sys.stdlib_module_names:
                yield _at_line(
                    wanted.place,
                    f"{said.name} is Python's own module: a package of that name is missing, needless or "
                    "hides it",
                    "Take the line out.",
                    Severity.WARNING,
                )
            elif _excludes_all(said):
                yield _at_line(
                    wanted.place,
                    f"{wanted.text} fits no version at all, and pip would install nothing",
                    "Correct the versions.",
                )


def _excludes_all(said: Requirement) -> bool:
    """Whether no version is in all of the ranges: none of their ends, and nothing just beyond one."""
    ends = [each.version.removesuffix(".*") for each in said.specifier]
    tried = [version for end in ends for version in (end, f"{end}.1")] if len(ends) > 1 else []
    return bool(tried) and not any(
        said.specifier.contains(each, prereleases=True) for each in (*tried, "0", "99999")
    )


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def versions_have_wheels(subject: JobSubject) -> Iterator[Finding]:
    """No versions that are older than the first one with a wheel for the image's Python.

    pip would build them on every host, with a Python that their sources do not know, and fail: numpy, scipy
    and the like need compilers and the tools of their day. Silent of the sources that are known to build.
    """
    job = subject.job
    software = job_image_software(job, subject.facts)
    named = None if job.framework is None else job.framework.python
    python = image_python(named, () if software is None else software.python)
    if python is None or subject.here:
        return
    for name, lines in _by_name(subject).items():
        first = first_wheel(name, python)
        for wanted in lines if first is not None else ():
            said = _said_by(wanted)
            if said.marker or said.url or _excludes_all(said):
                continue
            pinned = [each.version for each in said.specifier if each.operator in ("==", "===")]
            if any(builds_from_source(name, each) for each in pinned if not each.endswith(".*")):
                continue
            if _is_older(said, str(first)) and not any(map(said.specifier.contains, wheels_before(name))):
                yield _at_line(
                    wanted.place,
                    f"{wanted.text} has no wheel for the image's Python {python} (the first is {first}): "
                    "pip would build it on every host and most likely fail",
                    f"Ask for {name}>={first}, take the line out where the image brings the package, or name "
                    "an older image (`framework.version`).",
                )


@finds(Stage.SPEC, training_script.REQUIREMENT_MISSING)
def packages_run_with_torch(subject: JobSubject) -> Iterator[Finding]:
    """No packages that end with an error beside the image's torch, or the numpy that comes with it."""
    software = job_image_software(subject.job, subject.facts)
    if software is None or software.framework != "pytorch" or subject.here:
        return
    from packaging.version import Version

    for name, lines in _by_name(subject).items():
        unfit = unfit_package(name)
        if unfit is None or Version(software.version) < Version(unfit.torch):
            continue
        for wanted in lines:
            said = _said_by(wanted)
            if said.marker is None and (unfit.before is None or _is_older(said, unfit.before)):
                yield _unfit_at(wanted, unfit, name, software.version)
    found, program = subject.source.requirements, subject.program
    texts = [] if program is None else [file.text for file in program.files]
    for wanted in () if found is None else found.packages:
        unfit = unfit_repository(wanted.text) if wanted.requirement is None else None
        if unfit is None or Version(software.version) < Version(unfit.torch):
            continue
        if any(unfit.used_by in text for text in texts):
            yield _unfit_at(wanted, unfit, wanted.text, software.version)


def _unfit_at(wanted: WantedPackage, unfit: Unfit, name: str, torch: str) -> Finding:
    newer = f"Ask for {name}>={unfit.before}" if unfit.before else f"Do without {name}"
    return _at_line(
        wanted.place,
        f"{wanted.text} {unfit.why}: every rank ends {unfit.ends} with torch {torch}",
        f"{f'Ask for {unfit.instead}' if unfit.instead else newer}, or name an image with an older torch "
        "(`framework.version`).",
    )


def _is_older(said: Requirement, first: str) -> bool:
    """Whether a requirement takes only versions before one."""
    from packaging.version import InvalidVersion, Version

    limits = [each for each in said.specifier if each.operator in ("==", "===", "~=", "<", "<=")]
    try:
        ends = [Version(each.version.removesuffix(".*")) for each in limits]
    except InvalidVersion:
        return False
    return bool(ends) and min(ends) <= Version(first) and not said.specifier.contains(first, prereleases=True)


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


def _at_line(place: FileLine, message: str, remedy: str, severity: Severity | None = None) -> Finding:
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


def _exclude_each_other(one: Requirement, other: Requirement) -> bool:
    """Whether a version that the one names exactly is none of the other's, or the other way round."""
    return any(
        not excluding.specifier.contains(pinned.version, prereleases=True)
        for pinning, excluding in ((one, other), (other, one))
        for pinned in pinning.specifier
        if pinned.operator == "==" and not pinned.version.endswith(".*")
    )


def _nearest_file_hint(named: str, source: SourceTree) -> str:
    name = posixpath.normpath(named)
    ignored = source.why_ignored(name)
    if ignored is not None and ignored.ignore_file is not None:
        return (
            f" {ignored.ignore_file.name} leaves it out: the pattern {ignored.pattern} fits {ignored.name}."
        )
    near = nearest(name, [file.name for file in source.files if file.name.endswith((".txt", ".in"))])
    return f" Did you mean {near[0]}?" if near else ""

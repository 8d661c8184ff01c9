"""The source directory, the script that the job starts, and what of them is packed."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import SourceSubject
from launcher.source.files import largest, sizes_in_words
from launcher.source.modules import module_files, modules_in
from launcher.source.tree import SourceTree
from launcher.text.nearest import nearest
from launcher.text.sizes import size_in_words

LARGE_BYTES = 100_000_000
"""More code than this is data that came along: it is read for every plan and sent with every change."""

_SOURCE_DIR = ("code", "source_dir")
_ENTRY_POINT = ("code", "entry_point")
_MODULE = ("code", "module")


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def entry_point_is_there(subject: SourceSubject) -> Iterator[Finding]:
    """Without its script a job downloads, starts and fails on every host."""
    source, entry_point = subject.source, subject.code.entry_point
    if not source.exists:
        yield training_script.ENTRY_POINT_MISSING.at(
            _SOURCE_DIR,
            f"the source directory {source.folder} does not exist",
            remedy="Correct `code.source_dir`; it is relative to the job file.",
        )
    elif not source.files and source.problems:
        return  # `source_can_be_packed` says why nothing can be seen of it.
    elif entry_point is not None and not source.has_entry_point:
        near = nearest(entry_point, source.scripts)
        scripts = ", ".join(source.scripts) or "no scripts"
        there = f"Did you mean {near[0]}?" if near else f"There are: {scripts}."
        yield training_script.ENTRY_POINT_MISSING.at(
            _ENTRY_POINT,
            f"the entry point {entry_point} is not in {source.place}",
            remedy=f"Correct `code.entry_point`, which is relative to `code.source_dir`. {there}",
        )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def source_can_be_packed(subject: SourceSubject) -> Iterator[Finding]:
    """A link, a special file or gigabytes of data cannot go to the hosts, and nothing goes without them."""
    if subject.source.exists:
        for problem in subject.source.problems:
            yield training_script.ENTRY_POINT_MISSING.at(
                _SOURCE_DIR, problem.message.rstrip("."), remedy=problem.remedy
            )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def entry_point_is_packed(subject: SourceSubject) -> Iterator[Finding]:
    """A script that lies on the disk and yet not in the archive is missing on every host; S3 is not asked."""
    source = subject.source
    if source.is_unread:
        yield training_script.ENTRY_POINT_MISSING.at(
            _SOURCE_DIR,
            f"the code at {source.place} was not looked at, nor whether it holds {subject.code.program}",
            remedy="A submission reads it, and so does `launch check --live`.",
            severity=Severity.INFO,
            verified=False,
        )
    elif subject.code.module is not None:
        return  # `module_is_there` judges it.
    elif not source.problems and source.has_entry_point and not source.packs_entry_point:
        message, remedy = _why_not_packed(source)
        yield training_script.ENTRY_POINT_MISSING.at(_ENTRY_POINT, message, remedy=remedy)


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def code_is_small(subject: SourceSubject) -> Iterator[Finding]:
    """What is packed is downloaded and unpacked by every host before the script starts."""
    source = subject.source
    if not source.problems and source.size_bytes > LARGE_BYTES:
        yield training_script.ENTRY_POINT_MISSING.at(
            _SOURCE_DIR,
            f"the source {source.place} holds {size_in_words(source.size_bytes)} that every "
            f"host downloads, most in {sizes_in_words(largest(source.files))}",
            remedy="Leave out by .slipwayignore what the job does not need; give data as an input.",
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def module_is_there(subject: SourceSubject) -> Iterator[Finding]:
    """A module that its package does not hold fails on every host; another package may be installed."""
    source, module = subject.source, subject.code.module
    if module is None or source.problems or source.is_unread:
        return
    names = {file.name for file in source.files}
    if names.intersection(module_files(module)):
        return
    known = sorted({*modules_in(names)})
    near = nearest(module, known)
    meant = f"Did you mean {near[0]}? " if near else ""
    left_out = next(filter(None, map(source.why_ignored, module_files(module))), None)
    if left_out is not None and left_out.ignore_file is not None:
        yield training_script.ENTRY_POINT_MISSING.at(
            _MODULE,
            f"the module {module} is left out by {left_out.ignore_file.name} of "
            f"{left_out.ignore_file.parent}: the pattern {left_out.pattern} fits {left_out.name}",
            remedy=f"Change the pattern, or add the line !{left_out.name} to "
            f"{source.folder / '.slipwayignore'}.",
        )
    elif {each.partition(".")[0] for each in known} & {module.partition(".")[0]}:
        yield training_script.ENTRY_POINT_MISSING.at(
            _MODULE,
            f"the module {module} is not in {source.folder}, which holds its package: there is neither "
            f"{' nor '.join(module_files(module))}",
            remedy=f"Correct `code.module`, as Python imports it from `code.source_dir`. {meant}".rstrip(),
        )
    else:
        yield training_script.ENTRY_POINT_MISSING.at(
            _MODULE,
            f"the module {module} is not in {source.folder}: it must be installed, by the image or by the "
            "job's requirements",
            remedy=f"{meant}Correct `code.module` or `code.source_dir` if it is of the source.",
            severity=Severity.WARNING if near else Severity.INFO,
        )


def _why_not_packed(source: SourceTree) -> tuple[str, str]:
    """Why the entry point is not in the archive, and what to do."""
    entry_point = source.entry_point
    if source.entry_point_is_outside:
        return (
            f"the entry point {entry_point} is outside of {source.folder}, and only what is inside is packed",
            "Give `code.entry_point` relative to `code.source_dir`, without `..`.",
        )
    ignored = source.why_ignored(source.entry_point_name)
    if ignored is None:
        return (
            f"the entry point {entry_point} is in {source.folder} under another name, and Linux tells upper "
            "from lower case",
            "Write `code.entry_point` as the file is called.",
        )
    if ignored.ignore_file is None:
        return (
            f"the entry point {entry_point} is in {ignored.name}, which is never packed",
            "Move the script out of that folder.",
        )
    return (
        f"the entry point {entry_point} is left out by {ignored.ignore_file.name} of "
        f"{ignored.ignore_file.parent}: the pattern {ignored.pattern} fits {ignored.name}",
        f"Change the pattern, or add the line !{ignored.name} to {source.folder / '.slipwayignore'}.",
    )

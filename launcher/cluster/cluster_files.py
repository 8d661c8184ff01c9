"""Cluster files: which is meant by a name or a path, and what stands in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from launcher.cluster.specification import ClusterSpec
from launcher.documents.document import DocumentError, read_document
from launcher.documents.validation import validate
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Location
from launcher.failure_modes.model import Path as FieldPath

CLUSTERS = Path("clusters")
"""Where the cluster files are, below the folder that the CDK is called in."""

_AS_WRITTEN = (("account",), ("tags", "*"))
"""Account numbers and tags are text: `cost-centre: 0070` needs no quotes."""


class ClusterFileError(Exception):
    """A cluster file that cannot be used; `problems` has one text for each thing wrong with it."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_cluster_file(path: Path) -> ClusterSpec:
    """Read and validate a cluster file.

    Raises:
        ClusterFileError: the file cannot be read, is not YAML or does not fit the schema; all
            problems of the schema are reported at once, with line, column and code.
    """
    try:
        document = read_document(path, _AS_WRITTEN)
    except OSError as error:
        raise ClusterFileError(f"{path}: cannot be read: {error.strerror}") from error
    except DocumentError as error:
        code = job_file.UNREADABLE.code
        raise ClusterFileError(f"{error.location}: {code} {error.message}") from error
    spec, findings = validate(ClusterSpec, document)
    if spec is None:
        raise ClusterFileError(*_told(found.located(document.location) for found in findings))
    return spec


def _told(findings: Iterable[Finding]) -> Iterator[str]:
    """Each finding with its remedy; a remedy that several share, such as a table, is told once."""
    remedies: set[str] = set()
    for found in findings:
        remedy = "See above for what is possible." if found.remedy in remedies else found.remedy
        remedies.add(found.remedy)
        yield f"{found.location}: {found.code} {found.message}. {remedy}"


def cluster_file(chosen: str, folder: Path) -> Path:
    """The file that is meant: a name is that of a file in the folder; a slash or `.yaml` makes a path."""
    return Path(chosen) if _is_path(chosen) else folder / f"{chosen}.yaml"


def load_cluster(chosen: str, folder: Path) -> ClusterSpec:
    """The cluster that `-c cluster=` or a command chose: see `cluster_file`.

    Raises:
        ClusterFileError: there is no such cluster, or its file is not valid; the message lists the
            clusters that there are.
    """
    try:
        path = cluster_file(chosen, folder)
        if _is_path(chosen):
            return load_cluster_file(path)
        if not path.is_file():
            raise ClusterFileError(f"there is no cluster {chosen!r}: {path} does not exist")
        spec = load_cluster_file(path)
        if spec.name != chosen:
            # Else two files could deploy over each other's stacks.
            raise ClusterFileError(f"{path}: name: {spec.name!r} must be {chosen!r}, as the file is called")
        return spec
    except ClusterFileError as error:
        known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
        raise ClusterFileError(*error.problems, f"known clusters: {known} (in {folder})") from error


def region_in_file(name: str, folder: Path = CLUSTERS) -> str | None:
    """The region of the cluster of this name, by its file; None where there is no valid one."""
    try:
        return load_cluster(name, folder).region
    except ClusterFileError:
        return None


def field_location(file: Path, path: FieldPath) -> Location:
    """Where a field stands in a valid cluster file, or the nearest part around it that does."""
    return read_document(file, ()).location(*path)


def _is_path(chosen: str) -> bool:
    return "/" in chosen or chosen.endswith((".yaml", ".yml"))

"""Which cluster file is meant by a name or a path."""

from __future__ import annotations

from pathlib import Path

from launcher.cluster.specification import ClusterFileError, ClusterSpec, load_cluster_file
from launcher.documents.document import read_document
from launcher.failure_modes.model import Location
from launcher.failure_modes.model import Path as FieldPath

CLUSTERS = Path("clusters")
"""Where the cluster files are, below the folder that the CDK is called in."""


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

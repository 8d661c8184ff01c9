"""Manifests on this machine: files that the user names, and the cache of what was read from AWS.

Planning never calls AWS; a cluster that is named comes from this cache, which a submission renews. The cache
is a convenience: a machine without one, or with a broken one, submits all the same.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from launcher.cluster.cache_folder import cache_folder
from launcher.cluster.manifest import Cluster
from launcher.documents.document import DocumentError, read_document
from launcher.documents.files import file_mode, replace_file


class ManifestError(Exception):
    """A manifest file is not there or not what it should be, or cannot be written."""


def is_path(reference: str) -> bool:
    """Whether a job's `cluster` is a manifest's path (a slash or .json, .yaml) and not a name."""
    return "/" in reference or reference.endswith((".json", ".yaml"))


def load_manifest(path: Path) -> Cluster:
    """Read a manifest file (JSON or YAML). Raises ManifestError, naming the file and the field."""
    try:
        return Cluster.model_validate(read_document(path, ()).data)
    except OSError as error:
        raise ManifestError(f"the cluster manifest {path} cannot be read: {error.strerror}") from error
    except DocumentError as error:
        raise ManifestError(f"{path} is not a cluster manifest: {error.message}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ManifestError(f"{path} is not a cluster manifest: {field or 'file'}: {first['msg']}") from error


def cached_manifest(name: str) -> Cluster | None:
    """The manifest of a cluster as last read from AWS, or None.

    Raises ManifestError for a file that cannot be used.
    """
    folder = _clusters_folder()
    path = folder / f"{name}.json" if folder else None
    return load_manifest(path) if path and file_mode(path) else None


def cached_manifests() -> list[Cluster]:
    """All manifests that were read from AWS on this machine; unreadable files are passed over."""
    found = []
    folder = _clusters_folder()
    for path in sorted(folder.glob("*.json")) if folder else ():
        try:
            found.append(load_manifest(path))
        except ManifestError:
            continue  # Of another version; a submission to that cluster reads it again.
    return found


def cache_manifest(cluster: Cluster) -> None:
    """Keep a manifest for planning without AWS. Raises ManifestError where it cannot be kept."""
    folder = _clusters_folder()
    if folder is None:
        raise ManifestError("this user has no home folder")
    try:
        replace_file(folder / f"{cluster.name}.json", cluster.model_dump_json(indent=2))
    except OSError as error:
        raise ManifestError(f"{folder} cannot be written: {error.strerror}") from error


def _clusters_folder() -> Path | None:
    """Where the manifests are kept; None for a user without a home."""
    try:
        return cache_folder() / "clusters"
    except FileNotFoundError:
        return None

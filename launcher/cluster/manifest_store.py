"""Manifests on this machine: files that the user names, and the cache of what was read from AWS.

Planning never calls AWS; a cluster that is named comes from this cache, which a submission renews.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from launcher.cluster.manifest import Cluster
from launcher.documents.document import DocumentError, read_document


class ManifestError(Exception):
    """A manifest file is not there or not what it should be."""


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
    """The manifest of a cluster as last read from AWS, or None."""
    path = _cache_path(name)
    return load_manifest(path) if path.exists() else None


def cached_manifests() -> list[Cluster]:
    """All manifests that were read from AWS on this machine; unreadable files are passed over."""
    found = []
    for path in sorted(_cache_path("*").parent.glob("*.json")):
        try:
            found.append(load_manifest(path))
        except ManifestError:
            continue  # Of another version; a submission to that cluster reads it again.
    return found


def cache_manifest(cluster: Cluster) -> None:
    """Keep a manifest for planning without AWS."""
    path = _cache_path(cluster.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cluster.model_dump_json(indent=2), "utf-8")


def _cache_path(name: str) -> Path:
    # Only here: most commands need neither the folder nor the library.
    from platformdirs import user_cache_path

    return user_cache_path("slipway", appauthor=False) / "clusters" / f"{name}.json"

"""botocore's descriptions of services, found without a look at those of all others.

Imports botocore: to be imported where a client is made, not before.
"""

from __future__ import annotations

from pathlib import Path

from botocore.loaders import Loader, instance_cache


class ServiceModels(Loader):  # type: ignore[misc]
    """botocore's loader, which does not look through four hundred folders to know one.

    The component `data_loader` of a botocore session. Before each kind of file that botocore reads of a
    service, its own loader looks into the folders of all services for one of that kind, and so do all
    threads that want a paginator at once. The folders' names are enough: where a known service has no such
    file, its search for the newest version says so.
    """

    @instance_cache  # type: ignore[untyped-decorator]
    def list_available_services(self, type_name: str) -> list[str]:
        """The names of all services, also of those without a file of this kind."""
        folders = [folder for folder in map(Path, self.search_paths) if folder.is_dir()]
        return sorted({service.name for folder in folders for service in folder.iterdir()})

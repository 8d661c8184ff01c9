"""What botocore and moto do again for each client and each call, done once in a process.

It takes half the time of a test on emulated AWS.
"""

from __future__ import annotations

import os
from functools import cache
from inspect import isfunction

from botocore.loaders import JSONFileLoader, Loader
from moto.core import responses


@cache
def install() -> None:
    """From now on, until the process ends; may be called more than once."""
    # Every new EC2 lists two thousand machine images.
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    # Every new session reads the models of its services, and looks for each in the folders of all others.
    JSONFileLoader.load_file = lambda self, file_path: _model(file_path)
    Loader.list_available_services = lambda self, type_name: _services(type_name, *self.search_paths)
    # Every call lists and sorts the methods of its service, to see whether it has the one that is called.
    responses.method_names_from_class = _MethodNames


_read = JSONFileLoader.load_file
_list = Loader.list_available_services


@cache
def _model(path: str) -> object:
    return _read(JSONFileLoader(), path)


@cache
def _services(type_name: str, *paths: str) -> list[str]:
    found: list[str] = _list(Loader(paths, include_default_search_paths=False), type_name)
    return found


class _MethodNames:
    """The names of a class' methods, only good for asking whether one is among them."""

    def __init__(self, owner: type) -> None:
        self._owner = owner

    def __contains__(self, name: str) -> bool:
        return isfunction(getattr(self._owner, name, None))

"""What botocore and moto do again for each client and each call, done once in a process.

It takes half the time of a test on emulated AWS.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from inspect import isfunction
from typing import Any

from botocore import hooks
from botocore.client import ClientCreator
from botocore.hooks import EventAliaser, HierarchicalEmitter, NodeList, _PrefixTrie
from botocore.loaders import JSONFileLoader, Loader
from botocore.model import ServiceModel
from moto.core import models, responses
from moto.core.serialize import AttributePicker, AttributePickerContext, XFormedAttributePicker


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
    # Every new client makes the model of its service, and a function for each operation.
    ClientCreator._load_service_model = _service_model
    for name in ("_create_methods", "_create_name_mapping"):
        setattr(ClientCreator, name, _once_for_each_model(getattr(ClientCreator, name)))
    # Every new client copies the handlers of all events, looks for old names among their names and inspects
    # those that it adds.
    _PrefixTrie._recursive_copy = lambda self, node: _copied(node)
    EventAliaser._alias_event_name = lambda self, name: _new_name(name)
    hooks.accepts_kwargs = _accepts_kwargs
    # Every emulated account makes 1,300 patterns of addresses anew.
    models.CallbackResponse = cache(models.CallbackResponse)
    # Every member of an answer is looked for under six names, made of the model's and the object's class.
    for picker in (AttributePicker, XFormedAttributePicker):
        picker.get_possible_keys = _once_for_each_member(picker.get_possible_keys)


_read = JSONFileLoader.load_file
_list = Loader.list_available_services


@cache
def _model(path: str) -> object:
    return _read(JSONFileLoader(), path)


@cache
def _services(type_name: str, *paths: str) -> list[str]:
    found: list[str] = _list(Loader(paths, include_default_search_paths=False), type_name)
    return found


_new_name = cache(partial(EventAliaser._alias_event_name, EventAliaser(HierarchicalEmitter())))

_models: dict[int, tuple[object, ServiceModel]] = {}
"""By the identity of what was read, which lives as long as its model."""


def _service_model(self: ClientCreator, service_name: str, api_version: str | None = None) -> ServiceModel:
    read = self._loader.load_service_model(service_name, "service-2", api_version=api_version)
    if id(read) not in _models:
        _models[id(read)] = read, ServiceModel(read, service_name=service_name)
    return _models[id(read)][1]


def _once_for_each_model(make: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    made: dict[ServiceModel, dict[str, Any]] = {}

    def make_once(self: ClientCreator, service_model: ServiceModel) -> dict[str, Any]:
        if service_model not in made:
            made[service_model] = make(self, service_model)
        return dict(made[service_model])

    return make_once


def _copied(node: dict[str, Any]) -> dict[str, Any]:
    """A copy of a tree of handlers, but not of the handlers."""
    copy = dict(node)
    for key, value in node.items():
        if type(value) is dict:
            copy[key] = _copied(value)
        elif type(value) is NodeList:
            copy[key] = NodeList(value.first[:], value.middle[:], value.last[:])
    return copy


def _accepts_kwargs(handler: Callable[..., Any]) -> str | None:
    function = getattr(handler, "__func__", handler)
    return _kwargs_of(function) if isfunction(function) else _find_kwargs(handler)


_find_kwargs = hooks.accepts_kwargs
_kwargs_of = cache(_find_kwargs)


def _once_for_each_member(find: Callable[..., Iterable[str]]) -> Callable[..., Sequence[str]]:
    def find_once(self: AttributePicker, context: AttributePickerContext) -> Sequence[str]:
        # With the shape, of which there is one for each member of a structure.
        known = vars(context.shape).setdefault("keys_by_class", {})
        asked = find, context.key, type(context.obj)
        if asked not in known:
            known[asked] = tuple(dict.fromkeys(find(self, context)))
        return known[asked]

    return find_once


class _MethodNames:
    """The names of a class' methods, only good for asking whether one is among them."""

    def __init__(self, owner: type) -> None:
        self._owner = owner

    def __contains__(self, name: str) -> bool:
        return isfunction(getattr(self._owner, name, None))
